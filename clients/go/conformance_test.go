package delayq

import (
	"context"
	"encoding/hex"
	"encoding/json"
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
	Message                                   said
	Messages                                  []said
	Change                                    struct {
		Kind       string
		Ms         int64
		ExpectedMs any `json:"expected_ms"`
	}
	Topics, Args, Receipts []string
	Most                   int
	LeaseMs                *int64 `json:"lease_ms"`
	DelayMs                *int64 `json:"delay_ms"`
	KeepAttempt            bool   `json:"keep_attempt"`
	Shard                  any
	Waits                  *bool
	Invalid                bool
	Expect                 any
}

type said struct {
	Topic, Group string
	ID           *string
	Payload      *string
	PayloadHex   string       `json:"payload_hex"`
	AtMs         *int64       `json:"at_ms"`
	AfterMs      int64        `json:"after_ms"`
	Headers      [][2]string  `json:"headers"`
	ExpiresMs    int64        `json:"expires_ms"`
	MaxAttempts  uint16       `json:"max_attempts"`
	Backoff      *backoffSaid `json:"backoff"`
	Replace      bool
	FirstTriedMs int64 `json:"first_tried_ms"`
}

// run is one scenario under way: what its steps have bound so far.
type run struct {
	t         *testing.T
	client    *Client
	redis     *redis.Client
	namespace string
	bound     map[string]any
}

func TestEveryStepOfTheSuiteGetsTheAnswerThatAllClientsGet(t *testing.T) {
	var suite struct {
		Scenarios []struct {
			Name   string
			Shards int
			Init   *bool
			Steps  []step
		}
	}
	vectors(t, "conformance.json", &suite)
	connection := connect(t)
	for number, scenario := range suite.Scenarios {
		t.Run(scenario.Name, func(t *testing.T) {
			namespace, shards := fmt.Sprintf("g%d", number), max(scenario.Shards, 1)
			client := must(New(connection, Options{Namespace: namespace, Shards: shards}))
			r := run{t, client, connection, namespace, map[string]any{}}
			if scenario.Init == nil {
				for shard := range shards {
					must(client.send(context.Background(), []call{{"init", shard, []any{shard, shards}}}))
				}
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
		if !errors.As(err, &invalid) {
			r.t.Fatalf("%s: got %v, %v", place, got, err)
		}
	case s.Error != "":
		if !errors.As(err, &refused) || refused.Code != s.Error {
			r.t.Fatalf("%s: got %v, %v", place, got, err)
		}
	case err != nil:
		r.t.Fatalf("%s: %v", place, err)
	case s.Op == "script":
		for i, item := range s.Expect.([]any) {
			if found := fmt.Sprint(got.([]any)[i]); item != "*" && item != found {
				r.t.Fatalf("%s: got %v", place, got)
			}
		}
	case s.Expect != nil:
		r.compare(s.Expect, got, place)
	}
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
		return shownPut(put), err
	case "put_many":
		var messages []Message
		for _, said := range s.Messages {
			messages = append(messages, must(r.message(said)))
		}
		puts, err := r.client.PutMany(ctx, messages)
		return shownAll(puts, shownPut), err
	case "cancel":
		answer, err := r.client.Cancel(ctx, s.Topic, r.id(s.ID), s.Group)
		return shown(answer), err
	case "reschedule":
		change := Change{Kind: s.Change.Kind, Ms: s.Change.Ms}
		if s.Change.ExpectedMs != nil {
			expected := r.known(s.Change.ExpectedMs).(int64)
			change.ExpectedMs = &expected
		}
		answer, err := r.client.Reschedule(ctx, s.Topic, r.id(s.ID), s.Group, change)
		return shown(answer), err
	case "reserve":
		return r.reserve(ctx, s)
	case "script":
		var args []any
		for _, arg := range s.Args {
			args = append(args, arg)
		}
		replies, err := r.client.send(ctx, []call{{s.Verb, int(r.known(s.Shard).(int64)), args}})
		return replies[0], err
	case "redis":
		var args []any
		for _, arg := range s.Args {
			args = append(args, strings.ReplaceAll(arg, "NAMESPACE", r.namespace))
		}
		return nil, r.redis.Do(ctx, args...).Err()
	}
	answers, err := r.settle(ctx, s)
	return shownAll(answers, shown), err
}

func (r *run) reserve(ctx context.Context, s step) (any, error) {
	ask := Reserve{Topics: s.Topics, Most: s.Most, Lease: duration(s.LeaseMs)}
	if s.Shard != nil {
		shard := int(r.known(s.Shard).(int64))
		ask.Shard = &shard
	}
	reserved, err := r.client.Reserve(ctx, ask)
	if s.Waits != nil && *s.Waits != (reserved.Wait != nil) {
		r.t.Fatalf("waits %v", reserved.Wait)
	}
	return shownAll(reserved.Deliveries, shownDelivery), err
}

func (r *run) settle(ctx context.Context, s step) ([]Answer, error) {
	var receipts []Receipt
	for _, name := range s.Receipts {
		receipts = append(receipts, r.known(name).(Receipt))
	}
	switch s.Op {
	case "ack":
		return r.client.Ack(ctx, receipts...)
	case "extend":
		return r.client.Extend(ctx, receipts, duration(s.LeaseMs))
	case "bury":
		return r.client.Bury(ctx, receipts, s.Reason)
	case "release":
		return r.client.Release(ctx, receipts, Release{duration(s.DelayMs), s.KeepAttempt, s.Reason})
	}
	return nil, fmt.Errorf("no such step: %s", s.Op)
}

func (r *run) id(text string) MessageID { return must(ParseID(r.known(text).(string))) }

func (r *run) message(s said) (Message, error) {
	payload := must(hex.DecodeString(s.PayloadHex))
	if s.Payload != nil {
		payload = []byte(*s.Payload)
	}
	message := Message{Topic: s.Topic, Payload: payload, DueMs: s.AtMs, AfterMs: s.AfterMs, Group: s.Group,
		Headers: headersOf(s.Headers), ExpiresMs: s.ExpiresMs, MaxAttempts: s.MaxAttempts, Backoff: s.Backoff.backoff(),
		Replace: s.Replace, FirstTriedMs: s.FirstTriedMs}
	var err error
	if s.ID != nil {
		message.ID, err = ParseID(r.known(*s.ID).(string))
	}
	return message, err
}

// known is a value of a step with its variable filled in; numbers become int64.
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

// compare says what is not as expected; a variable takes its first value.
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

func duration(ms *int64) *time.Duration {
	if ms == nil {
		return nil
	}
	d := time.Duration(*ms) * time.Millisecond
	return &d
}

func shownAll[T any](items []T, one func(T) any) any {
	all := []any{}
	for _, item := range items {
		all = append(all, one(item))
	}
	return all
}

func shown(a Answer) any {
	return map[string]any{"word": a.Word, "time_ms": a.TimeMs, "old_ms": a.OldMs, "state": a.State, "why": a.Why,
		"doomed": a.Doomed}
}

func shownPut(p Put) any {
	put := shown(p.Answer).(map[string]any)
	put["id"], put["shard"] = p.ID.String(), int64(p.Shard)
	return put
}

func shownDelivery(d Delivery) any {
	e := d.Envelope
	delivery := map[string]any{"receipt": d.Receipt, "topic": d.Topic, "id": d.ID.String(), "lease_end_ms": d.LeaseEndMs,
		"payload": string(e.Payload), "payload_hex": hex.EncodeToString(e.Payload), "due_ms": e.DueMs, "group": e.Group,
		"expires_ms": e.ExpiresMs, "max_attempts": int64(e.MaxAttempts), "attempt": int64(e.Attempt),
		"delivery": int64(e.Delivery)}
	headers := []any{}
	for _, header := range e.Headers {
		headers = append(headers, []any{header.Name, header.Value})
	}
	delivery["headers"] = headers
	if e.Backoff != nil {
		var backoff any
		text := must(json.Marshal(backoffSaid{e.Backoff.Kind, e.Backoff.DelaysMs}))
		_ = json.Unmarshal(text, &backoff)
		delivery["backoff"] = numbered(backoff)
	}
	return delivery
}

// numbered turns the numbers of JSON into int64.
func numbered(value any) any {
	switch value := value.(type) {
	case float64:
		return int64(value)
	case []any:
		for i := range value {
			value[i] = numbered(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = numbered(value[key])
		}
	}
	return value
}
