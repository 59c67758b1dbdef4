// Workers that pump: messages are delivered on time without a timer.

package delayq

import (
	"bufio"
	"context"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A worker that slept until its next poll would deliver most messages later than this.
const lateBy = pollAfter / 2 * time.Millisecond

// Time for a busy machine.
const busy = 5 * time.Second

func pumps(w *Worker) { w.Pump, w.Concurrency = true, 100 }

// owners returns the owners of the shards of a deployment.
func owners(t *testing.T, connection redis.UniversalClient, client *Client) (found []string) {
	t.Helper()
	for shard := 0; shard < must(client.shards(context.Background())); shard++ {
		owner, _ := connection.HGet(context.Background(), client.key(shard, "meta"), "owner").Result()
		found = append(found, owner)
	}
	return found
}

func every(owners []string, is func(string) bool) bool {
	for _, owner := range owners {
		if !is(owner) {
			return false
		}
	}
	return true
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%s did not come about", what)
		}
	}
}

func listens(t *testing.T, connection *redis.Client, client *Client, programs int64) func() bool {
	channel := client.key(0, "wake")
	return func() bool {
		return must(connection.PubSubShardNumSub(context.Background(), channel).Result())[channel] == programs
	}
}

// dueFrom returns messages that are due one after the other, a ms apart.
func dueFrom(after time.Duration, count int) (messages []Message) {
	for from := time.Now().Add(after).Truncate(time.Millisecond); len(messages) < count; from = from.Add(time.Millisecond) {
		messages = append(messages, Message{Topic: "orders", ID: fmt.Sprint("order-", from.UnixMilli()), Due: At(from)})
	}
	return messages
}

// onTime receives deliveries, half of them soon.
func onTime(t *testing.T, worker atWork, count int) {
	t.Helper()
	if late := received(t, worker, count); late[count/2] > lateBy {
		t.Fatal(late[count/2])
	}
}

// received receives deliveries that each come once, not before their due time, and returns how late each was.
func received(t *testing.T, worker atWork, count int) (sorted []time.Duration) {
	t.Helper()
	seen, late := map[string]bool{}, []time.Duration{}
	for len(late) < count {
		one := within(t, "a delivery", worker.handed)
		if seen[one.ID] {
			t.Fatalf("%s came twice", one.ID)
		}
		seen[one.ID], late = true, append(late, time.Since(one.Due))
	}
	sort.Slice(late, func(i, j int) bool { return late[i] < late[j] })
	if late[0] < -time.Millisecond {
		t.Fatal(late[0])
	}
	return late
}

func TestOwnIDsAreDeliveredOnTimeWithoutATimer(t *testing.T) {
	client := deployment(t, connect(t), "pump-on-time", 2)
	worker := work(t, client, "orders", nothing, pumps)
	must(client.PutMany(context.Background(), dueFrom(300*time.Millisecond, 500)))
	onTime(t, worker, 500)
	if err := worker.close(t); err != nil {
		t.Fatal(err)
	}
}

func TestANearerPutWakesAWorkerThatSleeps(t *testing.T) {
	client, ctx := deployment(t, connect(t), "pump-nearer", 2), context.Background()
	worker := work(t, client, "orders", nothing, pumps)
	for n := 0; n < 8; n++ {
		must(client.Put(ctx, Message{Topic: "orders", Due: After(time.Hour)}))
	}
	for n := 0; n < 8; n++ {
		must(client.Put(ctx, Message{Topic: "orders", Due: After(50 * time.Millisecond)}))
		onTime(t, worker, 1)
	}
}

func TestAServerThatForgetsItsScriptsAndAListenerThatIsCutOffLoseNothing(t *testing.T) {
	connection, ctx := connect(t), context.Background()
	client := deployment(t, connection, "pump-flush", 2)
	worker := work(t, client, "orders", nothing, pumps)
	must(client.PutMany(ctx, dueFrom(100*time.Millisecond, 500)))
	for len(worker.handed) < 500 {
		must(connection.ScriptFlush(ctx).Result())
		must(connection.ClientKillByFilter(ctx, "TYPE", "pubsub").Result())
		time.Sleep(50 * time.Millisecond)
	}
	must(client.Put(ctx, Message{Topic: "orders", ID: "after", Due: After(20 * time.Millisecond)}))
	received(t, worker, 501)
}

func TestAHandOverWaitsForNoLock(t *testing.T) {
	connection := connect(t)
	client := deployment(t, connection, "pump-hand-over", 2)
	worker := work(t, client, "orders", nothing, pumps)
	eventually(t, "a claim", func() bool {
		return every(owners(t, connection, client), func(owner string) bool { return owner != "" })
	})
	first, other := owners(t, connection, client), must(New(connect(t), "pump-hand-over"))
	t.Cleanup(other.Close)
	work(t, other, "orders", nothing, pumps)
	eventually(t, "a second worker", listens(t, connection, client, 2))
	began := time.Now()
	worker.stop()
	isOther := func(owner string) bool { return owner != first[0] && owner != first[1] }
	eventually(t, "a hand-over", func() bool { return every(owners(t, connection, client), isOther) })
	if took := time.Since(began); took > lockMs*time.Millisecond/2 {
		t.Fatal(took)
	}
	if err := within(t, "the worker's end", worker.done); err != nil {
		t.Fatal(err)
	}
}

// pumpInAProcess is what TestMain runs instead of the tests in a process of its own: a worker that pumps and prints ids.
func pumpInAProcess(namespace string) {
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: os.Getenv("DELAYQ_TEST_SOCKET")})
	handle := func(_ context.Context, delivery *Delivery) error {
		fmt.Println(delivery.ID)
		return nil
	}
	panic(Worker{Client: must(New(connection, namespace)), Topics: []string{"orders"}, Handle: handle, Pump: true}.Run(context.Background()))
}

func TestAWorkerThatWasKilledIsReplacedWhenItsLockEnds(t *testing.T) {
	connection, ctx := connect(t), context.Background()
	client := deployment(t, connection, "pump-killed", 2)
	another := func() (*exec.Cmd, *bufio.Scanner) {
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), "DELAYQ_TEST_PUMP=pump-killed", "DELAYQ_TEST_SOCKET="+socket)
		lines := bufio.NewScanner(must(process.StdoutPipe()))
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kill(process) })
		return process, lines
	}
	owns := func(process *exec.Cmd) func() bool {
		isIts := func(owner string) bool { return strings.Contains(owner, fmt.Sprintf(":%d-", process.Process.Pid)) }
		return func() bool { return every(owners(t, connection, client), isIts) }
	}
	one, _ := another()
	eventually(t, "a claim", owns(one))
	other, lines := another()
	eventually(t, "a second worker", listens(t, connection, client, 2))
	kill(one)
	killed := time.Now()
	must(client.Put(ctx, Message{Topic: "orders", ID: "order-1", Due: After(20 * time.Millisecond)}))
	if !lines.Scan() || lines.Text() != "order-1" {
		t.Fatal(lines.Text())
	}
	eventually(t, "a claim of the other", owns(other))
	if took := time.Since(killed); took > lockMs*time.Millisecond+time.Second+busy {
		t.Fatal(took)
	}
}

func TestAWorkerThatPumpsCostsLessThanOneCallInTwoSecondsMore(t *testing.T) {
	at, _, _ := ownServer(t)
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: at})
	t.Cleanup(func() { _ = connection.Close() })
	client, ctx := deployment(t, connection, "dq", 1), context.Background()
	worker := work(t, client, "orders", nothing, pumps)
	must(client.Put(ctx, Message{Topic: "orders", Due: After(time.Hour)}))
	time.Sleep(500 * time.Millisecond)
	commands := commandsDuring(t, connection, func() { time.Sleep(12 * time.Second) })
	if err := worker.close(t); err != nil || len(commands) > 12+6 { // one command a second is the worker's own
		t.Fatal(err, commands)
	}
}

func TestARedisThatWasSilentIsPumpedAgain(t *testing.T) {
	at, server, _ := ownServer(t)
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: at})
	t.Cleanup(func() { _ = connection.Close() })
	client, ctx := deployment(t, connection, "dq", 2), context.Background()
	client.Timeout = time.Second
	worker := work(t, client, "orders", nothing, pumps)
	must(client.PutMany(ctx, append(dueFrom(0, 20), dueFrom(1500*time.Millisecond, 20)...)))
	eventually(t, "the first 20", func() bool { return len(worker.handed) == 20 })
	_ = server().Process.Signal(syscall.SIGSTOP)
	time.Sleep(2500 * time.Millisecond)
	_ = server().Process.Signal(syscall.SIGCONT)
	must(client.PutMany(ctx, dueFrom(500*time.Millisecond, 20)))
	eventually(t, "all of them", func() bool { return len(worker.handed) == 60 })
}

func TestATimerThatJoinsAndLeavesUnderLoadLosesAndRepeatsNothing(t *testing.T) {
	connection, ctx := connect(t), context.Background()
	client := deployment(t, connection, "pump-timer", 2)
	workers := []atWork{work(t, client, "orders", nothing, pumps), work(t, client, "orders", nothing, pumps)}
	isOver, loaded := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-isOver:
				loaded <- n
				return
			case <-time.After(5 * time.Millisecond):
				after := time.Duration(rand.Intn(500)) * time.Millisecond
				must(client.Put(ctx, Message{Topic: "orders", ID: fmt.Sprint("order-", n), Due: After(after)}))
			}
		}
	}()
	isPumped := func(byWorkers bool) func() bool {
		is := func(owner string) bool { return owner != "" && strings.HasPrefix(owner, "worker/") == byWorkers }
		return func() bool { return every(owners(t, connection, client), is) }
	}
	for round := 0; round < 2; round++ {
		eventually(t, "a claim of workers", isPumped(true))
		timer := startTimer(t, socket, "pump-timer", 2)
		eventually(t, "a claim of the timer", isPumped(false))
		time.Sleep(time.Second)
		_ = timer.Process.Signal(syscall.SIGTERM)
		_ = timer.Wait()
	}
	eventually(t, "a claim of workers", isPumped(true))
	close(isOver)
	put, seen := <-loaded, map[string]bool{}
	for len(seen) < put {
		select {
		case one := <-workers[0].handed:
			seen[one.ID] = !seen[one.ID]
		case one := <-workers[1].handed:
			seen[one.ID] = !seen[one.ID]
		case <-time.After(20 * time.Second):
			t.Fatalf("%d of %d", len(seen), put)
		}
	}
	for id, isOnce := range seen {
		if !isOnce {
			t.Errorf("%s came twice", id)
		}
	}
}

func TestAWorkerPumpsTheSuccessorOfAMasterThatWasKilled(t *testing.T) {
	for _, kind := range []string{"sentinel", "cluster"} {
		t.Run(kind, func(t *testing.T) {
			group, ctx := startGroup(t, kind), context.Background()
			t.Cleanup(group.end)
			client := deployment(t, group.connect(t, nil), "dq", 8)
			client.Timeout = time.Second
			worker := work(t, client, "orders", nothing, pumps)
			for _, name := range []string{"before", "after"} {
				for n := 0; n < 32; n++ {
					eventually(t, "a put", func() bool {
						put, err := client.Put(ctx, Message{Topic: "orders", ID: fmt.Sprint(name, "-", n), Due: After(50 * time.Millisecond)})
						return err == nil && put.Accepted()
					})
				}
				for left := 32; left > 0; {
					if strings.HasPrefix(within(t, name, worker.handed).ID, name) {
						left--
					}
				}
				if name == "before" {
					group.does("kill", "{dq:0}:meta")
				}
			}
		})
	}
}
