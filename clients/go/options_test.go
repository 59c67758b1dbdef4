// Odd values for every option of every call: refused by name before anything is sent, or accepted unchanged.

package delayq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// odd has odd values by kind of option, and whether the client accepts the value.
var odd = struct {
	span, lease map[time.Duration]bool
	count       map[int]bool
	text        map[string]bool
	reason      map[string]bool
	time        map[time.Time]bool
	rate        map[float64]bool
}{
	span:   map[time.Duration]bool{math.MinInt64: false, -2: false, 1: true, math.MaxInt64: true},
	lease:  map[time.Duration]bool{math.MinInt64: false, -1: false, 1: true, 24 * time.Hour: true, 24*time.Hour + 1: false, math.MaxInt64: false},
	count:  map[int]bool{math.MinInt64: false, -1: false, 501: false, math.MaxInt64: false},
	text:   map[string]bool{"\xff": false, "\x00": false, "\n": false, strings.Repeat("x", 129): false, strings.Repeat("x", 5_000_000): false, " ": true, "ä": true},
	reason: map[string]bool{"\xff": false, "": true, strings.Repeat("ä", 2_500_000): true},
	time: map[time.Time]bool{time.Unix(0, 0): false, time.UnixMilli(1_893_456_000): false, time.UnixMilli(1_893_456_000_000_000): false, time.Unix(-1, 0): false,
		time.Unix(math.MaxInt64, 0): false, time.Unix(math.MinInt64, 0): false, time.UnixMilli(1_893_456_000_000): true},
	rate: map[float64]bool{0: false, -1: false, math.NaN(): false, math.Inf(1): false, math.Inf(-1): false, 0.5: true},
}

// each calls an option with every value; a refused value must not reach Redis.
func each[T comparable](t *testing.T, connection *redis.Client, what string, values map[T]bool, call func(T) error) {
	t.Helper()
	for value, taken := range values {
		var err error
		commands := commandsDuring(t, connection, func() { err = call(value) })
		var invalid InvalidMessage
		switch refused := errors.As(err, &invalid); {
		case taken && err != nil, !taken && !refused:
			t.Errorf("%s of %.60v: %v", what, value, err)
		case !taken && strings.Contains(fmt.Sprint(commands), "eval"):
			t.Errorf("%s of %.60v: %v", what, value, commands)
		case refused && len(invalid) > 300:
			t.Errorf("%s: %d bytes of an error", what, len(invalid))
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestNoOddValueIsTakenForAnother(t *testing.T) {
	connection, ctx := connect(t), context.Background()
	client := deployment(t, connection, "odd", 1)
	must(client.Topic("orders").Count(ctx))
	topic := client.Topic("orders")
	put := func(change func(*Message)) error {
		message := Message{Topic: "orders", Due: After(time.Hour)}
		change(&message)
		outcome, err := client.Put(ctx, message)
		if outcome.Word == Refused && outcome.Why == "due time" {
			return nil // which the script says of what is past all times
		}
		return err
	}
	receipt := Receipt{0, "1:go-1\x00\x00\x00\x01"}
	each(t, connection, "a delay", odd.span, func(d time.Duration) error { return put(func(m *Message) { m.Due = After(d) }) })
	each(t, connection, "a due time", odd.time, func(at time.Time) error { return put(func(m *Message) { m.Due = At(at) }) })
	each(t, connection, "an expiry", odd.time, func(at time.Time) error { return put(func(m *Message) { m.Expires = at }) })
	each(t, connection, "a first try", odd.time, func(at time.Time) error { return put(func(m *Message) { m.ID, m.FirstTried = "go-1", at }) })
	each(t, connection, "an id", odd.text, func(text string) error { return put(func(m *Message) { m.ID = text }) })
	each(t, connection, "a group", odd.text, func(text string) error { return put(func(m *Message) { m.Group = text }) })
	each(t, connection, "a topic", map[string]bool{"": false, " ": false, "my orders": false, "\xff": false, strings.Repeat("x", 129): false},
		func(text string) error { return put(func(m *Message) { m.Topic = text }) })
	each(t, connection, "a header's name", map[string]bool{"": false, " ": false, "ä": false, strings.Repeat("x", 256): false, "x": true},
		func(text string) error { return put(func(m *Message) { m.Headers = []Header{{text, "v"}} }) })
	each(t, connection, "a header's value", map[string]bool{"\xff": false, strings.Repeat("x", 5_000_000): false, "": true, " ": true},
		func(text string) error { return put(func(m *Message) { m.Headers = []Header{{"n", text}} }) })
	each(t, connection, "a payload", map[string]bool{strings.Repeat("x", 5_000_000): false, "": true, "\xff": true},
		func(text string) error { return put(func(m *Message) { m.Payload = []byte(text) }) })
	each(t, connection, "a back-off", map[time.Duration]bool{math.MinInt64: false, -1: false, 0: false, 1: false, math.MaxInt64: false, time.Second: true},
		func(d time.Duration) error { return put(func(m *Message) { m.Backoff = Fixed(d) }) })

	each(t, connection, "a change's time", odd.time, func(at time.Time) error { return second(client.Reschedule(ctx, "orders", "none", "", At(at))) })
	each(t, connection, "a change's difference", map[time.Duration]bool{0: false, 1: false, math.MinInt64: true, math.MaxInt64: true},
		func(d time.Duration) error {
			return second(client.Reschedule(ctx, "orders", "none", "", By(d, time.Now())))
		})
	each(t, connection, "an expected time", odd.time, func(at time.Time) error {
		return first(second(client.Reschedule(ctx, "orders", "none", "", By(time.Second, at))),
			second(client.Reschedule(ctx, "orders", "none", "", After(0).IfDue(at))))
	})
	each(t, connection, "a time that is meant", map[time.Time]bool{{}: false, time.UnixMilli(1): true, time.UnixMilli(1<<53 - 1): true, time.UnixMilli(1 << 53): false},
		func(at time.Time) error {
			return first(second(client.Reschedule(ctx, "orders", "none", "", By(time.Second, at).PastOK())),
				put(func(m *Message) { m.Due = At(at).PastOK() }))
		})
	each(t, connection, "a time at a bound", map[time.Time]bool{time.UnixMilli(978_307_199_999): false, time.UnixMilli(978_307_200_000): true,
		time.UnixMilli(253_402_300_799_999): true, time.UnixMilli(253_402_300_800_000): false},
		func(at time.Time) error { return put(func(m *Message) { m.Due = At(at) }) })
	for what, use := range map[string]func(text string) error{
		"a message that is found": func(text string) error { return second(client.Get(ctx, "orders", text, "")) },
		"a group that is found":   func(text string) error { return second(client.Get(ctx, "orders", "none", text)) },
		"a moved id":              func(text string) error { return second(client.Reschedule(ctx, "orders", text, "", After(0))) },
		"a replayed id":           func(text string) error { return second(topic.Replay(ctx, 0, "", text)) },
	} {
		each(t, connection, what, odd.text, use)
	}
	each(t, connection, "the name of a group", odd.text, func(text string) error {
		list := client.Group(text).List(ctx, func(*StoredMessage) error { return nil })
		return first(list, second(client.Group(text).Cancel(ctx)))
	})
	topics := map[string]bool{"": false, "my orders": false, "~odd-%": false, "\xff": false, strings.Repeat("x", 5_000_000): false, "~odd-my%20orders": true}
	each(t, connection, "the name of a topic", topics, func(text string) error { return second(client.Topic(text).Count(ctx)) })
	each(t, connection, "the topic of a group", topics, func(text string) error { return second(client.Group("g").OfTopic(text).Cancel(ctx)) })
	each(t, connection, "a cancelled id", odd.text, func(text string) error { return second(client.Cancel(ctx, "orders", text, "")) })

	reserve := func(ask Reserve) error { return second(client.Reserve(ctx, ask)) }
	each(t, connection, "Max", odd.count, func(n int) error { return reserve(Reserve{Topics: []string{"none"}, Max: n}) })
	each(t, connection, "a reserve's lease", odd.lease, func(d time.Duration) error { return reserve(Reserve{Topics: []string{"none"}, Lease: d}) })
	each(t, connection, "a wait", map[time.Duration]bool{math.MinInt64: false, -1: false, 1: true}, func(d time.Duration) error {
		return reserve(Reserve{Topics: []string{"none"}, Wait: d})
	})
	each(t, connection, "an extension", odd.lease, func(d time.Duration) error { return second(client.Extend(ctx, d, receipt)) })
	each(t, connection, "a release's delay", odd.span, func(d time.Duration) error { return second(client.Release(ctx, Release{Delay: d}, receipt)) })
	each(t, connection, "a release's reason", odd.reason, func(text string) error { return second(client.Release(ctx, Release{Reason: text}, receipt)) })
	each(t, connection, "a burial's reason", odd.reason, func(text string) error { return second(client.Bury(ctx, text, receipt)) })
	each(t, connection, "a receipt", map[Receipt]bool{{}: false, {0, "x"}: false, {0, "1:x"}: false, {-1, receipt.Raw}: false, {4096, receipt.Raw}: false},
		func(one Receipt) error { return second(client.Ack(ctx, one)) })

	each(t, connection, "a shift's token", map[string]bool{"\xff": false, strings.Repeat("x", 129): false, "x": true}, func(text string) error {
		return second(client.Group("g").Shift(ctx, time.Second, text))
	})
	each(t, connection, "a range", odd.time, func(at time.Time) error {
		_, _, err := topic.Purge(ctx, Dead, Range{From: at})
		return first(err, topic.List(ctx, Dead, Range{To: at}, func(*StoredMessage) error { return nil }))
	})
	each(t, connection, "a state", map[State]bool{"": false, "Dead": false, Leased: false, Delivered: false}, func(state State) error {
		_, _, err := topic.Purge(ctx, state, Range{})
		return err
	})
	each(t, connection, "a replay's delay", odd.span, func(d time.Duration) error {
		_, _, err := topic.ReplayAll(ctx, d, Range{})
		return err
	})

	set := func(policy Policy, reset ...Setting) error {
		return second(client.Topic("policies").SetPolicy(ctx, policy, reset...))
	}
	each(t, connection, "a policy's lease", map[time.Duration]bool{-1: false, 0: false, math.MaxInt64: false, time.Second: true}, func(d time.Duration) error { return set(Policy{Lease: &d}) })
	for what, change := range map[string]func(d time.Duration) Policy{
		"ExpireAfter":       func(d time.Duration) Policy { return Policy{ExpireAfter: &d} },
		"RememberCancelled": func(d time.Duration) Policy { return Policy{RememberCancelled: &d} },
		"RememberOwn":       func(d time.Duration) Policy { return Policy{RememberOwn: &d} },
		"RememberGenerated": func(d time.Duration) Policy { return Policy{RememberGenerated: &d} },
		"DeadFor":           func(d time.Duration) Policy { return Policy{DeadFor: &d} },
	} {
		each(t, connection, what, map[time.Duration]bool{math.MinInt64: false, -1: false, 0: true, 1: true, math.MaxInt64: true},
			func(d time.Duration) error { return set(change(d)) })
	}
	each(t, connection, "HistoryFor", map[time.Duration]bool{-1: false, 0: false, time.Second - 1: false, time.Second: true, math.MaxInt64: true},
		func(d time.Duration) error { return set(Policy{HistoryFor: &d}) })
	each(t, connection, "a policy's back-off", map[time.Duration]bool{-1: false, 0: false, time.Second: true}, func(d time.Duration) error { return set(Policy{Backoff: Set(Fixed(d))}) })
	each(t, connection, "a policy's rate", odd.rate, func(rate float64) error { return set(Policy{Rate: &rate}) })
	each(t, connection, "a policy's history", map[uint32]bool{math.MaxUint32: false, 100: true}, func(n uint32) error { return set(Policy{History: &n}) })
	each(t, connection, "a policy's texts", map[string]bool{"": false, " ": false, "no": false, "\xff": false}, func(text string) error {
		return first(first(set(Policy{Codec: &text}), set(Policy{Repeats: &text})), set(Policy{Durability: &text}))
	})
	each(t, connection, "a setting", map[Setting]bool{"": false, "LeaseMs": false, SettingLease: true}, func(name Setting) error { return set(Policy{}, name) })
	each(t, connection, "a namespace", map[string]bool{" ": false, "a:b": false, "\xff": false, "": true}, func(text string) error { return second(New(connection, text)) })

	own := deployment(t, connection, "odder", 1)
	each(t, connection, "Timeout", map[time.Duration]bool{math.MinInt64: false, 0: false, time.Second: true, math.MaxInt64: true}, func(d time.Duration) error {
		own.Timeout = d
		return second(own.Get(ctx, "orders", "none", ""))
	})
	own.Timeout = time.Second
	each(t, connection, "ConfirmTimeout", map[time.Duration]bool{math.MinInt64: false, -1: false, 0: true, math.MaxInt64: true}, func(d time.Duration) error {
		own.ConfirmTimeout = d
		return second(own.Get(ctx, "orders", "none", ""))
	})
	own.ConfirmTimeout = 0
	each(t, connection, "MaxPayloadBytes", map[int]bool{math.MinInt64: false, 0: false, maxPayloadBytes + 1: false, 10: true}, func(n int) error {
		own.MaxPayloadBytes = n
		return second(own.Put(ctx, Message{Topic: "orders", Due: After(time.Hour)}))
	})
	for what, worker := range map[string]Worker{"Concurrency": {Concurrency: -1}, "StopTimeout": {StopTimeout: -1}, "lease": {Lease: -1}, "topic": {Topics: []string{"my orders"}}} {
		worker.Client, worker.Handle = client, nothing
		if worker.Topics == nil {
			worker.Topics = []string{"orders"}
		}
		if err := worker.Run(ctx); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("a worker's %s: %v", what, err)
		}
	}
}

func TestWhatAURLSaysOfOneRedisIsTakenOrRefused(t *testing.T) {
	for address, want := range map[string]string{
		"redis://h":                             "h:6379 0  ",
		"redis://user:p%40ss@h:1?db=3":          "h:1 3 user p@ss",
		"rediss://:pw@[::1]:2/4":                "[::1]:2 4  pw",
		"unix:///run/r.sock?db=2&user=u&pass=p": "/run/r.sock 2 u p",
		"redis+unix:///run/r.sock":              "/run/r.sock 0  ",
		"/run/r.sock":                           "/run/r.sock 0  ",
	} {
		options := must(ParseURL(address))
		if got := fmt.Sprintf("%s %d %s %s", options.Addrs[0], options.DB, options.Username, options.Password); got != want {
			t.Errorf("%s: %q, not %q", address, got, want)
		}
	}
	for address, why := range map[string]string{
		"redis://h?database=1": "unknown parameter", "redis://:hunter2@h?database=1": "unknown parameter", "redis://h/1?db=2": "two databases",
		"redis://h/one": "not the number of a database", "redis://u:hun#ter2@h": "user or password", "redis://u:hun/ter2@h": "user or password",
		"redis://u:hun?ter2@h": "@ behind a ?", "redis://u:hunter2%@h": "user or password", "http://h": "another scheme", "h:6379": "another scheme",
		"redis://a,b": "names 2 hosts", "redis://": "names no Redis", "unix:///s?pass=hunter2&tls=1": "unknown parameter", "redis://h?db=1&db=2": "db twice",
	} {
		if _, err := ParseURL(address); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
