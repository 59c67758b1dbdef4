package delayqtest

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/delayq/delayq/clients/go"
)

// The end of time for a reserve that promotes.
var farthest = time.UnixMilli(253_402_300_799_999)

// Drained is one delivery: the message, how it was settled, and what the handler returned.
type Drained struct {
	Topic, ID, Group string
	Payload          []byte
	Attempt          uint16
	// Word is Delivered; after a failure, Delayed or Ready for another attempt, or Buried; or as the handler settled it.
	Word delayq.Word
	Err  error
}

// Drain delivers messages to a handler, as a worker does: what is ready, and then one by one what is due first, until nothing of the
// topics is delayed, ready or leased. Attempts after a back-off and messages that the handler puts are included. It returns every
// delivery. The test ends with an error after MaxDeliveries, or if a message cannot be delivered.
func (d *Deployment) Drain(handle delayq.Handler, topics ...string) (drained []Drained) {
	d.t.Helper()
	if handle == nil {
		d.t.Fatal("a drain has a handler")
	}
	if d.MaxDeliveries < 1 {
		d.t.Fatalf("MaxDeliveries is %d: at least 1", d.MaxDeliveries)
	}
	for next := d.next(topics); next != nil; next = d.next(topics) {
		if len(drained) == d.MaxDeliveries {
			_, _ = next.Release(context.Background(), delayq.Release{Delay: delayq.Now, KeepAttempt: true})
			last := ""
			if err := drained[len(drained)-1].Err; err != nil {
				last = fmt.Sprintf("; the handler returned %.200q at last", err)
			}
			d.t.Fatalf("%s is not drained after %d deliveries, %s is next: does the handler put messages for ever, or fail for ever? "+
				"Else set MaxDeliveries%s", next.Topic, len(drained), next.ID, last)
		}
		drained = append(drained, d.handle(next, handle))
	}
	for _, topic := range topics {
		numbers := d.count(topic)
		if numbers.Leased > 0 {
			d.t.Fatalf("%s has leased messages (%d): before a drain, settle what the test itself has reserved", topic, numbers.Leased)
		}
		if left := numbers.Delayed + numbers.Ready; left > 0 {
			d.t.Fatalf("%s has messages (%d) that cannot be reserved: is it paused, or limited by a rate?", topic, left)
		}
	}
	return drained
}

// next reserves a message that is ready, or else the one that is due first.
func (d *Deployment) next(topics []string) *delayq.Delivery {
	d.t.Helper()
	if found := d.reserve(delayq.Reserve{Topics: topics}); found != nil {
		return found
	}
	first, due := topics[0], time.Time{}
	for _, topic := range topics {
		if next := d.count(topic).NextDue; !next.IsZero() && (due.IsZero() || next.Before(due)) {
			first, due = topic, next
		}
	}
	if found := d.reserve(delayq.Reserve{Topics: []string{first}, PromoteUntil: farthest}); found != nil {
		return found
	}
	d.pump() // it was due already
	return d.reserve(delayq.Reserve{Topics: topics})
}

func (d *Deployment) reserve(ask delayq.Reserve) *delayq.Delivery {
	d.t.Helper()
	found, err := d.Client.Reserve(context.Background(), ask)
	if err != nil {
		d.t.Fatal(err)
	}
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// handle handles and settles one message.
func (d *Deployment) handle(one *delayq.Delivery, handle delayq.Handler) Drained {
	d.t.Helper()
	ctx := context.Background()
	err := called(ctx, handle, one)
	outcome, lost := one.Settle(ctx, err)
	if lost != nil {
		d.t.Fatal(lost)
	}
	return Drained{one.Topic, one.ID, one.Group, one.Payload, one.Attempt, outcome.Word, err}
}

// called returns the error of a handler, or its panic.
func called(ctx context.Context, handle delayq.Handler, one *delayq.Delivery) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = delayq.PanicError{Value: why, Stack: string(debug.Stack())}
		}
	}()
	return handle(ctx, one)
}
