// What a reserve hands out: messages under lease.

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

// rest is how long to wait between tries while Redis cannot be used, and maxRest the most where it grows.
const rest, maxRest = 200 * time.Millisecond, 500 * time.Millisecond

// Receipt is the right to settle one delivery of one message.
type Receipt struct {
	Shard int
	Raw   string
}

// id is that of its message.
func (r Receipt) id() string {
	_, text, _ := strings.Cut(r.Raw, ":")
	id, _ := idAndGroup(text[:len(text)-4])
	return id
}

func (r Receipt) item(args ...any) *item {
	_, text, has := strings.Cut(r.Raw, ":")
	if !has || len(text) < 5 || r.Shard < 0 || r.Shard >= maxShards {
		return &item{err: InvalidMessage(fmt.Sprintf("a receipt is what a reserve gave, not %.60v", r))}
	}
	return &item{places: []int{r.Shard}, args: append([]any{r.Raw}, args...), outcome: Outcome{ID: r.id()}}
}

// Release is how messages are given back.
type Release struct {
	// Delay is 0 for their back-off, or Now.
	Delay time.Duration
	// KeepAttempt says that the attempt does not count.
	KeepAttempt bool
	// Reason is for the dead letters, where this was the last attempt.
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

// maxReasonBytes is the maximum length of a dead letter's reason.
const maxReasonBytes = 1000

// cutReason cuts a reason between two characters, and replaces bytes that are not UTF-8.
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

// Delivery is a message under lease. Its Attempt and Number count this one; times are on Redis's clock. Ack, Release
// or Bury settles it; unsettled, it comes again when its lease runs out.
type Delivery struct {
	Receipt         Receipt
	Topic, ID       string
	Ready, LeaseEnd time.Time
	Envelope

	client *Client
	length time.Duration
	// done is closed when it is settled, or could not be until its lease ran out; lost when it was taken back or
	// cancelled.
	done, lost chan struct{}

	mu      sync.Mutex
	ends    time.Time
	settled bool
	isDone  bool
	isLost  bool
}

// Settled says whether it was acked, released or buried here.
func (d *Delivery) Settled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settled
}

// Ack ends it: it was delivered. Where Redis cannot be used, it is tried again for as long as the lease lasts; so do
// Release and Bury.
func (d *Delivery) Ack(ctx context.Context) (Outcome, error) {
	return d.settle(ctx, "ack", d.Receipt.item())
}

// Release gives it back: it comes again, after a delay or by its back-off. After its last attempt it is dead.
func (d *Delivery) Release(ctx context.Context, how Release) (Outcome, error) {
	if err := how.check(); err != nil {
		return Outcome{}, err
	}
	return d.settle(ctx, "release", d.Receipt.item(how.args()...))
}

// Bury moves it to the dead letters: it can never be delivered.
func (d *Delivery) Bury(ctx context.Context, reason string) (Outcome, error) {
	if err := checkText("a reason", reason); err != nil {
		return Outcome{}, err
	}
	return d.settle(ctx, "bury", d.Receipt.item(cutReason(reason)))
}

// Extend gives its lease more time, from now; 0 for what its topic says.
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

// leave ends the context of its handler.
func (d *Delivery) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isLost {
		d.isLost = true
		close(d.lost)
	}
}

// isClosed says whether the owner has closed the client or its connection. Repeating a call is then useless.
func isClosed(err error) bool { return errors.Is(err, ErrClosed) || errors.Is(err, redis.ErrClosed) }

// keepAlive extends its lease at each third of it, until it is settled or lost.
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

// millis is a duration for a script, which has a default for 0; rounded up.
func millis(d time.Duration) any {
	switch d {
	case 0:
		return ""
	case Now:
		return 0
	}
	return wholeMillis(d)
}
