// Package delayq is delayq's client for Go: messages that are delivered at their due time, kept in Redis.
package delayq

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/redis/go-redis/v9"
)

// Now is no delay at all, where 0 stands for a default.
const Now time.Duration = -1

// Client is a deployment of delayq on one Redis. It is safe for concurrent use. All verbs are safe to repeat;
// see the README for what a repeat does.
type Client struct {
	// MostPayloadBytes is 256 KiB unless it is set before the first put; at most 1 MiB.
	MostPayloadBytes int

	redis     redis.UniversalClient
	namespace string
	scripts   map[string]*redis.Script
	layout    atomic.Pointer[layout]
	turn      atomic.Uint32
	decoders  sync.Map
}

// New gives the client of the deployment whose keys begin with this namespace, "dq" by default.
func New(connection redis.UniversalClient, namespace string) (*Client, error) {
	c := &Client{MostPayloadBytes: 256 << 10, redis: connection, namespace: namespace}
	c.scripts = map[string]*redis.Script{}
	c.layout.Store(unknown)
	c.turn.Store(uint32(time.Now().UnixNano()))
	err := checkName("namespace", namespace)
	for _, verb := range verbs {
		script, fault := assemble(luaFolder(), verb)
		c.scripts[verb], err = script, first(err, fault)
	}
	return c, err
}

// Put puts one message.
func (c *Client) Put(ctx context.Context, message Message) (Outcome, error) {
	return single(c.PutMany(ctx, []Message{message}))
}

// single is the outcome of a call for one message.
func single(outcomes []Outcome, err error) (Outcome, error) {
	return append(outcomes, Outcome{})[0], err
}

// PutMany puts many messages: one answer each, in order. With an error, those that have no answer have the
// word "unanswered": they may have been stored unless the error is a ScriptError. Repeat them alone, under the
// same ids. Extend, Ack, Release and Bury answer in the same way.
func (c *Client) PutMany(ctx context.Context, messages []Message) ([]Outcome, error) {
	shards, err := c.shards(ctx)
	var ahead time.Duration
	items, counts := make([]*item, len(messages)), c.layout.Load().counts
	for i := 0; err == nil && i < len(messages); i++ {
		if ahead == 0 && !messages[i].FirstTried.IsZero() {
			ahead, err = c.ahead(ctx)
		}
		items[i] = messages[i].item(counts, shards[0], ahead, c.MostPayloadBytes)
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
	// Delay is 0 for their back-off, or Now.
	Delay time.Duration
	// KeepAttempt says that the attempt does not count.
	KeepAttempt bool
	// Reason is for the dead letters, where this was the last attempt.
	Reason string
}

// Release gives messages back that were not delivered.
func (c *Client) Release(ctx context.Context, how Release, receipts ...Receipt) ([]Outcome, error) {
	keep := ""
	if how.KeepAttempt {
		keep = "keep"
	}
	return c.settle(ctx, "release", receipts, millis(how.Delay), keep, how.Reason)
}

// Bury moves messages that can never be delivered to the dead letters.
func (c *Client) Bury(ctx context.Context, reason string, receipts ...Receipt) ([]Outcome, error) {
	return c.settle(ctx, "bury", receipts, reason)
}

func (c *Client) settle(ctx context.Context, verb string, receipts []Receipt, args ...any) (
	[]Outcome, error) {
	items := make([]*item, len(receipts))
	for i, receipt := range receipts {
		said := append([]any{receipt.Raw}, args...)
		items[i] = &item{places: []int{receipt.Shard}, args: said, outcome: Outcome{ID: receipt.id()}}
	}
	return c.each(ctx, verb, items)
}

// millis is a duration for a script, which has a default for 0.
func millis(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

// lookEvery is how often a reserve that waits looks without having been woken.
var lookEvery = time.Second

// Reserve is what a reserve asks for.
type Reserve struct {
	// Topics, the first that has something first.
	Topics []string
	// Most is 1 to 500 messages; 1 where 0.
	Most int
	// Lease is 0 for what the topic says.
	Lease time.Duration
	// Wait is how long to wait for a message where there is none.
	Wait time.Duration
}

// Reserve takes ready messages under a lease, from the first topic that has any: those of the first shard
// that has any, beginning one further each time.
func (c *Client) Reserve(ctx context.Context, ask Reserve) ([]*Delivery, error) {
	waiting, end := context.WithTimeout(ctx, ask.Wait)
	defer end()
	var heard <-chan any
	shards, err := c.shards(ctx)
	for err == nil {
		back := lookEvery
		for _, shard := range shards {
			found, err := c.take(ctx, shard, ask, &back)
			if err != nil || len(found) > 0 {
				return found, err
			}
		}
		if waiting.Err() != nil {
			return nil, ctx.Err()
		}
		if heard == nil {
			listener := c.redis.SSubscribe(ctx, c.channels(shards)...)
			defer listener.Close()
			heard = listener.ChannelWithSubscriptions()
		}
		resting, wake := context.WithTimeout(waiting, back)
		select {
		case said := <-heard: // first of each shard that it is listened to: it is looked at then, too
			shards = []int{shardOf(said)}
		case <-resting.Done():
			shards, err = c.shards(ctx)
		}
		wake()
	}
	return nil, err
}

// channels are those on which shards say that a ready queue is not empty any more.
func (c *Client) channels(shards []int) (channels []string) {
	for _, shard := range shards {
		channels = append(channels, c.key(shard, "ready"))
	}
	return channels
}

// shardOf is the shard of whose channel, "{dq:7}:ready", something is heard: what is heard prints it.
func shardOf(heard any) (shard int) {
	_, channel, _ := strings.Cut(fmt.Sprint(heard), "{")
	_, number, _ := strings.Cut(channel, ":")
	_, _ = fmt.Sscanf(number, "%d}", &shard)
	return shard
}

// take reserves from one shard, and says when to come back at the latest. It buries messages that nobody can
// read: they keep no other from being delivered.
func (c *Client) take(ctx context.Context, shard int, ask Reserve, back *time.Duration) (
	found []*Delivery, err error) {
	args := []any{ask.Most, 0, millis(ask.Lease)}
	if ask.Most == 0 {
		args[0] = 1
	}
	for _, topic := range ask.Topics {
		args, err = append(args, topic), first(err, checkName("topic", topic))
	}
	if err != nil {
		return nil, err
	}
	items, err := c.one(ctx, "reserve", shard, args...)
	if err != nil {
		return nil, err
	}
	if ms, said := items[1].(int64); said && time.Duration(ms)*time.Millisecond < *back {
		*back = time.Duration(ms) * time.Millisecond
	}
	for items = items[6:]; len(items) > 0; {
		topic, end := ask.Topics[items[0].(int64)-1], time.UnixMilli(items[1].(int64))
		for count := items[2].(int64); count > 0; count-- {
			items = items[3:]
			receipt, ready := Receipt{shard, items[1].(string)}, time.UnixMicro(items[0].(int64))
			one := &Delivery{Receipt: receipt, Topic: topic, ID: receipt.id(), Ready: ready, LeaseEnd: end}
			compressed, err := one.read(items[2].(string))
			if compressed && err == nil {
				one.Payload, err = c.restore(ctx, one.Payload)
			}
			if unreadable, is := err.(InvalidMessage); is {
				_, err = c.Bury(ctx, unreadable.Error(), receipt)
			} else {
				found = append(found, one)
			}
			if err != nil {
				return nil, err
			}
		}
		items = items[3:]
	}
	return found, nil
}

// restore gives a compressed payload as it was put, by the dictionary that it needs, if it needs one.
func (c *Client) restore(ctx context.Context, frame []byte) (payload []byte, err error) {
	var head zstd.Header
	_ = head.Decode(frame) // what is wrong with it is said below
	decoder, known := c.decoders.Load(head.DictionaryID)
	if !known {
		options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayloadBytes)}
		if head.DictionaryID > 0 {
			reply, err := c.one(ctx, "dictionary", 0, head.DictionaryID, "")
			if err != nil {
				return nil, err
			}
			options = append(options, zstd.WithDecoderDicts([]byte(reply[0].(string))))
		}
		if decoder, err = zstd.NewReader(nil, options...); err == nil {
			c.decoders.Store(head.DictionaryID, decoder)
		}
	}
	if err == nil {
		payload, err = decoder.(*zstd.Decoder).DecodeAll(frame, nil)
	}
	if err != nil {
		return nil, InvalidMessage("the payload cannot be restored: " + err.Error())
	}
	return payload, nil
}
