// Stops and failures of workers, and the fate of messages.

package delayq

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

func onlyOnce(t *testing.T, client *Client, topic string) {
	t.Helper()
	must(client.Topic(topic).SetPolicy(context.Background(), Policy{MaxAttempts: Set(uint16(1))}))
}

func TestAStopBuriesNoMessageThatHasItsOnlyAttemptAndCountsNone(t *testing.T) {
	client, ctx := timed(t, socket, "stopping"), context.Background()
	onlyOnce(t, client, "orders")
	worker := work(t, client, "orders", func(context.Context, *Delivery) error { select {} }, func(w *Worker) { w.StopTimeout = time.Millisecond })
	must(client.Put(ctx, Message{Topic: "orders", ID: "go-1"}))
	within(t, "it", worker.handed)
	if err := worker.close(t); err == nil || !strings.Contains(err.Error(), "were released") {
		t.Fatal(err)
	}
	again := must(client.Reserve(ctx, Reserve{Topics: []string{"orders"}, Wait: 20 * time.Second}))
	if len(again) != 1 || again[0].Attempt != 1 || again[0].Number != 2 {
		t.Fatal(again)
	}
}

func TestAHandlerThatPanicsOrEndsItsGoroutineHasFailedAndTheDeadLetterSaysWhy(t *testing.T) {
	client, ctx := timed(t, socket, "failing"), context.Background()
	for what, c := range map[string]struct {
		handle func()
		why    string
	}{
		"text":      {func() { panic("no such order") }, "panic: no such order\n"},
		"an-error":  {func() { panic(errors.New("no such order")) }, "panic: no such order\n"},
		"nil-map":   {func() { map[string]int(nil)["x"] = 1 }, "panic: assignment to entry in nil map\n"},
		"goexit":    {runtime.Goexit, "the handler ended its goroutine"},
		"long-text": {func() { panic(strings.Repeat("ä🙂", 5000)) }, "panic: ä🙂"},
		"no-text":   {func() { panic("\xff") }, "panic: \uFFFD\n"},
	} {
		onlyOnce(t, client, what)
		worker := work(t, client, what, func(context.Context, *Delivery) error {
			c.handle()
			return nil
		})
		must(client.Put(ctx, Message{Topic: what, ID: "go-1"}))
		within(t, what, worker.handed)
		if err := worker.close(t); err != nil {
			t.Fatal(err)
		}
		letter := must(client.Get(ctx, what, "go-1", ""))
		if letter.State != Dead || !strings.HasPrefix(letter.Reason, c.why) || len(letter.Reason) > 1000 || !utf8.ValidString(letter.Reason) {
			t.Fatalf("%s: %+v", what, letter)
		}
		isPanic := strings.HasPrefix(c.why, "panic: ") && what != "long-text"
		if isPanic && !strings.Contains(letter.Reason, "stopping_test.go") {
			t.Fatalf("%s: no stack in %s", what, letter.Reason)
		}
		within(t, "the failure", worker.errors)
		if last := within(t, "the burial", worker.errors); !strings.Contains(last.Error(), "buried after the last attempt, number 1") {
			t.Fatal(last)
		}
	}
}

func TestAWorkerWhoseOnErrorPanicsGoesOn(t *testing.T) {
	client, ctx := timed(t, socket, "reports"), context.Background()
	must(client.Topic("orders").SetPolicy(ctx, Policy{Backoff: Set(Fixed(time.Millisecond))}))
	worker := work(t, client, "orders", func(_ context.Context, delivery *Delivery) error {
		if delivery.Attempt == 1 {
			return errors.New("not now")
		}
		return nil
	}, func(w *Worker) { w.OnError = func(*Delivery, error) { panic("so has the report") } })
	must(client.Put(ctx, Message{Topic: "orders"}))
	within(t, "it", worker.handed)
	within(t, "it again", worker.handed)
	if err := worker.close(t); err != nil || counted(t, client, "orders").Delivered != 1 {
		t.Fatal(err)
	}
}

func TestAClientThatWasClosedRefusesEveryCallByName(t *testing.T) {
	client, ctx := deployment(t, connect(t), "used-again", 1), context.Background()
	waiting := make(chan error)
	go func() {
		_, err := client.Reserve(ctx, Reserve{Topics: []string{"orders"}, Wait: time.Hour})
		waiting <- err
	}()
	for began := false; !began; {
		client.waiters.mu.Lock()
		began = client.waiters.shards > 0
		client.waiters.mu.Unlock()
	}
	client.Close()
	client.Close()
	if err := within(t, "the end of the waiting call", waiting); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	receipt := Receipt{0, "1:go-1\x00\x00\x00\x01"}
	for what, call := range map[string]func() error{
		"Put":         func() error { return second(client.Put(ctx, Message{Topic: "orders"})) },
		"PutMany":     func() error { return second(client.PutMany(ctx, []Message{{Topic: "orders"}})) },
		"Cancel":      func() error { return second(client.Cancel(ctx, "orders", "none", "")) },
		"Reschedule":  func() error { return second(client.Reschedule(ctx, "orders", "none", "", After(0))) },
		"Get":         func() error { return second(client.Get(ctx, "orders", "none", "")) },
		"Reserve":     func() error { return second(client.Reserve(ctx, Reserve{Topics: []string{"orders"}})) },
		"Ack":         func() error { return second(client.Ack(ctx, receipt)) },
		"Count":       func() error { return second(client.Topic("orders").Count(ctx)) },
		"GroupCancel": func() error { return second(client.Group("g").Cancel(ctx)) },
	} {
		if err := call(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAWorkerWhoseConnectionIsClosedEndsAndExtendsNoLease(t *testing.T) {
	client, ctx := timed(t, socket, "closed"), context.Background()
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	own := must(New(connection, "closed"))
	left := make(chan struct{})
	worker := work(t, own, "orders", func(ctx context.Context, _ *Delivery) error {
		<-ctx.Done()
		close(left)
		return nil
	}, func(w *Worker) { w.Lease = 300 * time.Millisecond })
	must(client.Put(ctx, Message{Topic: "orders", ID: "go-1"}))
	within(t, "it", worker.handed)
	own.Close()
	_ = connection.Close()
	within(t, "the end of the handler's context", left)
	if err := within(t, "the worker's end", worker.done); err == nil || !isClosed(err) {
		t.Fatal(err)
	}
	if again := must(client.Reserve(ctx, Reserve{Topics: []string{"orders"}, Wait: 20 * time.Second})); len(again) != 1 {
		t.Fatal(again)
	}
}
