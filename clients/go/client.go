// Package delayq is delayq's client for Go: messages that are delivered at their due time, kept in Redis.
package delayq

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Now is no delay at all, where 0 stands for a default.
const Now time.Duration = -1

// Client is a deployment of delayq. It is safe for concurrent use. All verbs are safe to repeat; see the README for
// what a repeat does.
type Client struct {
	// MaxPayloadBytes is 256 KiB unless it is set before the first put; at most 1 MiB.
	MaxPayloadBytes int
	// Timeout is the deadline of each call of Redis: 5 s unless it is set before the first.
	Timeout time.Duration
	// ConfirmTimeout is how long replicas or a disk have to confirm a write whose topic asks for it: at most, and unless it is
	// set, half of the time for an answer (Timeout, or go-redis's ReadTimeout where that is shorter).
	ConfirmTimeout time.Duration

	redis     redis.UniversalClient
	namespace string
	scripts   map[string]*redis.Script
	layout    atomic.Pointer[layout]
	learning  sync.Mutex
	turn      atomic.Uint32
	decoders  sync.Map
	waiters   waiters
	rounds    rounds
	silences  silences
	// gatherers are by what their calls wait for, so that nobody is held up by what others wait for.
	gatherers    sync.Map
	durabilities durabilities
	writes       ordering
	// pollInterval is how often a shard, or a few in turn, is polled: the net below a lost notification.
	pollInterval, pingAfter time.Duration
}

// New gives the client of the deployment whose keys begin with this namespace, "dq" where it is "", over a connection of
// the caller: to a Redis, a Sentinel's master or a Redis Cluster.
func New(connection redis.UniversalClient, namespace string) (*Client, error) {
	if connection == nil {
		return nil, InvalidMessage("there is no connection")
	}
	if namespace == "" {
		namespace = "dq"
	}
	c := &Client{MaxPayloadBytes: 256 << 10, Timeout: 5 * time.Second, redis: connection, namespace: namespace,
		pollInterval: 2500 * time.Millisecond, pingAfter: 2 * time.Second}
	c.scripts = map[string]*redis.Script{}
	c.layout.Store(unknown)
	c.turn.Store(uint32(time.Now().UnixNano()))
	c.durabilities.turns = make(chan struct{}, turnsOf(connection))
	err := checkName("namespace", namespace)
	for _, verb := range verbs {
		script, fault := assemble(packed, verb)
		c.scripts[verb], err = script, first(err, fault)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Put puts one message. Those of many callers go together. If the context ends before it is sent, it is not sent; after that, it
// may have been stored all the same. A Cancel that is called later comes after it in any case.
func (c *Client) Put(ctx context.Context, message Message) (Outcome, error) {
	items, err := c.items(ctx, []Message{message}, c.gatherer(c.durabilities.waits(message.Topic)).batch.Load())
	if err != nil {
		return Outcome{}, err
	}
	return c.single(ctx, "put", items[0])
}

// PutMany puts many messages: one answer each, in order. With an error, those that have no answer have the
// word "unanswered": they may have been stored unless the error is a ScriptError. Repeat them alone, under the
// same ids. Extend, Ack, Release and Bury answer in the same way.
func (c *Client) PutMany(ctx context.Context, messages []Message) ([]Outcome, error) {
	items, err := c.items(ctx, messages, c.turn.Add(1))
	if err != nil {
		return nil, err
	}
	return c.each(ctx, "put", items)
}

// items are what a put says of messages. Ids are generated for the shard whose turn it is.
func (c *Client) items(ctx context.Context, messages []Message, turn uint32) ([]*item, error) {
	for i := range messages {
		if err := messages[i].checkTimes(); err != nil {
			return nil, err
		}
	}
	shards, err := c.shards(ctx)
	if c.MaxPayloadBytes < 1 || c.MaxPayloadBytes > maxPayloadBytes {
		return nil, InvalidMessage(fmt.Sprintf("MaxPayloadBytes is %d: 1 to %d", c.MaxPayloadBytes, maxPayloadBytes))
	}
	items, counts := make([]*item, len(messages)), c.layout.Load().counts
	for i := 0; err == nil && i < len(messages); i++ {
		var ahead time.Duration
		shard := int(turn % uint32(shards))
		if !messages[i].FirstTried.IsZero() {
			ahead, err = c.ahead(ctx, named(messages[i].Topic, messages[i].ID, messages[i].Group), counts)
		}
		items[i] = messages[i].item(counts, shard, ahead, c.MaxPayloadBytes)
	}
	return items, err
}

// ahead is how far the clock of a message's Redis is ahead of this host's: a little too far, rather than not far
// enough.
func (c *Client) ahead(ctx context.Context, one *item, counts []int) (time.Duration, error) {
	if one.err != nil {
		return 0, nil // which the put says
	}
	asked := time.Now()
	reply, err := c.one(ctx, "overview", placesOf(one.name, counts)[0], 0)
	if err != nil {
		return 0, err
	}
	return time.UnixMicro(reply[0].(int64)).Sub(asked) + time.Millisecond, nil
}

// Cancel cancels a message. An own id is another message in each group: it is found by both.
func (c *Client) Cancel(ctx context.Context, topic, id, group string) (Outcome, error) {
	return c.single(ctx, "cancel", named(topic, id, group))
}

// Reschedule changes when a pending message is due. Its group is "" where it has none.
func (c *Client) Reschedule(ctx context.Context, topic, id, group string, due Due) (Outcome, error) {
	one := named(topic, id, group, due.text(), due.expected)
	one.err = first(one.err, due.fault())
	return c.single(ctx, "reschedule", one)
}

// Get finds a message, or what is remembered of it; nil where nothing is known. Its group is "" where it has none.
func (c *Client) Get(ctx context.Context, topic, id, group string) (found *StoredMessage, err error) {
	one := named(topic, id, group)
	if one.err != nil {
		return nil, one.err
	}
	err = c.everyPlace(ctx, one.name, func(shard int) (bool, error) {
		reply, err := c.one(ctx, "peek", shard, one.topic, one.args[0])
		if err != nil || reply[1] == "" {
			return true, err
		}
		found = c.shown(ctx, storedMessage(shard, topic, one.args[0].(string), reply[1].(string)))
		return false, nil
	})
	return found, err
}

// Extend gives leases more time, from now; 0 for what the topic says.
func (c *Client) Extend(ctx context.Context, lease time.Duration, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "extend", receipts, checkLease(lease), millis(lease))
}

// Ack ends messages that were delivered.
func (c *Client) Ack(ctx context.Context, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "ack", receipts, nil)
}

// Release gives messages back that were not delivered.
func (c *Client) Release(ctx context.Context, how Release, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "release", receipts, how.check(), how.args()...)
}

// Bury moves messages that can never be delivered to the dead letters.
func (c *Client) Bury(ctx context.Context, reason string, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "bury", receipts, checkText("a reason", reason), cutReason(reason))
}

func (c *Client) settle(ctx context.Context, verb string, receipts []Receipt, err error, args ...any) ([]Outcome, error) {
	if err != nil {
		return nil, err
	}
	items := make([]*item, len(receipts))
	for i, receipt := range receipts {
		items[i] = receipt.item(args...)
	}
	return c.each(ctx, verb, items)
}

// gatherer is that of the calls that wait for the same.
func (c *Client) gatherer(waits string) *gatherer {
	known, is := c.gatherers.Load(waits)
	if !is {
		send := func(verb string, items []*item) { c.carryOut(context.Background(), verb, waits, items) }
		known, _ = c.gatherers.LoadOrStore(waits, &gatherer{send: send})
	}
	return known.(*gatherer)
}

// Close ends what listens and what waits; later calls return ErrClosed. End workers first. The given connection stays open.
func (c *Client) Close() {
	c.waiters.close()
}

func (c *Client) key(shard int, name string) string {
	return fmt.Sprintf("{%s:%d}:%s", c.namespace, shard, name)
}
