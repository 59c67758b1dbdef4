package delayq

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Options say which deployment it is.
type Options struct {
	// Namespace is what its keys begin with; "dq" where empty.
	Namespace string
	// Shards is how many it was created with; 16 where 0.
	Shards int
	// MostPayloadBytes is 256 KiB where 0, and at most 1 MiB.
	MostPayloadBytes int
}

// Client is a deployment of delayq on one Redis. It is safe for concurrent use. All verbs are safe to repeat; see the
// README for what a repeat does.
type Client struct {
	redis   redis.UniversalClient
	options Options
	turn    atomic.Uint32
}

// Answer is what a script answered for one message: a word, and what belongs to it. docs/protocol.md lists the words.
type Answer struct {
	Word string
	// TimeMs is when it is due; of what is over, when it ended; of a lease, its end: ms since the epoch, on Redis's
	// clock.
	TimeMs int64
	// OldMs is when it was due before.
	OldMs int64
	// State is the state or the outcome that the answer names.
	State string
	// Why it was refused or failed.
	Why string
	// Doomed says that a cancel came while it was leased: it will not be tried again.
	Doomed bool
}

// Put is what became of a put, and what finds the message again.
type Put struct {
	ID     MessageID
	Shard  int
	Answer Answer
}

// Accepted says whether the message is kept, by this put or an earlier one.
func (p Put) Accepted() bool {
	return p.Answer.Word == "stored" || p.Answer.Word == "ready" || p.Answer.Word == "exists"
}

// Receipt is the right to settle one delivery of one message.
type Receipt struct {
	Shard int
	raw   string
}

// Delivery is a message under lease; its attempt and delivery count this one.
type Delivery struct {
	Receipt    Receipt
	Topic      string
	ID         MessageID
	ReadyUs    int64
	LeaseEndMs int64
	Envelope   Envelope
}

// Broken is a leased message whose envelope cannot be read: bury it.
type Broken struct {
	Receipt Receipt
	Err     error
}

// Reserved is what a reserve found.
type Reserved struct {
	Deliveries []Delivery
	Broken     []Broken
	// Wait is when to come back without being woken: at once (0), later, or no reason to (nil).
	Wait *time.Duration
}

// Reserve is what a reserve asks for.
type Reserve struct {
	// Topics, the first that has something first.
	Topics []string
	// Most is 1 to 500 messages.
	Most int
	// Lease is in whole milliseconds; nil for what the topic says.
	Lease *time.Duration
	// Shard is the one to ask; nil for the first that has any, beginning behind the one that was asked last.
	Shard *int
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

// Change is a change of a due time: "at" a time, "after" a delay from now, "by" a difference, in ms. With ExpectedMs it
// is carried out only where the message is due then until now; "by" needs it, so that a repeat moves nothing twice.
type Change struct {
	Kind       string
	Ms         int64
	ExpectedMs *int64
}

// New gives the client of a deployment.
func New(connection redis.UniversalClient, options Options) (*Client, error) {
	if options.Namespace == "" {
		options.Namespace = "dq"
	}
	if options.Shards == 0 {
		options.Shards = 16
	}
	if options.MostPayloadBytes == 0 {
		options.MostPayloadBytes = 256 * 1024
	}
	options.MostPayloadBytes = min(options.MostPayloadBytes, maxPayloadBytes)
	if options.Shards < 1 || options.Shards > 4096 {
		return nil, InvalidMessage(fmt.Sprintf("a deployment has 1 to 4096 shards, not %d", options.Shards))
	}
	c := &Client{redis: connection, options: options}
	c.turn.Store(rand.Uint32())
	return c, checkForm("namespace", options.Namespace, namespaceForm)
}

// GenerateID gives an id for a message of this group ("" for none), to be put under it, again where need be.
func (c *Client) GenerateID(group string) MessageID {
	shard := c.nextShard()
	if group != "" {
		shard = shardOfName(group, c.options.Shards)
	}
	return generateID(shard, time.Now().UnixMilli())
}

// Put puts one message. After an error other than InvalidMessage or ScriptError it may be stored: put it again with
// the same id.
func (c *Client) Put(ctx context.Context, message Message) (Put, error) {
	puts, err := c.PutMany(ctx, []Message{message})
	if err != nil {
		return Put{}, err
	}
	return puts[0], nil
}

// PutMany puts many messages, in as few calls as the limits allow: one answer each, in order.
func (c *Client) PutMany(ctx context.Context, messages []Message) ([]Put, error) {
	puts, envelopes := make([]Put, len(messages)), make([][]byte, len(messages))
	for i := range messages {
		var err error
		if puts[i], envelopes[i], err = c.place(&messages[i]); err != nil {
			return nil, err
		}
	}
	batches := batched(len(messages), func(i int) string { return fmt.Sprint(puts[i].Shard, messages[i].Topic) },
		func(i int) int { return len(envelopes[i]) })
	for _, batch := range batches {
		args := []any{messages[batch[0]].Topic}
		for _, i := range batch {
			args = append(args, puts[i].ID.raw, messages[i].due(), messages[i].options(), envelopes[i])
		}
		replies, err := c.send(ctx, []call{{"put", puts[batch[0]].Shard, args}})
		if err != nil {
			return nil, err
		}
		for n, i := range batch {
			answer := parseAnswer(replies[0][n+1].(string))
			if answer.Word == "stored" || answer.Word == "ready" {
				answer.TimeMs = replies[0][0].(int64)/1000 + messages[i].AfterMs
				if messages[i].DueMs != nil {
					answer.TimeMs = *messages[i].DueMs
				}
			}
			puts[i].Answer = answer
		}
	}
	return puts, nil
}

// place gives the message its id, its shard and its envelope.
func (c *Client) place(m *Message) (Put, []byte, error) {
	if err := m.check(c.options.MostPayloadBytes); err != nil {
		return Put{}, nil, err
	}
	id := m.ID
	if id.raw == "" {
		id = c.GenerateID(m.Group)
	}
	shard := id.Shard(m.Group, c.options.Shards)
	if m.Group != "" && shard != shardOfName(m.Group, c.options.Shards) {
		return Put{}, nil, InvalidMessage(id.String() + " was generated for another shard than its group's")
	}
	return Put{ID: id, Shard: shard}, m.envelope(id), nil
}

// Cancel keeps a message from being delivered. An own id that was put with a group is found by both.
func (c *Client) Cancel(ctx context.Context, topic string, id MessageID, group string) (Answer, error) {
	return c.change(ctx, "cancel", topic, id, group)
}

// Reschedule changes the due time of a message that is pending.
func (c *Client) Reschedule(ctx context.Context, topic string, id MessageID, group string, change Change) (Answer, error) {
	due, expected := strconv.FormatInt(change.Ms, 10), ""
	if change.ExpectedMs != nil {
		expected = strconv.FormatInt(*change.ExpectedMs, 10)
	}
	switch {
	case change.Kind == "by" && change.ExpectedMs == nil:
		return Answer{}, InvalidMessage("a relative move needs the due time that is expected")
	case change.Kind == "by":
		due = fmt.Sprintf("by %+d", change.Ms)
	case change.Ms < 0 || change.Kind != "at" && change.Kind != "after":
		return Answer{}, InvalidMessage(fmt.Sprintf("%s %d ms is no change of a due time", change.Kind, change.Ms))
	case change.Kind == "after":
		due = "+" + due
	}
	return c.change(ctx, "reschedule", topic, id, group, due, expected)
}

func (c *Client) change(ctx context.Context, verb, topic string, id MessageID, group string, args ...any) (Answer, error) {
	if err := checkForm("topic", topic, topicForm); err != nil {
		return Answer{}, err
	}
	asked := call{verb, id.Shard(group, c.options.Shards), append([]any{topic, id.raw}, args...)}
	replies, err := c.send(ctx, []call{asked})
	if err != nil {
		return Answer{}, err
	}
	return parseAnswer(replies[0][0].(string)), nil
}

// Reserve takes messages that are ready, under a lease.
func (c *Client) Reserve(ctx context.Context, ask Reserve) (Reserved, error) {
	args := []any{ask.Most, 0, millis(ask.Lease)}
	for _, topic := range ask.Topics {
		if err := checkForm("topic", topic, topicForm); err != nil {
			return Reserved{}, err
		}
		args = append(args, topic)
	}
	var found Reserved
	for range c.options.Shards {
		shard := c.nextShard()
		if ask.Shard != nil {
			shard = *ask.Shard
		}
		replies, err := c.send(ctx, []call{{"reserve", shard, args}})
		if err != nil {
			return Reserved{}, err
		}
		if ms, ok := replies[0][1].(int64); ok {
			if wait := time.Duration(ms) * time.Millisecond; found.Wait == nil || wait < *found.Wait {
				found.Wait = &wait
			}
		}
		found.read(shard, ask.Topics, replies[0][6:])
		if ask.Shard != nil || len(found.Deliveries)+len(found.Broken) > 0 {
			break
		}
	}
	return found, nil
}

func (r *Reserved) read(shard int, topics []string, items []any) {
	for len(items) > 0 {
		topic, leaseEnd, count := topics[items[0].(int64)-1], items[1].(int64), items[2].(int64)
		items = items[3:]
		for range count {
			ready, receipt := items[0].(int64), Receipt{shard, items[1].(string)}
			envelope, err := DecodeEnvelope([]byte(items[2].(string)))
			items = items[3:]
			if err != nil {
				r.Broken = append(r.Broken, Broken{receipt, err})
				continue
			}
			_, id, _ := strings.Cut(receipt.raw[:len(receipt.raw)-4], ":")
			envelope.Delivery++
			envelope.Attempt = max(envelope.Attempt, envelope.Attempt+1) // stays at the most that it can be
			r.Deliveries = append(r.Deliveries, Delivery{receipt, topic, MessageID{id}, ready, leaseEnd, envelope})
		}
	}
}

// Extend gives leases more time, from now; nil for what the topic says.
func (c *Client) Extend(ctx context.Context, receipts []Receipt, lease *time.Duration) ([]Answer, error) {
	return c.settle(ctx, "extend", receipts, millis(lease))
}

// Ack ends messages that were delivered.
func (c *Client) Ack(ctx context.Context, receipts ...Receipt) ([]Answer, error) {
	return c.settle(ctx, "ack", receipts)
}

// Release gives messages back that were not delivered.
func (c *Client) Release(ctx context.Context, receipts []Receipt, how Release) ([]Answer, error) {
	keep := ""
	if how.KeepAttempt {
		keep = "keep"
	}
	return c.settle(ctx, "release", receipts, millis(how.Delay), keep, how.Reason)
}

// Bury moves messages that can never be delivered to the dead letters.
func (c *Client) Bury(ctx context.Context, receipts []Receipt, reason string) ([]Answer, error) {
	return c.settle(ctx, "bury", receipts, reason)
}

// settle makes one call a shard and 500 receipts, all in one round trip.
func (c *Client) settle(ctx context.Context, verb string, receipts []Receipt, args ...any) ([]Answer, error) {
	batches := batched(len(receipts), func(i int) string { return strconv.Itoa(receipts[i].Shard) },
		func(int) int { return 0 })
	calls := make([]call, len(batches))
	for n, batch := range batches {
		calls[n] = call{verb: verb, shard: receipts[batch[0]].Shard}
		for _, i := range batch {
			calls[n].args = append(append(calls[n].args, receipts[i].raw), args...)
		}
	}
	replies, err := c.send(ctx, calls)
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, len(receipts))
	for n, batch := range batches {
		for k, i := range batch {
			answers[i] = parseAnswer(replies[n][k].(string))
		}
	}
	return answers, nil
}

func (c *Client) nextShard() int { return int(c.turn.Add(1) % uint32(c.options.Shards)) }
