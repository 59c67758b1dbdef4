// Abandoned calls, and the calls that follow.

package delayq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAPutThatIsGivenUpBeforeItIsSentIsNotSent(t *testing.T) {
	gathering, release := &gatherer{}, make(chan struct{})
	sent := make(chan string, 100)
	gathering.send = func(_ string, items []*item) {
		<-release
		for _, one := range items {
			sent <- one.outcome.ID
		}
	}
	var all sync.WaitGroup
	for n := 0; n < gatherInFlight; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			_, _, _ = gathering.add(context.Background(), "put", &item{outcome: Outcome{ID: fmt.Sprint("before-", n)}})
		}(n)
		for taken := false; !taken; { // each in a batch of its own
			gathering.mu.Lock()
			taken = gathering.underWay == n+1 && len(gathering.waiting) == 0
			gathering.mu.Unlock()
		}
	}
	ctx, end := context.WithCancel(context.Background())
	time.AfterFunc(time.Millisecond, end)
	if outcome, left, err := gathering.add(ctx, "put", &item{outcome: Outcome{ID: "given-up"}}); !errors.Is(err, context.Canceled) || left != nil {
		t.Fatal(outcome, left, err)
	}
	close(release)
	all.Wait()
	close(sent)
	for id := range sent {
		if id == "given-up" {
			t.Fatal("it was sent")
		}
	}
}

func TestACancelFindsThePutThatItsCallerHasGivenUp(t *testing.T) {
	client, ctx := deployment(t, connect(t), "givenup", 4), context.Background()
	var all sync.WaitGroup
	for n := 0; n < 2000; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			id := fmt.Sprint("go-", n)
			impatient, end := context.WithTimeout(ctx, time.Duration(n)*20*time.Microsecond)
			defer end()
			_, _ = client.Put(impatient, Message{Topic: "orders", ID: id, Due: After(time.Hour)})
			must(client.Cancel(ctx, "orders", id, ""))
		}(n)
	}
	all.Wait()
	if now := counted(t, client, "orders"); now.Delayed != 0 {
		t.Fatal(now)
	}
}

func TestAChangeOfAGroupFindsThePutsThatTheirCallersHaveGivenUp(t *testing.T) {
	client, ctx := deployment(t, connect(t), "groupgivenup", 1), context.Background()
	must(client.Get(ctx, "orders", "none", "")) // so that the shards are known
	for n := 0; n < 500; n++ {
		impatient, end := context.WithTimeout(ctx, time.Duration(n)*2*time.Microsecond)
		_, _ = client.Put(impatient, Message{Topic: "orders", Due: After(time.Hour), Group: "user-5"})
		end()
		must(client.Group("user-5").Cancel(ctx))
		if now := counted(t, client, "orders"); now.Delayed != 0 {
			t.Fatal(n, now)
		}
	}
}

func TestASettlementComesBehindTheOneOfTheSameDeliveryThatWasGivenUp(t *testing.T) {
	client, ctx := deployment(t, connect(t), "twice", 1), context.Background()
	must(client.Put(ctx, Message{Topic: "orders"}))
	one := must(client.Reserve(ctx, Reserve{Topics: []string{"orders"}}))[0]
	gathering, sent, release := client.gatherer(""), make(chan string, 2), make(chan struct{})
	send := gathering.send
	gathering.send = func(verb string, items []*item) {
		sent <- verb
		if verb == "ack" {
			<-release
		}
		send(verb, items)
	}
	impatient, giveUp := context.WithCancel(ctx)
	go func() {
		within(t, "the ack", sent)
		giveUp()
	}()
	if _, err := one.Ack(impatient); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	order := one.Receipt.item().order()
	acking := client.writes.last[order]
	buried := make(chan Outcome)
	go func() { buried <- must(one.Bury(ctx, "no such user")) }()
	for waits := false; !waits; { // behind the ack
		select {
		case verb := <-sent:
			t.Fatal(verb, " has overtaken the ack")
		default:
		}
		client.writes.mu.Lock()
		waits = client.writes.last[order] != acking
		client.writes.mu.Unlock()
	}
	close(release)
	if outcome := within(t, "the burial", buried); outcome.Word != Expired || counted(t, client, "orders").Delivered != 1 {
		t.Fatal(outcome)
	}
}

func TestWhatIsReservedAfterItsCallerHasGoneIsGivenBack(t *testing.T) {
	at, server, _ := ownServer(t)
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: at})
	t.Cleanup(func() { _ = connection.Close() })
	client, ctx := deployment(t, connection, "gone", 1), context.Background()
	must(client.Put(ctx, Message{Topic: "orders", ID: "go-1"}))
	_ = server().Process.Signal(syscall.SIGSTOP)
	impatient, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	if found, err := client.Reserve(impatient, Reserve{Topics: []string{"orders"}, Lease: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(found, err)
	}
	_ = server().Process.Signal(syscall.SIGCONT)
	again := must(client.Reserve(ctx, Reserve{Topics: []string{"orders"}, Wait: 20 * time.Second}))
	if len(again) != 1 || again[0].Attempt != 1 {
		t.Fatal(again)
	}
}

func TestAnAckThatIsGivenUpLeavesNoMessageLeasedForTheLifeOfTheProcess(t *testing.T) {
	client, ctx := timed(t, socket, "unacked"), context.Background()
	must(client.Topic("orders").SetPolicy(ctx, Policy{Backoff: Set(Fixed(time.Millisecond))}))
	over, end := context.WithCancel(ctx)
	end()
	worker := work(t, client, "orders", func(_ context.Context, delivery *Delivery) error {
		if delivery.Attempt > 1 {
			return nil
		}
		_, err := delivery.Ack(over)
		return err
	}, func(w *Worker) { w.Lease = time.Hour })
	must(client.Put(ctx, Message{Topic: "orders", ID: "go-1"}))
	within(t, "it", worker.handed)
	if again := within(t, "it again", worker.handed); again.Attempt != 2 {
		t.Fatal(again)
	}
	if err := worker.close(t); err != nil || counted(t, client, "orders").Delivered != 1 {
		t.Fatal(err)
	}
}
