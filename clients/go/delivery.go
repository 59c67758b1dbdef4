// Deliveries: messages under a lease.

package delayq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

// Pauses between attempts while Redis is unavailable, first and longest.
const rest, maxRest = 200 * time.Millisecond, 500 * time.Millisecond

// Receipt is the right to settle one delivery of a message.
type Receipt struct {
	Shard int
	Raw   string
}

func (r Receipt) id() string {
	_, text, _ := strings.Cut(r.Raw, ":")
	id, _ := idAndGroup(text[:len(text)-4])
	return id
}

func (r Receipt) item(args ...any) *item {
	_, text, has := strings.Cut(r.Raw, ":")
	if !has || len(text) < 5 || r.Shard < 0 || r.Shard >= maxShards {
		return &item{err: InvalidMessage(fmt.Sprintf("a receipt must come from a reserve, not %.60v", r))}
	}
	return &item{places: []int{r.Shard}, args: append([]any{r.Raw}, args...), outcome: Outcome{ID: r.id()}}
}

// Release configures how messages are returned.
type Release struct {
	// Delay is 0 for the back-off, or Now.
	Delay time.Duration
	// KeepAttempt excludes this attempt from the count.
	KeepAttempt bool
	// Reason is stored with the dead letter if this was the last attempt.
	Reason string
}

func (r Release) check() error {
	err := checkText("a reason", r.Reason)
	if r.Delay == Now {
		return err
	}
	return first(err, checkSpan("a delay", r.Delay))
}

func (r Release) args() []any {
	keep := ""
	if r.KeepAttempt {
		keep = "keep"
	}
	return []any{millis(r.Delay), keep, cutReason(r.Reason)}
}

// cutReason truncates a reason at a character boundary and replaces invalid UTF-8.
func cutReason(reason string) string {
	if len(reason) > 8*maxReasonBytes {
		reason = reason[:8*maxReasonBytes]
	}
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if len(reason) <= maxReasonBytes {
		return reason
	}
	end := maxReasonBytes
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}

// Delivery is a message under a lease. Attempt and Number include this delivery; times are on the Redis clock. Ack, AckAndPut,
// Release or Bury settles the message; an unsettled message returns when the lease expires.
type Delivery struct {
	Receipt         Receipt
	Topic, ID       string
	Ready, LeaseEnd time.Time
	Envelope

	client *Client
	length time.Duration
	// done closes on settlement, or when settlement failed until the lease expired. lost closes when the lease is lost or the
	// message is cancelled.
	done, lost chan struct{}

	mu      sync.Mutex
	ends    time.Time
	settled bool
	outcome Outcome
	isDone  bool
	isLost  bool
}

// Settled reports whether the message was acked, released or buried here.
func (d *Delivery) Settled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settled
}

// Ack finishes a delivered message. While Redis is unavailable, Ack, Release and Bury retry until the lease expires.
func (d *Delivery) Ack(ctx context.Context) (Outcome, error) {
	return d.settle(ctx, "ack", d.Receipt.item())
}

// AckAndPut finishes a delivered message, and puts the next message in the same step: both or neither. The next message has no ID,
// and the group of this message or none; or it has Topic, ID and Group of this message, and takes its place. It is not put if this
// message was cancelled meanwhile. The outcome is that of an Ack.
func (d *Delivery) AckAndPut(ctx context.Context, next Message) (Outcome, error) {
	one := d.next(&next)
	if one.err != nil {
		return Outcome{}, one.err
	}
	return d.settle(ctx, "put", one)
}

// next encodes the put of a next message, in the shard of the delivery.
func (d *Delivery) next(next *Message) *item {
	id := next.ID
	if id == "" {
		id = generateID(d.Receipt.Shard)
	}
	stored, err := storedID(id, next.Group)
	envelope, fault := next.envelope(!generated(stored), d.client.MaxPayloadBytes)
	switch {
	case next.options(0) != "":
		err = InvalidMessage("a next message replaces only the message before it, and needs no FirstTried: the receipt recognises a repeat")
	case next.ID != "" && (next.Topic != d.Topic || next.ID != d.ID || next.Group != d.Group):
		err = InvalidMessage("a next message has no ID, or the ID, the Group and the Topic of the message before it: put any other message, and then ack")
	case next.Group != "" && next.Group != d.Group:
		err = InvalidMessage("a next message has the Group of the message before it, or none: put a message of another group, and then ack")
	}
	err = first(first(err, checkName("topic", next.Topic)), first(first(next.checkTimes(), next.checkAgain()), fault))
	args := []any{stored, next.Due.text(), fmt.Sprintf("ack=%x", d.Receipt.Raw), envelope}
	return &item{places: []int{d.Receipt.Shard}, topic: next.Topic, args: args, bytes: len(envelope), outcome: Outcome{ID: d.ID}, err: err}
}

// Release returns the message to the queue after a delay or the back-off. After the last attempt, the message is dead.
func (d *Delivery) Release(ctx context.Context, how Release) (Outcome, error) {
	if err := how.check(); err != nil {
		return Outcome{}, err
	}
	return d.settle(ctx, "release", d.Receipt.item(how.args()...))
}

// Bury moves an undeliverable message to the dead letters.
func (d *Delivery) Bury(ctx context.Context, reason string) (Outcome, error) {
	if err := checkText("a reason", reason); err != nil {
		return Outcome{}, err
	}
	return d.settle(ctx, "bury", d.Receipt.item(cutReason(reason)))
}

// Settle settles the message by what a handler returned, as a worker does: nil acks, an error of Bury buries, and any other error
// releases the message by its back-off. If the handler has settled the message itself, Settle returns that outcome.
func (d *Delivery) Settle(ctx context.Context, err error) (Outcome, error) {
	switch {
	case d.Settled():
		<-d.done
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.outcome, nil
	case err == nil:
		return d.Ack(ctx)
	case isHopeless(err):
		return d.Bury(ctx, cutReason(err.Error()))
	}
	return d.Release(ctx, Release{Reason: cutReason(err.Error())})
}

// Extend extends the lease from now; 0 selects the topic's lease.
func (d *Delivery) Extend(ctx context.Context, lease time.Duration) (Outcome, error) {
	if err := checkLease(lease); err != nil {
		return Outcome{}, err
	}
	sent := time.Now()
	outcome, err := d.client.single(ctx, "extend", d.Receipt.item(millis(lease)))
	d.mu.Lock()
	defer d.mu.Unlock()
	if lease == 0 {
		lease = d.length
	}
	if outcome.Word == Extended {
		d.ends = sent.Add(lease)
	}
	if (outcome.Word == Expired || outcome.Doomed) && !d.isLost {
		d.isLost = true
		close(d.lost)
	}
	return outcome, err
}

// leave ends the handler's context.
func (d *Delivery) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isLost {
		d.isLost = true
		close(d.lost)
	}
}

// isClosed reports whether client or connection was closed, so that a retry is useless.
func isClosed(err error) bool { return errors.Is(err, ErrClosed) || errors.Is(err, redis.ErrClosed) }

// keepAlive extends the lease every third of its length until settlement or loss.
func (d *Delivery) keepAlive(lease time.Duration) {
	for next := d.length / 3; ; {
		select {
		case <-d.done:
			return
		case <-time.After(next):
		}
		outcome, err := d.Extend(context.Background(), lease)
		if outcome.Word == Expired || isClosed(err) {
			d.leave()
			return
		}
		if next = d.length / 3; err != nil && next > rest {
			next = rest
		}
	}
}

func (d *Delivery) settle(ctx context.Context, verb string, one *item) (outcome Outcome, err error) {
	d.mu.Lock()
	first := !d.isDone
	d.settled, d.isDone = true, true
	d.mu.Unlock()
	if first {
		defer close(d.done)
	}
	for {
		again := *one
		if outcome, err = d.client.single(ctx, verb, &again); err == nil {
			if verb == "put" {
				outcome = outcome.acked()
			}
			d.mu.Lock()
			d.outcome = outcome
			d.mu.Unlock()
			return outcome, nil
		}
		if ctx.Err() != nil { // its fate is unknown; who holds it may still settle it
			d.mu.Lock()
			d.settled = false
			d.mu.Unlock()
			return outcome, err
		}
		if _, refused := err.(ScriptError); refused || isClosed(err) || d.endsBefore(time.Now().Add(rest)) {
			return outcome, err
		}
		wait(ctx, rest)
	}
}

func (d *Delivery) endsBefore(at time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ends.Before(at)
}

// millis encodes a duration for a script, rounded up; 0 selects the default.
func millis(d time.Duration) any {
	switch d {
	case 0:
		return ""
	case Now:
		return 0
	}
	return wholeMillis(d)
}
