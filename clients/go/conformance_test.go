// The conformance suite shared by all clients.

package delayq

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

type step struct {
	Op, Topic, ID, Group, Verb, Error, Reason string
	Unconfirmed                               string
	Message                                   said
	Messages                                  []said
	AtMs                                      *int64 `json:"at_ms"`
	AfterMs                                   *int64 `json:"after_ms"`
	ByMs                                      int64  `json:"by_ms"`
	ExpectedMs                                any    `json:"expected_ms"`
	Args                                      []any
	Topics, Receipts                          []string
	Most, Times, Layout                       int
	LeaseMs                                   int64  `json:"lease_ms"`
	WaitMs                                    int64  `json:"wait_ms"`
	DelayMs                                   *int64 `json:"delay_ms"`
	KeepAttempt                               bool   `json:"keep_attempt"`
	Shard, Expect                             any
	ExpectEach                                map[string]any `json:"expect_each"`
	Meanwhile                                 []step
	Next                                      *said
	Invalid                                   bool
}

type said struct {
	Topic, Group    string
	ID              *string
	Payload         *string
	PayloadTimes    int          `json:"payload_times"`
	PayloadHex      string       `json:"payload_hex"`
	AtMs            *int64       `json:"at_ms"`
	AfterMs         int64        `json:"after_ms"`
	Headers         [][2]string  `json:"headers"`
	ExpiresMs       int64        `json:"expires_ms"`
	ExpireAfterMs   int64        `json:"expire_after_ms"`
	MaxAttempts     uint16       `json:"max_attempts"`
	Backoff         *backoffSaid `json:"backoff"`
	Replace         bool
	DebounceMs      int64 `json:"debounce_ms"`
	ThrottleMs      int64 `json:"throttle_ms"`
	SwallowMs       int64 `json:"swallow_ms"`
	Only            DueRule
	KeepContent     bool   `json:"keep_content"`
	ExpectedMs      int64  `json:"expected_ms"`
	ExpectedContent string `json:"expected_content"`
	FirstTriedMs    int64  `json:"first_tried_ms"`
}

// run is one scenario in progress, with the variables bound by earlier steps.
type run struct {
	t         *testing.T
	client    *Client
	redis     redis.UniversalClient
	namespace string
	bound     map[string]any
	// Deliveries by receipt: a next message is put by one of them.
	deliveries map[Receipt]*Delivery
	// Settings of a group with a replica: while the replica is frozen, a second client waits only briefly.
	group              *redisGroup
	patient, impatient *Client
}

func TestEveryStepOfTheSuiteGetsTheAnswerThatAllClientsGet(t *testing.T) {
	t.Run("of one Redis", func(t *testing.T) { conforms(t, connect(t)) })
	for _, kind := range []string{"sentinel", "cluster"} {
		t.Run("of a "+kind, func(t *testing.T) { conforms(t, groupOf(t, kind).connect(t, nil)) })
	}
	t.Run("of two Redises", func(t *testing.T) { conforms(t, must(NewOfNodes(twoNodes(t), "dq")).redis) })
}

func conforms(t *testing.T, connection redis.UniversalClient) {
	var suite struct {
		Scenarios []struct {
			Name   string
			Shards int
			Init   *bool
			Steps  []step
		}
	}
	vectors(t, "conformance.json", &suite)
	for number, scenario := range suite.Scenarios {
		t.Run(scenario.Name, func(t *testing.T) {
			namespace, shards := fmt.Sprintf("g%d", number), scenario.Shards
			if shards == 0 {
				shards = 1
			}
			client := must(New(connection, namespace))
			t.Cleanup(client.Close)
			r := run{t: t, client: client, redis: connection, namespace: namespace, bound: map[string]any{}}
			for shard := 0; scenario.Init == nil && shard < shards; shard++ {
				must(r.script("init", shard, 1, shard, shards))
			}
			for i, step := range scenario.Steps {
				r.carryOut(step, fmt.Sprintf("step %d (%s)", i+1, step.Op))
			}
		})
	}
}

func (r *run) carryOut(s step, place string) {
	r.t.Helper()
	got, err := r.step(s)
	var invalid InvalidMessage
	var refused ScriptError
	switch {
	case s.Invalid:
		answer, _ := got.(map[string]any)
		if !errors.As(err, &invalid) && answer["word"] != "refused" {
			r.t.Fatalf("%s: got %v, %v", place, got, err)
		}
	case s.Unconfirmed != "":
		var unconfirmed UnconfirmedError
		if !errors.As(err, &unconfirmed) || !strings.Contains(err.Error(), s.Unconfirmed) {
			r.t.Fatalf("%s: got %v, %v", place, got, err)
		}
		if s.Expect != nil {
			r.compare(s.Expect, got, place)
		}
	case s.Error != "":
		if !errors.As(err, &refused) || refused.Code != s.Error {
			r.t.Fatalf("%s: got %v, %v", place, got, err)
		}
		if s.Expect != nil {
			r.compare(s.Expect, got, place)
		}
	case err != nil:
		r.t.Fatalf("%s: %v", place, err)
	case s.Op == "script":
		expected, _ := s.Expect.([]any)
		for i, item := range expected {
			if found := fmt.Sprint(got.([]any)[i]); item != "*" && item != found {
				r.t.Fatalf("%s: got %v", place, got)
			}
		}
	case s.ExpectEach != nil:
		for n, one := range got.([]any) {
			r.compare(numbered(s.ExpectEach, n), one, fmt.Sprintf("%s, %d", place, n))
		}
	case s.Expect != nil:
		r.compare(s.Expect, got, place)
	}
}

func (r *run) groupOf(s step) Group {
	if s.Topic == "" {
		return r.client.Group(s.Group)
	}
	return r.client.Group(s.Group).OfTopic(s.Topic)
}

func (r *run) step(s step) (any, error) {
	ctx := context.Background()
	switch s.Op {
	case "put":
		message, err := r.message(s.Message)
		if err != nil {
			return nil, err
		}
		put, err := r.client.Put(ctx, message)
		return shown(put), err
	case "put_many":
		var messages []Message
		for n := 0; n < s.Times; n++ {
			id := strings.ReplaceAll(*s.Message.ID, "#", strconv.Itoa(n))
			one := s.Message
			one.ID = &id
			messages = append(messages, must(r.message(one)))
		}
		for _, said := range s.Messages {
			messages = append(messages, must(r.message(said)))
		}
		puts, err := r.client.PutMany(ctx, messages)
		return shownAll(puts, shown), err
	case "cancel":
		outcome, err := r.client.Cancel(ctx, s.Topic, r.id(s.ID), s.Group)
		return shown(outcome), err
	case "reschedule":
		outcome, err := r.client.Reschedule(ctx, s.Topic, r.id(s.ID), s.Group, r.change(s))
		return shown(outcome), err
	case "cancel_group":
		return r.groupOf(s).Cancel(ctx)
	case "shift_group":
		return r.groupOf(s).Shift(ctx, millisOf(s.ByMs), "")
	case "freeze", "thaw":
		r.group.does(s.Op, "")
		r.client = map[string]*Client{"freeze": r.impatient, "thaw": r.patient}[s.Op]
		return nil, nil
	case "reserve":
		return r.reserve(ctx, s)
	case "drain":
		return r.drain(ctx, s)
	case "listening":
		channel := fmt.Sprintf("{%s:%v}:ready", r.namespace, s.Shard)
		for listening := int64(0); listening == 0; {
			counts := must(must(nodeOf(ctx, r.redis, channel)).PubSubShardNumSub(ctx, channel).Result())
			for _, listening = range counts {
			}
		}
		return nil, nil
	case "pump":
		for moved := int64(0); moved == 0; {
			counts := must(r.script("pump", s.Shard, 1, "0", "500")).([]any)
			moved = counts[3].(int64) + counts[4].(int64)
		}
		return nil, nil
	case "script":
		var args []any
		for _, arg := range s.Args {
			if bytes, coded := arg.(map[string]any); coded {
				arg = must(hex.DecodeString(bytes["hex"].(string)))
			}
			args = append(args, arg)
		}
		if s.Layout == 0 {
			s.Layout = 1
		}
		return r.script(s.Verb, r.known(s.Shard), s.Layout, args...)
	case "redis":
		var args []any
		for _, arg := range s.Args {
			args = append(args, strings.ReplaceAll(arg.(string), "NAMESPACE", r.namespace))
		}
		if of, is := r.redis.(*several); is {
			return nil, r.ofSeveral(ctx, of, args)
		}
		if cluster, is := r.redis.(*redis.ClusterClient); is && args[0] == "SCRIPT" { // says no key
			return nil, cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.Do(ctx, args...).Err() })
		}
		return nil, r.redis.Do(ctx, args...).Err()
	}
	outcomes, err := r.settle(ctx, s)
	return shownAll(outcomes, shown), err
}

// reserve reserves, waits if the step says so, and runs the steps of `meanwhile`.
func (r *run) reserve(ctx context.Context, s step) (any, error) {
	var found []*Delivery
	var err error
	done := make(chan struct{})
	go func() {
		found, err = r.client.Reserve(ctx, Reserve{Topics: s.Topics, Max: s.Most, Lease: millisOf(s.LeaseMs), Wait: millisOf(s.WaitMs)})
		close(done)
	}()
	for i, other := range s.Meanwhile {
		r.carryOut(other, fmt.Sprintf("meanwhile, step %d (%s)", i+1, other.Op))
	}
	<-done
	if r.deliveries == nil {
		r.deliveries = map[Receipt]*Delivery{}
	}
	for _, delivery := range found {
		r.deliveries[delivery.Receipt] = delivery
	}
	return shownAll(found, shownDelivery), err
}

func (r *run) drain(ctx context.Context, s step) (any, error) {
	var receipts []Receipt
	for {
		found := must(r.client.Reserve(ctx, Reserve{Topics: s.Topics, Max: 500}))
		if len(found) == 0 {
			break
		}
		for _, delivery := range found {
			receipts = append(receipts, delivery.Receipt)
		}
	}
	for _, outcome := range must(r.client.Ack(ctx, receipts...)) {
		if outcome.Word != "delivered" {
			r.t.Fatal(outcome)
		}
	}
	return int64(len(receipts)), nil
}

// script calls a published script, for verbs without a client method.
func (r *run) script(verb string, shard any, layout int, args ...any) (any, error) {
	base := fmt.Sprintf("{%s:%v}:", r.namespace, shard)
	word := r.client.layoutWord(layout, shardOf(base), "")
	keys, args := []string{base + "meta", base + "never"}, append([]any{word}, args...)
	node := must(nodeOf(context.Background(), r.redis, base+"meta"))
	reply, err := must(assemble(packed, verb)).Eval(context.Background(), node, keys, args...).Result()
	if _, many := reply.([]any); !many {
		reply = []any{reply}
	}
	if verb == "layout" && err == nil { // without the node's name
		reply.([]any)[0], _, _ = strings.Cut(reply.([]any)[0].(string), "@")
	}
	return reply, err
}

// ofSeveral sends a command to the node of the key, or without a key to every node.
func (r *run) ofSeveral(ctx context.Context, of *several, args []any) (err error) {
	if args[0] == "SCRIPT" {
		for _, node := range of.nodes {
			err = first(err, node.Redis.Do(ctx, args...).Err())
		}
		return err
	}
	node := of.node(shardOf(args[1].(string)))
	if last := len(args) - 1; args[last-1] == "layout" {
		args[last] = args[last].(string) + "@" + node.Name
	}
	return node.Redis.Do(ctx, args...).Err()
}

func (r *run) change(s step) Due {
	var expected time.Time
	if s.ExpectedMs != nil {
		expected = time.UnixMilli(r.known(s.ExpectedMs).(int64))
	}
	var change Due
	switch {
	case s.AtMs != nil:
		change = At(time.UnixMilli(*s.AtMs)).PastOK()
	case s.AfterMs != nil:
		change = After(millisOf(*s.AfterMs))
	default:
		return By(millisOf(s.ByMs), expected).PastOK()
	}
	if !expected.IsZero() {
		change = change.IfDue(expected).PastOK()
	}
	return change
}

func (r *run) settle(ctx context.Context, s step) ([]Outcome, error) {
	var receipts []Receipt
	for _, name := range s.Receipts {
		receipts = append(receipts, r.known(name).(Receipt))
	}
	switch s.Op {
	case "ack":
		if s.Next != nil {
			next, err := r.message(*s.Next)
			if err != nil {
				return nil, err
			}
			outcome, err := r.deliveries[receipts[0]].AckAndPut(ctx, next)
			return []Outcome{outcome}, err
		}
		return r.client.Ack(ctx, receipts...)
	case "extend":
		return r.client.Extend(ctx, millisOf(s.LeaseMs), receipts...)
	case "bury":
		return r.client.Bury(ctx, s.Reason, receipts...)
	case "release":
		how := Release{KeepAttempt: s.KeepAttempt, Reason: s.Reason}
		if s.DelayMs != nil {
			how.Delay = millisOf(*s.DelayMs)
			if how.Delay == 0 {
				how.Delay = Now
			}
		}
		return r.client.Release(ctx, how, receipts...)
	}
	return nil, fmt.Errorf("no such step: %s", s.Op)
}

func (r *run) id(text string) string { return r.known(text).(string) }

func (r *run) message(s said) (Message, error) {
	payload := must(hex.DecodeString(s.PayloadHex))
	if s.Payload != nil {
		payload = []byte(*s.Payload)
		if s.PayloadTimes > 0 {
			payload = []byte(strings.Repeat(*s.Payload, s.PayloadTimes))
		}
	}
	message := Message{Topic: s.Topic, Payload: payload, Due: After(millisOf(s.AfterMs)), Group: s.Group,
		Headers: headersOf(s.Headers), MaxAttempts: s.MaxAttempts, Backoff: s.Backoff.backoff(), Replace: s.Replace, PastOK: true,
		Debounce: millisOf(s.DebounceMs), Throttle: millisOf(s.ThrottleMs), Swallow: millisOf(s.SwallowMs), Only: s.Only, KeepContent: s.KeepContent, ExpectedContent: s.ExpectedContent}
	if s.ExpectedMs != 0 {
		message.Expected = time.UnixMilli(s.ExpectedMs)
	}
	if s.AtMs != nil {
		message.Due = At(time.UnixMilli(*s.AtMs))
	}
	message.ExpireAfter = millisOf(s.ExpireAfterMs)
	if s.ExpiresMs != 0 {
		message.Expires = time.UnixMilli(s.ExpiresMs)
	}
	if s.FirstTriedMs != 0 {
		message.FirstTried = time.UnixMilli(s.FirstTriedMs)
	}
	if s.ID != nil {
		message.ID = r.known(*s.ID).(string)
		if message.ID == "" { // here no id is one that is left out
			message.ID = "\x00"
		}
	}
	return message, nil
}

// known substitutes variables in a value; numbers become int64.
func (r *run) known(value any) any {
	if number, ok := value.(float64); ok {
		return int64(number)
	}
	text, ok := value.(string)
	if !ok || !strings.HasPrefix(text, "$") {
		return value
	}
	name, shift, shifted := strings.Cut(text[1:], "+")
	if !shifted {
		return r.bound[name]
	}
	return r.bound[name].(int64) + must(strconv.ParseInt(shift, 10, 64))
}

// compare returns differences; an unbound variable takes the first value.
func (r *run) compare(expected, got any, place string) {
	r.t.Helper()
	switch expected := expected.(type) {
	case map[string]any:
		for key, item := range expected {
			r.compare(item, got.(map[string]any)[key], place+": "+key)
		}
	case []any:
		items := got.([]any)
		if len(items) != len(expected) {
			r.t.Fatalf("%s: got %v", place, got)
		}
		for i, item := range expected {
			r.compare(item, items[i], fmt.Sprintf("%s[%d]", place, i))
		}
	default:
		if name, ok := expected.(string); ok && strings.HasPrefix(name, "$") && !strings.Contains(name, "+") {
			if _, known := r.bound[name[1:]]; !known {
				r.bound[name[1:]] = got
			}
		}
		if known := r.known(expected); !reflect.DeepEqual(known, got) {
			r.t.Fatalf("%s: got %v, not %v", place, got, known)
		}
	}
}

func millisOf(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// msOf is a time in ms, or nil.
func msOf(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UnixMilli()
}

// numbered substitutes the number of a message in an expectation.
func numbered(said map[string]any, n int) map[string]any {
	filled := map[string]any{}
	for key, value := range said {
		if text, ok := value.(string); ok {
			value = strings.ReplaceAll(text, "#", strconv.Itoa(n))
		}
		filled[key] = value
	}
	return filled
}

func shownAll[T any](items []T, one func(T) any) any {
	all := []any{}
	for _, item := range items {
		all = append(all, one(item))
	}
	return all
}

func shown(o Outcome) any {
	return map[string]any{"word": string(o.Word), "time_ms": msOf(o.Time), "old_ms": msOf(o.Old), "state": string(o.State), "why": o.Why,
		"doomed": o.Doomed, "id": o.ID, "shard": int64(o.Shard)}
}

func shownDelivery(d *Delivery) any {
	headers := []any{}
	for _, header := range d.Headers {
		headers = append(headers, []any{header.Name, header.Value})
	}
	return map[string]any{"receipt": d.Receipt, "topic": d.Topic, "id": d.ID, "lease_end_ms": msOf(d.LeaseEnd),
		"payload": string(d.Payload), "payload_hex": hex.EncodeToString(d.Payload), "due_ms": msOf(d.Due), "group": d.Group,
		"expires_ms": msOf(d.Expires), "max_attempts": int64(d.MaxAttempts), "attempt": int64(d.Attempt),
		"delivery": int64(d.Number), "headers": headers}
}
