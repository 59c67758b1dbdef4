// Package delayq is the Go client of delayq: messages in Redis, delivered at a due time.
package delayq

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Now is a zero delay, where 0 selects the default.
const Now time.Duration = -1

// longestTimeout is the longest deadline of a call.
const longestTimeout = maxTimeoutMs * time.Millisecond

// Client is a deployment of delayq, safe for concurrent use. Every verb is safe to repeat; the README explains what a repeat
// does.
type Client struct {
	// MaxPayloadBytes limits payloads: 256 KiB by default, at most 1 MiB. Set before the first put.
	MaxPayloadBytes int
	// Timeout is the deadline of each Redis call: 5 s by default, at most a day. Set before the first call.
	Timeout time.Duration
	// ConfirmTimeout limits the wait for replicas or disk: at most, and by default, half of the deadline (Timeout, or a shorter
	// go-redis ReadTimeout).
	ConfirmTimeout time.Duration

	redis     redis.UniversalClient
	namespace string
	scripts   map[string]script
	layout    atomic.Pointer[layout]
	// identity is that of the deployment, as the first shard that refused a layout named it.
	identity atomic.Pointer[string]
	learning sync.Mutex
	turn     atomic.Uint32
	decoders sync.Map
	waiters  waiters
	rounds   rounds
	silences silences
	// gatherers are keyed by durability, so that a slow confirmation delays only calls with the same durability.
	gatherers    sync.Map
	durabilities durabilities
	writes       ordering
	// pollInterval is the pause between polls of idle shards, a safety net for lost notifications.
	pollInterval, pingAfter time.Duration
}

// New returns the client of a deployment by the prefix of the keys ("" is "dq"), over a connection of the caller: a Redis, a
// master behind sentinels (Connect) or a Redis Cluster.
func New(connection redis.UniversalClient, namespace string) (*Client, error) {
	if connection == nil {
		return nil, InvalidMessage("the connection is nil")
	}
	if namespace == "" {
		namespace = defaultNamespace
	}
	c := &Client{MaxPayloadBytes: defaultMaxPayloadBytes, Timeout: 5 * time.Second, redis: connection, namespace: namespace,
		pollInterval: 2500 * time.Millisecond, pingAfter: 2 * time.Second}
	c.scripts = map[string]script{}
	c.layout.Store(unknown)
	c.turn.Store(uint32(time.Now().UnixNano()))
	c.durabilities.turns = make(chan struct{}, turnsOf(connection))
	err := first(checkName("namespace", namespace), c.recognise())
	for _, verb := range verbs {
		script, fault := assemble(packed, verb)
		c.scripts[verb], err = script, first(err, fault)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Put puts one message, batched with the puts of other callers. A put is not sent after the context has ended; a put in flight
// may still be stored. A later Cancel always follows the put.
func (c *Client) Put(ctx context.Context, message Message) (Outcome, error) {
	items, err := c.items(ctx, []Message{message}, c.gatherer(c.durabilities.waits(message.Topic)).batch.Load())
	if err != nil {
		return Outcome{}, err
	}
	return c.single(ctx, "put", items[0])
}

// PutMany puts many messages and returns one outcome per message, in order. With an error, the word of an unanswered message is
// Unanswered: unless the error is a ScriptError, the message may have been stored. Repeat only unanswered messages, with the
// same ids. Extend, Ack, Release and Bury behave alike.
func (c *Client) PutMany(ctx context.Context, messages []Message) ([]Outcome, error) {
	items, err := c.items(ctx, messages, c.turn.Add(1))
	if err != nil {
		return nil, err
	}
	return c.each(ctx, "put", items)
}

// items encodes messages for a put. Generated ids go to the shards in turn.
func (c *Client) items(ctx context.Context, messages []Message, turn uint32) ([]*item, error) {
	for i := range messages {
		if err := messages[i].checkTimes(); err != nil {
			return nil, err
		}
	}
	if c.MaxPayloadBytes < 1 || c.MaxPayloadBytes > maxPayloadBytes {
		return nil, InvalidMessage(fmt.Sprintf("MaxPayloadBytes is %d: 1 to %d", c.MaxPayloadBytes, maxPayloadBytes))
	}
	shards, err := c.shards(ctx)
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

// ahead returns how far the Redis clock is ahead of the local clock, rounded up.
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

// Cancel cancels a message. The same own id in another group is another message.
func (c *Client) Cancel(ctx context.Context, topic, id, group string) (Outcome, error) {
	return c.single(ctx, "cancel", named(topic, id, group))
}

// Reschedule changes the due time of a pending message. An empty group means no group.
func (c *Client) Reschedule(ctx context.Context, topic, id, group string, due Due) (Outcome, error) {
	one := named(topic, id, group, due.text(), due.expected)
	one.err = first(one.err, due.fault())
	return c.single(ctx, "reschedule", one)
}

// Get returns a message, or the record of a finished message; nil if Redis has neither. An empty group means no group.
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

// Extend extends leases from now; 0 selects the topic's lease.
func (c *Client) Extend(ctx context.Context, lease time.Duration, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "extend", receipts, checkLease(lease), millis(lease))
}

// Ack finishes delivered messages.
func (c *Client) Ack(ctx context.Context, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "ack", receipts, nil)
}

// Release returns undelivered messages to the queue.
func (c *Client) Release(ctx context.Context, how Release, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "release", receipts, how.check(), how.args()...)
}

// Bury moves undeliverable messages to the dead letters.
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

func (c *Client) gatherer(waits string) *gatherer {
	known, is := c.gatherers.Load(waits)
	if !is {
		send := func(verb string, items []*item) { c.carryOut(context.Background(), verb, waits, items) }
		known, _ = c.gatherers.LoadOrStore(waits, &gatherer{send: send})
	}
	return known.(*gatherer)
}

// Close ends listening and waiting; later calls return ErrClosed. Stop workers first. The given connection stays open.
func (c *Client) Close() {
	c.waiters.close()
}

func (c *Client) key(shard int, name string) string {
	return keyOf(c.namespace, shard, name)
}
