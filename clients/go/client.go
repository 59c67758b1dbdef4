// Package delayq is delayq's client for Go: messages that are delivered at their due time, kept in Redis.
package delayq

import (
	"context"
	"fmt"
	"math/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// lookEvery is how often a reserve that waits looks without having been woken.
var lookEvery = time.Second

// Client is a deployment of delayq on one Redis. It is safe for concurrent use. All verbs are safe to repeat; see the
// README for what a repeat does.
type Client struct {
	// MostPayloadBytes is 256 KiB unless it is set before the first put; at most 1 MiB.
	MostPayloadBytes int

	redis        redis.UniversalClient
	namespace    string
	layout       atomic.Pointer[layout]
	turn         atomic.Uint32
	dictionaries sync.Map
}

// New gives the client of the deployment whose keys begin with this namespace, "dq" by default.
func New(connection redis.UniversalClient, namespace string) (*Client, error) {
	c := &Client{MostPayloadBytes: 256 * 1024, redis: connection, namespace: namespace}
	c.layout.Store(&layout{})
	c.turn.Store(rand.Uint32())
	return c, checkName("namespace", namespace)
}

// Put puts one message.
func (c *Client) Put(ctx context.Context, message Message) (Put, error) {
	puts, err := c.PutMany(ctx, []Message{message})
	return append(puts, Put{})[0], err
}

// PutMany puts many messages: one answer each, in order.
func (c *Client) PutMany(ctx context.Context, messages []Message) ([]Put, error) {
	known, err := c.learn(ctx)
	var ahead time.Duration
	for i := 0; err == nil && ahead == 0 && i < len(messages); i++ {
		if messages[i].Replace && !messages[i].FirstTried.IsZero() {
			ahead, err = c.ahead(ctx)
		}
	}
	items, turn := make([]item, len(messages)), int(c.turn.Add(1)%(1<<16))
	for i := 0; err == nil && i < len(messages); i++ {
		items[i], err = messages[i].item(known, turn%known.shards(), ahead, c.MostPayloadBytes)
	}
	if err != nil {
		return nil, err
	}
	return c.each(ctx, "put", items)
}

// ahead is how far Redis's clock is ahead of this host's: a little too far, rather than not far enough.
func (c *Client) ahead(ctx context.Context) (time.Duration, error) {
	asked := time.Now()
	now, err := c.redis.Time(ctx).Result()
	return now.Sub(asked) + time.Millisecond, err
}

// Change is a change of a due time: At, After or By make one.
type Change struct{ due, expected string }

// At moves a message to a time.
func At(due time.Time) Change { return Change{due: strconv.FormatInt(due.UnixMilli(), 10)} }

// After moves a message to a delay from now.
func After(delay time.Duration) Change { return Change{due: fmt.Sprintf("+%d", delay.Milliseconds())} }

// By moves a message by a difference to the time that it is expected to be due at, so that a repeat moves nothing twice.
func By(difference time.Duration, expected time.Time) Change {
	return Change{due: fmt.Sprintf("by %+d", difference.Milliseconds())}.IfDue(expected)
}

// IfDue carries the change out only where the message is due then until now.
func (c Change) IfDue(expected time.Time) Change { return Change{c.due, At(expected).due} }

// Cancel keeps a message from being delivered. An own id that was put with a group is found by both.
func (c *Client) Cancel(ctx context.Context, topic, id, group string) (Outcome, error) {
	return c.change(ctx, "cancel", topic, id, group)
}

// Reschedule changes when a pending message is due. Its group is "" where it has none.
func (c *Client) Reschedule(ctx context.Context, topic, id, group string, change Change) (Outcome, error) {
	return c.change(ctx, "reschedule", topic, id, group, change.due, change.expected)
}

func (c *Client) change(ctx context.Context, verb, topic, id, group string, args ...string) (Outcome, error) {
	one, err := named(topic, id, group)
	if err != nil {
		return Outcome{}, err
	}
	one.args = append(one.args, args...)
	outcomes, err := c.outcomes(ctx, verb, []item{one})
	return append(outcomes, Outcome{})[0], err
}

// named is what is said of a message by its name. A generated id says its shard, an own one goes by its group, or itself.
func named(topic, id, group string) (item, error) {
	raw, err := idBytes(id)
	one := item{name: raw, topic: topic, args: []string{raw}}
	if group != "" && !generated(raw) {
		one.name = group
	}
	err = first(err, checkName("topic", topic))
	if group != "" {
		err = first(err, checkName("group", group))
	}
	return one, err
}

func (c *Client) outcomes(ctx context.Context, verb string, items []item) (outcomes []Outcome, err error) {
	found, err := c.each(ctx, verb, items)
	for _, one := range found {
		outcomes = append(outcomes, one.Outcome)
	}
	return outcomes, err
}

// Extend gives leases more time, from now; 0 for what the topic says.
func (c *Client) Extend(ctx context.Context, lease time.Duration, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "extend", receipts, millis(lease))
}

// Ack ends messages that were delivered.
func (c *Client) Ack(ctx context.Context, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "ack", receipts)
}

// Release is how messages are given back.
type Release struct {
	// Delay is nil for their back-off.
	Delay *time.Duration
	// KeepAttempt says that the attempt does not count.
	KeepAttempt bool
	// Reason is for the dead letters, where this was the last attempt.
	Reason string
}

// Release gives messages back that were not delivered.
func (c *Client) Release(ctx context.Context, how Release, receipts ...Receipt) ([]Outcome, error) {
	delay, keep := "", ""
	if how.Delay != nil {
		delay = strconv.FormatInt(how.Delay.Milliseconds(), 10)
	}
	if how.KeepAttempt {
		keep = "keep"
	}
	return c.settle(ctx, "release", receipts, delay, keep, how.Reason)
}

// Bury moves messages that can never be delivered to the dead letters.
func (c *Client) Bury(ctx context.Context, reason string, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "bury", receipts, reason)
}

func (c *Client) settle(ctx context.Context, verb string, receipts []Receipt, args ...string) ([]Outcome, error) {
	items := make([]item, len(receipts))
	for i, receipt := range receipts {
		items[i] = item{shard: receipt.Shard, args: append([]string{receipt.Raw}, args...)}
	}
	return c.outcomes(ctx, verb, items)
}

// millis is a duration for a script; 0 for its default.
func millis(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}
