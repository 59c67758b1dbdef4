// Package delayq is delayq's client for Go: messages that are delivered at their due time, kept in Redis.
package delayq

import (
	"context"
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
	scripts      map[string]*redis.Script
	layout       atomic.Pointer[layout]
	turn         atomic.Uint32
	dictionaries sync.Map
}

// New gives the client of the deployment whose keys begin with this namespace, "dq" by default.
func New(connection redis.UniversalClient, namespace string) (*Client, error) {
	scripts, err := published()
	c := &Client{MostPayloadBytes: 256 * 1024, redis: connection, namespace: namespace, scripts: scripts}
	c.layout.Store(unknown)
	c.turn.Store(rand.Uint32())
	return c, first(err, checkName("namespace", namespace))
}

// Put puts one message.
func (c *Client) Put(ctx context.Context, message Message) (Outcome, error) {
	return single(c.PutMany(ctx, []Message{message}))
}

// single is the outcome of a call for one message.
func single(outcomes []Outcome, err error) (Outcome, error) {
	return append(outcomes, Outcome{})[0], err
}

// PutMany puts many messages: one answer each, in order.
func (c *Client) PutMany(ctx context.Context, messages []Message) ([]Outcome, error) {
	known, err := c.learn(ctx)
	var ahead time.Duration
	items, turn := make([]*item, len(messages)), int(c.turn.Add(1)%(1<<16))
	for i := 0; err == nil && i < len(messages); i++ {
		if ahead == 0 && !messages[i].FirstTried.IsZero() {
			ahead, err = c.ahead(ctx)
		}
		items[i] = messages[i].item(known, turn%known.shards(), ahead, c.MostPayloadBytes)
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

// Cancel keeps a message from being delivered. An own id that was put with a group is found by both.
func (c *Client) Cancel(ctx context.Context, topic, id, group string) (Outcome, error) {
	return single(c.each(ctx, "cancel", []*item{named(topic, id, group)}))
}

// Reschedule changes when a pending message is due. Its group is "" where it has none.
func (c *Client) Reschedule(ctx context.Context, topic, id, group string, due Due) (Outcome, error) {
	return single(c.each(ctx, "reschedule", []*item{named(topic, id, group, due.text(), due.expected)}))
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

func (c *Client) settle(ctx context.Context, verb string, receipts []Receipt, args ...any) ([]Outcome, error) {
	items := make([]*item, len(receipts))
	for i, receipt := range receipts {
		said := append([]any{receipt.Raw}, args...)
		items[i] = &item{places: []int{receipt.Shard}, args: said, outcome: Outcome{ID: receipt.id()}}
	}
	return c.each(ctx, verb, items)
}

// millis is a duration for a script; 0 for its default.
func millis(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}
