package delayq

import (
	"context"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/redis/go-redis/v9"
)

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

// Reserve takes ready messages under a lease, from the first topic that has any: those of the first shard that has any,
// beginning one further each time.
func (c *Client) Reserve(ctx context.Context, ask Reserve) ([]*Delivery, error) {
	until, only := time.Now().Add(ask.Wait), -1
	var heard <-chan any
	for {
		found, back, err := c.look(ctx, ask, only)
		left := time.Until(until)
		if err != nil || len(found) > 0 || left <= 0 {
			return found, err
		}
		if heard == nil {
			listener := c.redis.SSubscribe(ctx, c.channels()...)
			defer listener.Close()
			heard = listener.ChannelWithSubscriptions()
		}
		if back > left {
			back = left
		}
		only = -1
		select {
		case said := <-heard: // first of each shard that it is listened to: it is looked at then, too
			only = c.shardOf(said)
		case <-time.After(back):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// channels are those on which shards say that a ready queue is not empty any more.
func (c *Client) channels() []string {
	channels := make([]string, c.layout.Load().shards())
	for shard := range channels {
		channels[shard] = fmt.Sprintf("{%s:%d}:ready", c.namespace, shard)
	}
	return channels
}

// shardOf is the shard of whose channel something is said, or -1.
func (c *Client) shardOf(said any) int {
	channel, shard := "", -1
	switch said := said.(type) {
	case *redis.Subscription:
		channel = said.Channel
	case *redis.Message:
		channel = said.Channel
	}
	_, _ = fmt.Sscanf(channel, "{"+c.namespace+":%d}:ready", &shard)
	return shard
}

// look reserves from this shard, or (-1) the first that has any; and says when to look again at the latest.
func (c *Client) look(ctx context.Context, ask Reserve, only int) (found []*Delivery, back time.Duration, err error) {
	known, err := c.learn(ctx)
	args := []any{ask.Most, 0, millis(ask.Lease)}
	if ask.Most == 0 {
		args[0] = 1
	}
	for _, topic := range ask.Topics {
		args, err = append(args, topic), first(err, checkName("topic", topic))
	}
	back = lookEvery
	turn := int(c.turn.Add(1) % (1 << 16))
	for asked := 0; err == nil && len(found) == 0 && asked < known.shards(); asked++ {
		shard := (turn + asked) % known.shards()
		if only >= 0 {
			shard, asked = only, known.shards()
		}
		reply, fault := c.one(ctx, "reserve", shard, args...)
		if fault != nil {
			return nil, 0, fault
		}
		items := reply.([]any)
		if ms, said := items[1].(int64); said && time.Duration(ms)*time.Millisecond < back {
			back = time.Duration(ms) * time.Millisecond
		}
		found, err = c.readable(ctx, shard, ask.Topics, items[6:])
	}
	return found, back, err
}

// readable reads what a reserve answered behind its numbers, and buries messages that nobody can read: they keep no other
// from being delivered.
func (c *Client) readable(ctx context.Context, shard int, topics []string, items []any) (readable []*Delivery, err error) {
	for err == nil && len(items) > 0 {
		topic, leaseEnd, count := topics[items[0].(int64)-1], time.UnixMilli(items[1].(int64)), items[2].(int64)
		for items = items[3:]; err == nil && count > 0; count, items = count-1, items[3:] {
			receipt, ready := Receipt{shard, items[1].(string)}, time.UnixMicro(items[0].(int64))
			delivery := &Delivery{Receipt: receipt, Topic: topic, ID: receipt.id(), Ready: ready, LeaseEnd: leaseEnd}
			compressed, fault := delivery.read(items[2].(string))
			if fault == nil && compressed {
				var dictionaries [][]byte
				dictionaries, err = c.dictionaryOf(ctx, delivery.Payload)
				fault = first(err, delivery.restore(dictionaries))
			}
			if fault == nil {
				readable = append(readable, delivery)
			} else if err == nil {
				_, err = c.Bury(ctx, fault.Error(), receipt)
			}
		}
	}
	return readable, err
}

// dictionaryOf finds the dictionary that a compressed payload needs, if it needs one.
func (c *Client) dictionaryOf(ctx context.Context, frame []byte) ([][]byte, error) {
	var head zstd.Header
	if fault := head.Decode(frame); fault != nil || head.DictionaryID == 0 { // restoring it says what is wrong
		return nil, nil
	}
	found, known := c.dictionaries.Load(head.DictionaryID)
	if !known {
		reply, err := c.one(ctx, "dictionary", 0, head.DictionaryID, "")
		if err != nil {
			return nil, err
		}
		found = []byte(reply.(string))
		c.dictionaries.Store(head.DictionaryID, found)
	}
	return [][]byte{found.([]byte)}, nil
}
