// Workers with a real timer.

package delayq

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

type atWork struct {
	handed chan *Delivery
	errors chan error
	stop   context.CancelFunc
	done   chan error
}

func work(t *testing.T, client *Client, topic string, handle Handler, options ...func(*Worker)) atWork {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	w := atWork{make(chan *Delivery, 1000), make(chan error, 1000), stop, make(chan error, 1)}
	worker := Worker{Client: client, Topics: []string{topic}}
	worker.OnError = func(_ *Delivery, err error) { w.errors <- err }
	worker.Handle = func(ctx context.Context, delivery *Delivery) error {
		w.handed <- delivery
		return handle(ctx, delivery)
	}
	for _, option := range options {
		option(&worker)
	}
	go func() { w.done <- worker.Run(ctx) }()
	t.Cleanup(stop)
	return w
}

// close stops the worker, and returns the error of Run.
func (w atWork) close(t *testing.T) error {
	t.Helper()
	w.stop()
	return within(t, "the worker's end", w.done)
}

func nothing(context.Context, *Delivery) error { return nil }

func counted(t *testing.T, client *Client, topic string) Numbers {
	t.Helper()
	return must(client.Topic(topic).Count(context.Background()))
}

func TestWorkers(t *testing.T) {
	client, ctx := timed(t, socket, "workers"), context.Background()

	t.Run("a message is handed to a worker when it is due, and is over once that returns", func(t *testing.T) {
		worker := work(t, client, "plain", nothing)
		put := must(client.Put(ctx, Message{Topic: "plain", ID: "order-17", Payload: []byte("x"), Due: After(300 * time.Millisecond)}))
		if one := within(t, "it", worker.handed); one.ID != "order-17" || time.Now().Before(put.Time) {
			t.Fatal(one, put)
		}
		if err := worker.close(t); err != nil || counted(t, client, "plain").Delivered != 1 {
			t.Fatal(err, counted(t, client, "plain"))
		}
	})

	t.Run("a handler acks its message by the put of the next one, and one that breaks a rule is an error", func(t *testing.T) {
		worker := work(t, client, "drips", func(ctx context.Context, delivery *Delivery) error {
			next := Message{Topic: delivery.Topic, ID: delivery.ID, Payload: append(delivery.Payload, '+'),
				Due: After(20 * time.Millisecond), MaxAttempts: 1}
			if len(delivery.Payload) == 3 {
				next.ID = "another"
			}
			_, err := delivery.AckAndPut(ctx, next)
			return err
		})
		must(client.Put(ctx, Message{Topic: "drips", ID: "drip", Payload: []byte("1")}))
		for _, payload := range []string{"1", "1+", "1++"} {
			if one := within(t, "it", worker.handed); string(one.Payload) != payload || one.ID != "drip" || one.Attempt != 1 {
				t.Fatal(one)
			}
		}
		if err := within(t, "the refusal", worker.errors); !strings.Contains(err.Error(), "a next message has no ID, or the ID") {
			t.Fatal(err)
		}
		if err := worker.close(t); err != nil || counted(t, client, "drips").Delivered != 2 || counted(t, client, "drips").Dead != 1 {
			t.Fatal(err, counted(t, client, "drips"))
		}
	})

	t.Run("what a handler returns an error for comes again by the topic's back-off, and is counted", func(t *testing.T) {
		must(client.Topic("again").SetPolicy(ctx, Policy{Backoff: Set(Fixed(50 * time.Millisecond))}))
		worker := work(t, client, "again", func(_ context.Context, delivery *Delivery) error {
			switch delivery.Attempt {
			case 1:
				return errors.New("not now")
			case 2:
				panic("nor now")
			}
			return nil
		})
		must(client.Put(ctx, Message{Topic: "again"}))
		for attempt := uint16(1); attempt <= 3; attempt++ {
			if one := within(t, "an attempt", worker.handed); one.Attempt != attempt {
				t.Fatal(one)
			}
		}
		if err := worker.close(t); err != nil || counted(t, client, "again").Delivered != 1 {
			t.Fatal(err, counted(t, client, "again"))
		}
		if first, second := (<-worker.errors).Error(), (<-worker.errors).Error(); first != "not now" || !strings.HasPrefix(second, "panic: nor now\n") {
			t.Fatal(first, second)
		}
	})

	t.Run("a message that can never be delivered is dead with the reason", func(t *testing.T) {
		worker := work(t, client, "hopeless", func(context.Context, *Delivery) error {
			return fmt.Errorf("give up: %w", Bury(errors.New("no such user")))
		})
		must(client.Put(ctx, Message{Topic: "hopeless", ID: "order-1"}))
		within(t, "it", worker.handed)
		if err := worker.close(t); err != nil {
			t.Fatal(err)
		}
		if letter := must(client.Get(ctx, "hopeless", "order-1", "")); letter.State != Dead || letter.Reason != "give up: no such user" {
			t.Fatal(letter)
		}
	})

	t.Run("a lease is extended while the handler works", func(t *testing.T) {
		worker := work(t, client, "slow", func(context.Context, *Delivery) error {
			time.Sleep(1200 * time.Millisecond)
			return nil
		}, func(w *Worker) { w.Lease = 300 * time.Millisecond })
		must(client.Put(ctx, Message{Topic: "slow"}))
		within(t, "it", worker.handed)
		if err := worker.close(t); err != nil || counted(t, client, "slow").Delivered != 1 || len(worker.handed) > 0 {
			t.Fatal(err, counted(t, client, "slow"))
		}
	})

	t.Run("the context of a handler ends when its message is cancelled", func(t *testing.T) {
		worker := work(t, client, "doomed", func(ctx context.Context, _ *Delivery) error {
			<-ctx.Done()
			return nil
		}, func(w *Worker) { w.Lease = 150 * time.Millisecond })
		must(client.Put(ctx, Message{Topic: "doomed", ID: "order-1"}))
		within(t, "it", worker.handed)
		if outcome := must(client.Cancel(ctx, "doomed", "order-1", "")); outcome.Word != Leased {
			t.Fatal(outcome)
		}
		if err := worker.close(t); err != nil {
			t.Fatal(err)
		}
	})

	t.Run("no more handlers run at once than the concurrency", func(t *testing.T) {
		var running, most int32
		worker := work(t, client, "many", func(context.Context, *Delivery) error {
			if now := atomic.AddInt32(&running, 1); now > atomic.LoadInt32(&most) {
				atomic.StoreInt32(&most, now)
			}
			time.Sleep(5 * time.Millisecond)
			atomic.AddInt32(&running, -1)
			return nil
		}, func(w *Worker) { w.Concurrency = 7 })
		var all sync.WaitGroup
		for n := 0; n < 100; n++ {
			all.Add(1)
			go func() {
				defer all.Done()
				must(client.Put(ctx, Message{Topic: "many"}))
			}()
		}
		all.Wait()
		for n := 0; n < 100; n++ {
			within(t, "a message", worker.handed)
		}
		if err := worker.close(t); err != nil || most != 7 || counted(t, client, "many").Delivered != 100 {
			t.Fatal(err, most, counted(t, client, "many"))
		}
	})

	t.Run("a worker that is ended lets its handlers finish, and leaves the rest to others", func(t *testing.T) {
		finish := make(chan struct{})
		worker := work(t, client, "closing", func(context.Context, *Delivery) error {
			<-finish
			return nil
		}, func(w *Worker) { w.Concurrency = 2 })
		for n := 0; n < 5; n++ {
			must(client.Put(ctx, Message{Topic: "closing"}))
		}
		within(t, "one", worker.handed)
		within(t, "another", worker.handed)
		worker.stop()
		close(finish)
		if err, now := worker.close(t), counted(t, client, "closing"); err != nil || now.Delivered != 2 || now.Ready != 3 || now.Leased != 0 {
			t.Fatal(err, now)
		}
	})

	t.Run("what a handler has not done by the deadline is given back at once", func(t *testing.T) {
		worker := work(t, client, "stuck", func(context.Context, *Delivery) error { select {} }, func(w *Worker) {
			w.StopTimeout = 100 * time.Millisecond
		})
		must(client.Put(ctx, Message{Topic: "stuck"}))
		within(t, "it", worker.handed)
		if err, now := worker.close(t), counted(t, client, "stuck"); err == nil || now.Ready != 1 || now.Leased != 0 {
			t.Fatal(err, now)
		}
	})

	t.Run("waiting callers share one connection", func(t *testing.T) {
		var all sync.WaitGroup
		for n := 0; n < 50; n++ {
			all.Add(1)
			go func() {
				defer all.Done()
				must(client.Reserve(ctx, Reserve{Topics: []string{"nothing"}, Wait: 300 * time.Millisecond}))
			}()
		}
		must(client.Reserve(ctx, Reserve{Topics: []string{"nothing"}, Wait: 100 * time.Millisecond}))
		listens := regexp.MustCompile(` ssub=(1[6-9]|[2-9][0-9]) `) // a worker's topics count, too
		listening := len(listens.FindAllString(must(connect(t).ClientList(ctx).Result()), -1))
		all.Wait()
		if listening != 1+1 { // and the timer's
			t.Fatal(listening)
		}
	})
}

func TestAWorkerThatHasNothingToDoCostsOneCommandASecondAtMostOverAllShards(t *testing.T) {
	at, _, _ := ownServer(t) // without a timer, which polls too
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: at})
	defer connection.Close()
	client := deployment(t, connection, "idle", 16)
	worker := work(t, client, "idle", nothing)
	must(client.Put(context.Background(), Message{Topic: "idle"}))
	within(t, "it", worker.handed)
	time.Sleep(200 * time.Millisecond) // so that its ack, and the first look at all shards, are past
	commands := commandsDuring(t, connection, func() { time.Sleep(10 * time.Second) })
	if err := worker.close(t); err != nil || len(commands) > 10 {
		t.Fatal(err, commands)
	}
}

func TestAWorkerOutlivesARedisThatIsKilledAndStartedAgain(t *testing.T) {
	at, server, restart := ownServer(t)
	client, ctx := timed(t, at, "outage"), context.Background()
	worker := work(t, client, "orders", nothing)
	must(client.Put(ctx, Message{Topic: "orders", ID: "before"}))
	if one := within(t, "it", worker.handed); one.ID != "before" {
		t.Fatal(one)
	}
	kill(server())
	restart()
	for stored := false; !stored; {
		put, err := client.Put(ctx, Message{Topic: "orders", ID: "after"})
		stored = err == nil && put.Accepted()
	}
	if one := within(t, "it", worker.handed); one.ID != "after" {
		t.Fatal(one)
	}
	if err := worker.close(t); err != nil {
		t.Fatal(err)
	}
}

func TestAWorkerReplacesConnectionsThatHaveDiedWithoutAWord(t *testing.T) {
	direct, ctx := timed(t, socket, "mute"), context.Background()
	at, silence := proxy(t, socket)
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: at, ReadTimeout: 300 * time.Millisecond})
	t.Cleanup(func() { _ = connection.Close() })
	client := must(New(connection, "mute"))
	client.pollInterval, client.pingAfter = time.Minute, 300*time.Millisecond // a poll would come too late
	t.Cleanup(client.Close)
	worker := work(t, client, "orders", nothing, func(w *Worker) { w.Lease = time.Second })
	for _, id := range []string{"before", "after"} {
		must(direct.Put(ctx, Message{Topic: "orders", ID: id}))
		for within(t, id, worker.handed).ID != id { // an ack may have been lost
		}
		silence()
	}
	if err := worker.close(t); err != nil {
		t.Fatal(err)
	}
}

func TestOneDeadlineIsEnoughForAllConnectionsThatHaveDiedWithoutAWord(t *testing.T) {
	ctx := context.Background()
	at, silence := proxy(t, socket)
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: at, ReadTimeout: 2 * time.Second, PoolSize: 20})
	t.Cleanup(func() { _ = connection.Close() })
	deployment(t, connect(t), "idle", 1)
	client := must(New(connection, "idle"))
	t.Cleanup(client.Close)
	var all sync.WaitGroup
	for connection.PoolStats().IdleConns < 4 {
		for n := 0; n < 8; n++ {
			all.Add(1)
			go func() {
				defer all.Done()
				_, _ = client.Topic("orders").Count(ctx)
			}()
		}
		all.Wait()
	}
	silence()
	message := Message{Topic: "orders", ID: "order-1"}
	if put, err := client.Put(ctx, message); err == nil {
		t.Fatal(put)
	}
	if put := must(client.Put(ctx, message)); !put.Accepted() {
		t.Fatal(put)
	}
}

func TestACallOfARedisThatIsSilentEndsAtItsDeadline(t *testing.T) {
	at, server, _ := ownServer(t)
	client := timed(t, at, "silent")
	client.Timeout = 300 * time.Millisecond
	ctx, message := context.Background(), Message{Topic: "orders", ID: "order-1", Due: After(time.Minute)}
	must(client.Get(ctx, "orders", "order-1", ""))
	_ = server().Process.Signal(syscall.SIGSTOP)
	began := time.Now()
	put, err := client.Put(ctx, message)
	if took := time.Since(began); err == nil || put.Word != Unanswered || took > 4*time.Second {
		t.Fatal(put, err, took)
	}
	_ = server().Process.Signal(syscall.SIGCONT)
	if put := must(client.Put(ctx, message)); !put.Accepted() {
		t.Fatal(put)
	}
}
