// The helpers for tests: isolated deployments, what is pending, promotions and drains; and a reserve that promotes.

package delayqtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/delayq/delayq/clients/go"
	"github.com/redis/go-redis/v9"
)

var socket string
var far = time.UnixMilli(4_102_444_800_000)

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "delayq-go-")
	if err != nil {
		panic(err)
	}
	socket = filepath.Join(folder, "s")
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "")
	if err := server.Start(); err != nil {
		panic(err)
	}
	probe := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	for probe.Ping(context.Background()).Err() != nil {
	}
	probe.Close()
	code := m.Run()
	_ = server.Process.Kill()
	_ = server.Wait()
	os.RemoveAll(folder)
	os.Exit(code)
}

func connect(t testing.TB) *redis.Client {
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// onEach runs a test on one shard, and on seven.
func onEach(t *testing.T, work func(t *testing.T, queue *Deployment)) {
	for _, shards := range []int{1, 7} {
		t.Run(fmt.Sprint("shards=", shards), func(t *testing.T) { work(t, Over(t, connect(t), shards)) })
	}
}

// failing is a test that may fail: Fatal ends its goroutine.
type failing struct {
	testing.TB
	said     string
	cleanups []func()
}

func (f *failing) Helper()            {}
func (f *failing) Cleanup(end func()) { f.cleanups = append(f.cleanups, end) }
func (f *failing) Fatal(args ...any) {
	f.said = fmt.Sprint(args...)
	runtime.Goexit()
}
func (f *failing) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }
func (f *failing) Errorf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

// failed returns what a test that fails says.
func failed(t *testing.T, work func(t testing.TB)) string {
	t.Helper()
	inner, done := &failing{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		work(inner)
	}()
	<-done
	for _, end := range inner.cleanups {
		end()
	}
	if inner.said == "" {
		t.Error("the test did not fail")
	}
	return inner.said
}

func same(t *testing.T, found, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(found, wanted) {
		t.Fatalf("%v, not %v", found, wanted)
	}
}

func put(t testing.TB, queue *Deployment, messages ...delayq.Message) {
	t.Helper()
	outcomes, err := queue.Client.PutMany(context.Background(), messages)
	for _, outcome := range outcomes {
		if !outcome.Accepted() {
			t.Fatal(outcome)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func order(id string, after time.Duration) delayq.Message {
	return delayq.Message{Topic: "orders", ID: id, Payload: []byte(id), Due: delayq.After(after)}
}

func many(topic string, count int) (messages []delayq.Message) {
	for n := 0; n < count; n++ {
		id := fmt.Sprintf("%s-%d", topic, n)
		messages = append(messages, delayq.Message{Topic: topic, ID: id, Payload: []byte("x"), Due: delayq.At(far.Add(time.Duration(n) * time.Second))})
	}
	return messages
}

func named(topic string, from, to int) (ids []string) {
	for n := from; n < to; n++ {
		ids = append(ids, fmt.Sprintf("%s-%d", topic, n))
	}
	return ids
}

func ids(drained []Drained) (ids []string) {
	for _, one := range drained {
		ids = append(ids, one.ID)
	}
	return ids
}

func nothing(context.Context, *delayq.Delivery) error { return nil }

func TestPendingMessagesAreShownInTheOrderOfDueTimesWithAllThatATestAsserts(t *testing.T) {
	onEach(t, func(t *testing.T, queue *Deployment) {
		headers := []delayq.Header{{Name: "kind", Value: "gift"}}
		put(t, queue,
			delayq.Message{Topic: "orders", ID: "b", Payload: []byte("b"), Due: delayq.At(far.Add(time.Second)), Group: "user-5", Headers: headers},
			delayq.Message{Topic: "orders", ID: "a", Payload: []byte("a"), Due: delayq.At(far)},
			delayq.Message{Topic: "orders", ID: "now", Payload: []byte("now")},
			delayq.Message{Topic: "mails", ID: "x", Payload: []byte("x"), Due: delayq.At(far)})
		pending := queue.Pending("orders")
		same(t, pending[0].ID, "now")
		same(t, pending[1:], []Pending{{"a", far, []byte("a"), "", nil}, {"b", far.Add(time.Second), []byte("b"), "user-5", headers}})
	})
}

func TestAllOfATopicIsPromotedEvenWhatBecameDueSince(t *testing.T) {
	onEach(t, func(t *testing.T, queue *Deployment) {
		put(t, queue, order("soon", time.Millisecond), order("later", time.Hour))
		put(t, queue, many("mails", 1)...)
		time.Sleep(10 * time.Millisecond) // it has to become due: no timer notices
		same(t, []int64{queue.PromoteAll("orders"), queue.PromoteAll("orders"), queue.PromoteAll("nothing")}, []int64{2, 0, 0})
		drained := ids(queue.Drain(nothing, "orders"))
		sort.Strings(drained)
		same(t, drained, []string{"later", "soon"})
		same(t, len(queue.Pending("mails")), 1)
	})
}

func TestADrainDeliversEverythingInTheOrderOfDueTimesWithWhatHandlersPut(t *testing.T) {
	onEach(t, func(t *testing.T, queue *Deployment) {
		put(t, queue, order("order-3", 3*time.Hour), order("order-1", time.Hour), order("order-2", 2*time.Hour))
		drained := queue.Drain(func(_ context.Context, one *delayq.Delivery) error {
			if one.ID == "order-1" {
				put(t, queue, delayq.Message{Topic: "mails", ID: "mail", Due: delayq.After(90 * time.Minute)})
			}
			return nil
		}, "orders", "mails")
		same(t, ids(drained), []string{"order-1", "mail", "order-2", "order-3"})
		same(t, drained[2], Drained{Topic: "orders", ID: "order-2", Payload: []byte("order-2"), Attempt: 1, Word: delayq.Delivered})
		same(t, len(queue.Pending("orders"))+len(queue.Drain(nothing, "orders")), 0)
	})
}

func TestADrainSettlesAsAWorkerDoesAndWaitsForNoBackOff(t *testing.T) {
	onEach(t, func(t *testing.T, queue *Deployment) {
		attempts := uint16(3)
		backoff := delayq.Fixed(5 * time.Hour)
		if _, err := queue.Client.Topic("orders").SetPolicy(context.Background(), delayq.Policy{MaxAttempts: &attempts, Backoff: &backoff}); err != nil {
			t.Fatal(err)
		}
		put(t, queue, order("failing", time.Hour), order("wrong", time.Hour), order("own", time.Hour), order("panic", time.Hour))
		drained := queue.Drain(func(ctx context.Context, one *delayq.Delivery) error {
			switch one.ID {
			case "own":
				_, err := one.Bury(ctx, "by itself")
				return err
			case "wrong":
				return delayq.Bury(errors.New("no such order"))
			case "panic":
				panic("always")
			}
			return errors.New("always")
		}, "orders")
		words := map[string]string{}
		for _, one := range drained {
			words[one.ID] += fmt.Sprint(one.Attempt, one.Word, " ")
			same(t, one.Err == nil, one.ID == "own")
		}
		thrice := "1delayed 2delayed 3buried "
		same(t, words, map[string]string{"failing": thrice, "panic": thrice, "wrong": "1buried ", "own": "1buried "})
	})
}

func TestAHandlerThatPutsOrFailsForEverIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, queue *Deployment) {
		put(t, queue, order("order-0", time.Hour))
		number := 0
		putNext := func(context.Context, *delayq.Delivery) error {
			number++
			put(t, queue, order(fmt.Sprint("order-", number), time.Hour))
			return nil
		}
		draining := func(handle delayq.Handler, most int) string {
			return failed(t, func(inner testing.TB) {
				bounded := *queue
				bounded.t, bounded.MaxDeliveries = inner, most
				bounded.Drain(handle, "orders")
			})
		}
		wanted := "orders is not drained after 5 deliveries, order-5 is next: does the handler put messages for ever"
		if said := draining(putNext, 5); !strings.HasPrefix(said, wanted) {
			t.Fatal(said)
		}
		same(t, queue.Pending("orders")[0].ID, "order-5")
		forever := uint16(0)
		if _, err := queue.Client.Topic("orders").SetPolicy(context.Background(), delayq.Policy{MaxAttempts: &forever}); err != nil {
			t.Fatal(err)
		}
		fail := func(context.Context, *delayq.Delivery) error { return errors.New("no key") }
		if said := draining(fail, 7); !strings.Contains(said, "after 7 deliveries, order-5 is next") || !strings.Contains(said, `"no key"`) {
			t.Fatal(said)
		}
		for _, most := range []int{0, -1, math.MinInt64} {
			same(t, draining(nothing, most), fmt.Sprintf("MaxDeliveries is %d: at least 1", most))
		}
		same(t, draining(nil, 1), "a drain has a handler")
	})
}

func TestAMessageThatCannotBeDeliveredIsNamed(t *testing.T) {
	onEach(t, func(t *testing.T, queue *Deployment) {
		paused := true
		put(t, queue, order("order-1", time.Hour))
		put(t, queue, many("mails", 1)...)
		queue.PromoteAll("orders")
		queue.reserve(delayq.Reserve{Topics: []string{"orders"}})
		if _, err := queue.Client.Topic("mails").SetPolicy(context.Background(), delayq.Policy{Paused: &paused}); err != nil {
			t.Fatal(err)
		}
		for topic, wanted := range map[string]string{
			"orders": "orders has leased messages (1): before a drain, settle", "mails": "mails has messages (1) that cannot be reserved: is it paused",
		} {
			said := failed(t, func(inner testing.TB) {
				own := *queue
				own.t = inner
				own.Drain(nothing, topic)
			})
			if !strings.HasPrefix(said, wanted) {
				t.Error(said)
			}
		}
	})
}

func TestADeploymentIsRemovedWholeAndNothingOfOthers(t *testing.T) {
	connection, ctx := connect(t), context.Background()
	other := New(t, "unix://"+socket)
	put(t, other, many("orders", 1)...)
	connection.Set(ctx, "foreign", 1, 0)
	defer connection.Del(ctx, "foreign")
	before := connection.DBSize(ctx).Val()
	t.Run("removed", func(t *testing.T) {
		queue := Over(t, connection, 3)
		messages := many("orders", 3000)
		for i := range messages {
			messages[i].Group = fmt.Sprint("g-", i)
		}
		put(t, queue, messages...)
	})
	same(t, connection.DBSize(ctx).Val(), before)
	same(t, len(other.Pending("orders")), 1)
}

func TestWhoCouldNotRemoveADeploymentIsRefusedAndOddArgumentsToo(t *testing.T) {
	connection, ctx := connect(t), context.Background()
	if err := connection.Do(ctx, "ACL", "SETUSER", "builder", "on", "nopass", "~*", "+@all", "-scan").Err(); err != nil {
		t.Fatal(err)
	}
	before := connection.DBSize(ctx).Val()
	builder := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, Username: "builder", Password: "x"})
	defer builder.Close()
	said := failed(t, func(t testing.TB) { Over(t, builder, 1) })
	if !strings.Contains(said, "none was created: ") || !strings.Contains(said, "scan") {
		t.Error(said)
	}
	same(t, connection.DBSize(ctx).Val(), before)
	for _, shards := range []int{math.MinInt64, -1, 0, 4097, 1 << 31, math.MaxInt64} {
		same(t, failed(t, func(t testing.TB) { Over(t, connection, shards) }), fmt.Sprintf("shards is %d: 1 to 4096", shards))
	}
	same(t, failed(t, func(t testing.TB) { Over(t, nil, 1) }), "there is no connection")
	for url, wanted := range map[string]string{"": "scheme", "http://h": "scheme", "redis+cluster://h:1": "the URL names a Redis Cluster"} {
		if said := failed(t, func(t testing.TB) { New(t, url) }); !strings.Contains(said, wanted) {
			t.Error(url, said)
		}
	}
	queue := New(t, "unix://"+socket)
	for _, topic := range []string{"", "a b", "\xff", strings.Repeat("x", 129)} {
		for _, call := range []func(*Deployment){
			func(d *Deployment) { d.Pending(topic) }, func(d *Deployment) { d.PromoteAll(topic) }, func(d *Deployment) { d.Drain(nothing, topic) },
		} {
			said := failed(t, func(t testing.TB) {
				own := *queue
				own.t = t
				call(&own)
			})
			if !strings.Contains(said, "topic") {
				t.Error(topic, said)
			}
		}
	}
}

// reserve returns the ids of a reserve that promotes until `seconds` after the first due time.
func reserve(t *testing.T, queue *Deployment, max, seconds int, topics ...string) (ids []string) {
	t.Helper()
	until := far.Add(time.Duration(seconds) * time.Second)
	found, err := queue.Client.Reserve(context.Background(), delayq.Reserve{Topics: topics, Max: max, PromoteUntil: until})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range found {
		ids = append(ids, one.ID)
	}
	return ids
}

func states(queue *Deployment, topic string) [3]int64 {
	numbers := queue.count(topic)
	return [3]int64{numbers.Delayed, numbers.Ready, numbers.Leased}
}

func TestAReserveHandsTheEarliestDueOfAllShardsOutFirstAndPromotesNoMore(t *testing.T) {
	onEach(t, func(t *testing.T, queue *Deployment) {
		put(t, queue, many("orders", 40)...)
		same(t, reserve(t, queue, 1, 9, "orders"), named("orders", 0, 1))
		same(t, states(queue, "orders"), [3]int64{39, 0, 1})
		same(t, reserve(t, queue, 5, 9, "orders"), named("orders", 1, 6))
		same(t, states(queue, "orders"), [3]int64{34, 0, 6})
		same(t, reserve(t, queue, 100, 9, "orders"), named("orders", 6, 10))
		same(t, len(reserve(t, queue, 100, 9, "orders")), 0)
		same(t, states(queue, "orders"), [3]int64{30, 0, 10})
		if _, err := queue.Client.Cancel(context.Background(), "orders", "orders-10", ""); err != nil {
			t.Fatal(err)
		}
		past := delayq.Reserve{Topics: []string{"orders"}, PromoteUntil: time.Now().Add(-time.Second), Wait: time.Millisecond}
		same(t, queue.reserve(past) == nil, true)
		same(t, reserve(t, queue, 1, 20, "orders"), named("orders", 11, 12))
	})
}

func TestAReserveHandsReadyMessagesOutBeforeAnyIsPromotedAndTopicsByPriority(t *testing.T) {
	onEach(t, func(t *testing.T, queue *Deployment) {
		put(t, queue, append(many("orders", 3), many("mails", 3)...)...)
		put(t, queue, order("ready-0", 0), order("ready-1", 0), order("ready-2", 0), order("ready-3", 0))
		same(t, len(reserve(t, queue, 3, 0, "mails", "orders")), 3)
		same(t, []any{states(queue, "orders"), states(queue, "mails")}, []any{[3]int64{3, 1, 3}, [3]int64{3, 0, 0}})
		last := reserve(t, queue, 5, 1, "mails", "orders")
		same(t, last[1:], append(named("mails", 0, 2), named("orders", 0, 2)...))
		same(t, last[0][:6], "ready-")
	})
}

func TestMoreThanACallOfAScriptTakesArePromotedInSteps(t *testing.T) {
	onEach(t, func(t *testing.T, queue *Deployment) {
		put(t, queue, many("orders", 600)...)
		same(t, reserve(t, queue, 500, 450, "orders"), named("orders", 0, 451))
		same(t, states(queue, "orders"), [3]int64{149, 0, 451})
	})
}

func TestATimeThatCannotBeMeantIsRefusedByName(t *testing.T) {
	queue := New(t, "unix://"+socket)
	for _, at := range []time.Time{time.Unix(0, 0), time.UnixMilli(1 << 31), time.UnixMilli(1 << 53), time.UnixMilli(1_893_456_000),
		time.UnixMilli(1_893_456_000_000_000), time.Unix(math.MaxInt64, 0), time.Unix(math.MinInt64, 0)} {
		_, err := queue.Client.Reserve(context.Background(), delayq.Reserve{Topics: []string{"orders"}, PromoteUntil: at})
		if err == nil || !strings.HasPrefix(err.Error(), "PromoteUntil is ") {
			t.Error(at, err)
		}
	}
}

func TestTheGuidesTestPasses(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/guides/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(guide, -1)
	same(t, len(blocks), 1)
	text := strings.ReplaceAll(string(blocks[0][1]), "redis://127.0.0.1:6379", "unix://"+socket)
	module, _ := filepath.Abs("..")
	user := t.TempDir()
	if err := os.WriteFile(filepath.Join(user, "expiries_test.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path := "github.com/delayq/delayq/clients/go"
	for _, args := range [][]string{
		{"mod", "init", "expiries"}, {"mod", "edit", "-replace", path + "=" + module, "-require", path + "@v0.0.0"}, {"vet", "./..."}, {"test", "./..."},
	} {
		command := exec.Command("go", args...)
		command.Dir, command.Env = user, append(os.Environ(), "GOFLAGS=-mod=mod")
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s %s", err, said)
		}
	}
}

func TestOfAPausedTopicAReservePromotesNoMoreThanThereIsRoomFor(t *testing.T) {
	onEach(t, func(t *testing.T, queue *Deployment) {
		put(t, queue, many("orders", 20)...)
		paused := delayq.Policy{Paused: delayq.Set(true)}
		if _, err := queue.Client.Topic("orders").SetPolicy(context.Background(), paused); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < 3; n++ {
			same(t, len(reserve(t, queue, 3, 19, "orders")), 0)
		}
		same(t, states(queue, "orders"), [3]int64{17, 3, 0})
	})
}
