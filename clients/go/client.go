// Package delayq is delayq's client for Go: messages that are delivered at their due time, kept in Redis.
package delayq

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"strconv"
	"strings"
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

	redis     redis.UniversalClient
	namespace string
	// counts says how many shards there were in each layout, the newest last.
	counts       atomic.Pointer[[]int]
	turn         atomic.Uint32
	dictionaries sync.Map
}

// New gives the client of the deployment whose keys begin with this namespace, "dq" by default.
func New(connection redis.UniversalClient, namespace string) (*Client, error) {
	c := &Client{MostPayloadBytes: 256 * 1024, redis: connection, namespace: namespace}
	c.counts.Store(&[]int{})
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
	shards, err := c.learn(ctx)
	items, place := make([]item, len(messages)), c.turn.Add(1)%(1<<16)
	for i := 0; err == nil && i < len(messages); i++ {
		items[i], err = c.item(&messages[i], int(place)%shards)
	}
	if err != nil {
		return nil, err
	}
	return c.each(ctx, "put", items)
}

// item is what a put says of a message. Generated ids go to the shards in turn, put by put, or to their groups'.
func (c *Client) item(m *Message, place int) (item, error) {
	places, id := []int{place}, m.ID
	if m.Group != "" {
		places = placesOf(m.Group, *c.counts.Load())
	}
	if id == "" {
		id = generateID(places[0])
	}
	one, err := named(m.Topic, id, m.Group)
	if err != nil {
		return one, err
	}
	raw, due, options := one.args[0].(string), "+"+strconv.FormatInt(m.After.Milliseconds(), 10), ""
	if !m.Due.IsZero() {
		due = strconv.FormatInt(m.Due.UnixMilli(), 10)
	}
	if m.Replace {
		options = "replace"
	}
	if !m.FirstTried.IsZero() {
		options += fmt.Sprintf(" tried=%d", m.FirstTried.UnixMilli())
	}
	if m.Group != "" && generated(raw) && !strings.Contains(fmt.Sprint(places), fmt.Sprint(placesOf(raw, nil)[0])) {
		return one, InvalidMessage(id + " was generated for another shard than its group's")
	}
	envelope, err := m.envelope(!generated(raw), c.MostPayloadBytes)
	one.args = append(one.args, due, options, envelope)
	return one, err
}

// Change is a change of a due time: At, After or By make one.
type Change struct{ due, expected string }

// At moves a message to a time.
func At(due time.Time) Change { return Change{due: strconv.FormatInt(due.UnixMilli(), 10)} }

// After moves a message to a delay from now.
func After(delay time.Duration) Change {
	return Change{due: "+" + strconv.FormatInt(delay.Milliseconds(), 10)}
}

// By moves a message by a difference to the time that it is expected to be due at, so that a repeat moves nothing twice.
func By(difference time.Duration, expected time.Time) Change {
	return Change{due: fmt.Sprintf("by %+d", difference.Milliseconds())}.IfDue(expected)
}

// IfDue carries the change out only where the message is due then until now.
func (c Change) IfDue(expected time.Time) Change {
	c.expected = strconv.FormatInt(expected.UnixMilli(), 10)
	return c
}

// Cancel keeps a message from being delivered. An own id that was put with a group is found by both.
func (c *Client) Cancel(ctx context.Context, topic, id, group string) (Outcome, error) {
	return c.change(ctx, "cancel", topic, id, group)
}

// Reschedule changes when a pending message is due. Its group is "" where it has none.
func (c *Client) Reschedule(ctx context.Context, topic, id, group string, change Change) (Outcome, error) {
	return c.change(ctx, "reschedule", topic, id, group, change.due, change.expected)
}

func (c *Client) change(ctx context.Context, verb, topic, id, group string, args ...any) (Outcome, error) {
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
	place := raw
	if err == nil {
		err = checkName("topic", topic)
	}
	if err == nil && group != "" {
		err = checkName("group", group)
		if !generated(raw) {
			place = group
		}
	}
	return item{name: place, topic: []any{topic}, args: []any{raw}}, err
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

func (c *Client) settle(ctx context.Context, verb string, receipts []Receipt, args ...any) ([]Outcome, error) {
	items := make([]item, len(receipts))
	for i, receipt := range receipts {
		items[i] = item{shard: receipt.Shard, args: append([]any{receipt.Raw}, args...)}
	}
	return c.outcomes(ctx, verb, items)
}

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
	until := time.Now().Add(ask.Wait)
	if ask.Most == 0 {
		ask.Most = 1
	}
	found, back, err := c.look(ctx, ask, -1)
	if err != nil || len(found) > 0 || ask.Wait <= 0 {
		return found, err
	}
	var channels []string
	shards, err := c.learn(ctx)
	for shard := 0; shard < shards; shard++ {
		channels = append(channels, fmt.Sprintf("{%s:%d}:ready", c.namespace, shard))
	}
	listener := c.redis.SSubscribe(ctx, channels...)
	defer listener.Close()
	for err == nil && len(found) == 0 && time.Now().Before(until) {
		if left := time.Until(until); left < back {
			back = left
		}
		heard, fault := listener.ReceiveTimeout(ctx, back)
		var timeout net.Error
		if fault != nil && !(errors.As(fault, &timeout) && timeout.Timeout()) {
			return nil, fault
		}
		found, back, err = c.look(ctx, ask, c.shardHeard(heard))
	}
	return found, err
}

// shardHeard is the shard whose channel was heard, or -1. The first thing heard of it is that it is listened to: it is
// looked at then, too.
func (c *Client) shardHeard(heard any) (shard int) {
	channel := ""
	if subscription, ok := heard.(*redis.Subscription); ok {
		channel = subscription.Channel
	} else if message, ok := heard.(*redis.Message); ok {
		channel = message.Channel
	}
	if _, err := fmt.Sscanf(channel, "{"+c.namespace+":%d}:ready", &shard); err != nil {
		return -1
	}
	return shard
}

// look reserves from this shard, or (-1) the first that has any; and says when to look again at the latest.
func (c *Client) look(ctx context.Context, ask Reserve, only int) (found []*Delivery, back time.Duration, err error) {
	back, args := lookEvery, []any{ask.Most, 0, millis(ask.Lease)}
	for _, topic := range ask.Topics {
		if err := checkName("topic", topic); err != nil {
			return nil, 0, err
		}
		args = append(args, topic)
	}
	shards, err := c.learn(ctx)
	first := c.turn.Add(1) % (1 << 16)
	for asked := 0; err == nil && len(found) == 0 && asked < shards; asked++ {
		shard := (int(first) + asked) % shards
		if only >= 0 {
			shard, shards = only, 1
		}
		var reply []any
		if reply, err = c.one(ctx, "reserve", shard, args...); err == nil {
			if ms, said := reply[1].(int64); said && time.Duration(ms)*time.Millisecond < back {
				back = time.Duration(ms) * time.Millisecond
			}
			found, err = c.readable(ctx, shard, ask.Topics, reply[6:])
		}
	}
	return found, back, err
}

// readable reads what a reserve answered behind its numbers, and buries messages that nobody can read: they keep no other
// from being delivered.
func (c *Client) readable(ctx context.Context, shard int, topics []string, items []any) (readable []*Delivery, err error) {
	for err == nil && len(items) > 0 {
		topic, leaseEndMs, count := topics[items[0].(int64)-1], items[1].(int64), items[2].(int64)
		for items = items[3:]; err == nil && count > 0; count, items = count-1, items[3:] {
			delivery := leased(shard, topic, leaseEndMs, items)
			compressed, fault := delivery.read(items[2].(string))
			if fault == nil && compressed {
				fault = delivery.restore(func(id uint32) (found []byte, _ error) {
					found, err = c.dictionary(ctx, id) // its fault is Redis's, not the message's
					return found, err
				})
			}
			if err == nil && fault == nil {
				readable = append(readable, delivery)
			} else if err == nil {
				_, err = c.Bury(ctx, fault.Error(), delivery.Receipt)
			}
		}
	}
	return readable, err
}

func (c *Client) dictionary(ctx context.Context, id uint32) ([]byte, error) {
	if found, ok := c.dictionaries.Load(id); ok {
		return found.([]byte), nil
	}
	reply, err := c.one(ctx, "dictionary", 0, id, "")
	if err != nil {
		return nil, err
	}
	found := []byte(reply[0].(string))
	c.dictionaries.Store(id, found)
	return found, nil
}

// millis is a duration for a script; 0 for its default.
func millis(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}
