// Odd values for every option of every call: refused by name before anything is sent, or accepted unchanged.

package delayq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// entry is an option or a setting of protocol.json: the kind, and the range.
type entry struct {
	Call, Option, Name, Kind string
	Least, Most              float64
	Words                    []string
}

// described is the part of protocol.json that tells which values are valid.
type described struct {
	Settings, Options []entry
	Limits            map[string]int64
	Names             []struct {
		What, Characters string
		MaxBytes         int `json:"max_bytes"`
	}
	Odd []string
}

// huge is "5 MB"; notText stands for a lone surrogate, which no string has here.
var huge, notText = strings.Repeat("x", 5_000_000), "\xff"

// odd has the odd values of each type, by the names of protocol.json and more. The compiler refuses all other values.
var odd = struct {
	texts []string
	spans []time.Duration
	times []time.Time
	ints  []int
	rates []float64
}{
	texts: []string{"", " ", "false", "{}", "[]", "\x00", "\n", notText, strings.Repeat("x", 129), huge, "ä"},
	spans: []time.Duration{math.MinInt64, -2, -1, 1, time.Second - 1, 1 << 31, 24 * time.Hour, 24*time.Hour + 1, math.MaxInt64},
	times: []time.Time{time.Unix(0, 0), time.UnixMilli(1 << 31), time.UnixMilli(1 << 53), time.UnixMilli(1_893_456_000), time.UnixMilli(1_893_456_000_000_000),
		time.Unix(-1, 0), time.Unix(math.MaxInt64, 0), time.Unix(math.MinInt64, 0), time.UnixMilli(1_893_456_000_000)},
	ints:  []int{math.MinInt64, -1, 501, 1 << 31, 1 << 53, math.MaxInt64},
	rates: []float64{0, -1, 1 << 31, 1 << 53, math.NaN(), math.Inf(1), math.Inf(-1), 0.5},
}

// values returns the odd values for a kind of option.
func (e entry) values() (values []any) {
	add := func(length int, at func(int) any) {
		for i := 0; i < length; i++ {
			values = append(values, at(i))
		}
	}
	switch e.Kind {
	case "span":
		add(len(odd.spans), func(i int) any { return odd.spans[i] })
	case "time":
		add(len(odd.times), func(i int) any { return odd.times[i] })
	case "count":
		if e.Most == math.MaxUint16 {
			return nil // every uint16 is valid
		}
		add(len(odd.ints), func(i int) any { return odd.ints[i] })
	case "rate":
		add(len(odd.rates), func(i int) any { return odd.rates[i] })
	case "backoff":
		return []any{Fixed(math.MinInt64), Fixed(-1), Fixed(0), Fixed(math.MaxInt64), List(), Exponential(2*time.Second, time.Second)}
	case "difference":
		return []any{time.Duration(0), time.Duration(1), time.Duration(math.MinInt64), time.Duration(math.MaxInt64)}
	case "receipt":
		return []any{Receipt{}, Receipt{0, "x"}, Receipt{0, "1:x"}, Receipt{-1, receipt.Raw}, Receipt{4096, receipt.Raw}}
	case "flag": // a bool has no odd value
	default:
		add(len(odd.texts), func(i int) any { return odd.texts[i] })
	}
	return values
}

// takes reports whether protocol.json has the value.
func (d described) takes(e entry, value any) bool {
	switch value := value.(type) {
	case time.Duration:
		if e.Kind == "difference" {
			return value.Milliseconds() != 0
		}
		return value >= 0 && float64(wholeMillis(value)) >= e.Least && float64(wholeMillis(value)) <= e.Most
	case time.Time:
		ms := value.UnixMilli()
		return value.Unix() >= 0 && value.Unix() <= math.MaxInt64/1000 && ms >= d.Limits["first_meant_ms"] && ms <= d.Limits["last_meant_ms"]
	case int:
		return float64(value) >= e.Least && float64(value) <= e.Most
	case float64:
		return value >= e.Least && value <= e.Most
	case string:
		return d.takesText(e, value)
	}
	return false
}

func (d described) takesText(e entry, text string) bool {
	for _, form := range d.Names {
		if form.What == e.Kind {
			// RE2 has no \u.
			class := regexp.MustCompile(`\\u00([0-9a-f]{2})`).ReplaceAllString(form.Characters, `\x$1`)
			return text != notText && len(text) <= form.MaxBytes && regexp.MustCompile("^"+class+"+$").MatchString(text)
		}
	}
	switch e.Kind {
	case "word":
		return regexp.MustCompile("^(" + strings.Join(e.Words, "|") + ")$").MatchString(text)
	case "text":
		return text != notText && len(text) <= int(d.Limits["header_bytes"])
	case "bytes":
		return len(text) <= int(d.Limits["payload_bytes"])
	}
	return text != notText // a reason, which is cut
}

var receipt = Receipt{0, "1:go-1\x00\x00\x00\x01"}

// each calls an option with every value; a refused value must not reach Redis.
func each[T comparable](t *testing.T, connection *redis.Client, what string, values map[T]bool, call func(T) error) {
	t.Helper()
	for value, taken := range values {
		try(t, connection, what, value, taken, func() error { return call(value) })
	}
}

func try(t *testing.T, connection *redis.Client, what string, value any, taken bool, call func() error) {
	t.Helper()
	var err error
	commands := commandsDuring(t, connection, func() { err = call() })
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

func second[T any](_ T, err error) error { return err }

// shared has each option of protocol.json, by call and option.
func shared(client *Client) map[string]func(value any) error {
	ctx := context.Background()
	put := func(change func(*Message)) error {
		message := Message{Topic: "orders", Due: After(time.Hour)}
		change(&message)
		outcome, err := client.Put(ctx, message)
		if outcome.Word == Refused && outcome.Why == "due time" {
			return nil // which the script says of what is past all times
		}
		return err
	}
	reserve := func(ask Reserve) error { return second(client.Reserve(ctx, ask)) }
	move := func(topic, id, group string, due Due) error {
		return second(client.Reschedule(ctx, topic, id, group, due))
	}
	topic := client.Topic("orders")
	list := func(topic Topic, state State, span Range) error {
		return topic.List(ctx, state, span, func(*StoredMessage) error { return nil })
	}
	promote := func(topic Topic, due Range) error {
		_, _, err := topic.Promote(ctx, due)
		return err
	}
	purge := func(topic Topic, state State, span Range) error {
		_, _, err := topic.Purge(ctx, state, span)
		return err
	}
	replay := func(topic Topic, delay time.Duration, group, id string) error {
		return second(topic.Replay(ctx, delay, group, id))
	}
	text := func(call func(string) error) func(any) error {
		return func(value any) error { return call(value.(string)) }
	}
	span := func(call func(time.Duration) error) func(any) error {
		return func(value any) error { return call(value.(time.Duration)) }
	}
	at := func(call func(time.Time) error) func(any) error {
		return func(value any) error { return call(value.(time.Time)) }
	}
	by := func(call func(Receipt) error) func(any) error {
		return func(value any) error { return call(value.(Receipt)) }
	}
	own := func(change func(*Client)) error { // nothing is put, and a client that cannot be used says so
		one := must(New(client.redis, client.namespace))
		defer one.Close()
		change(one)
		if err := second(one.PutMany(ctx, nil)); err != nil {
			return err
		}
		return second(one.Get(ctx, "orders", "none", ""))
	}
	ended, end := context.WithCancel(ctx)
	end()
	work := func(worker Worker) error {
		worker.Client, worker.Handle = client, func(context.Context, *Delivery) error { return nil }
		if worker.Topics == nil {
			worker.Topics = []string{"none"}
		}
		return worker.Run(ended)
	}
	none := func(any) error { return nil } // of a type without odd values
	return map[string]func(any) error{
		"put topic":            text(func(text string) error { return put(func(m *Message) { m.Topic = text }) }),
		"put payload":          text(func(text string) error { return put(func(m *Message) { m.Payload = []byte(text) }) }),
		"put id":               text(func(text string) error { return put(func(m *Message) { m.ID = text }) }),
		"put at":               at(func(at time.Time) error { return put(func(m *Message) { m.Due = At(at) }) }),
		"put after":            span(func(d time.Duration) error { return put(func(m *Message) { m.Due = After(d) }) }),
		"put group":            text(func(text string) error { return put(func(m *Message) { m.Group = text }) }),
		"put header name":      text(func(text string) error { return put(func(m *Message) { m.Headers = []Header{{text, "v"}} }) }),
		"put header value":     text(func(text string) error { return put(func(m *Message) { m.Headers = []Header{{"n", text}} }) }),
		"put expires":          at(func(at time.Time) error { return put(func(m *Message) { m.Expires = at }) }),
		"put expire_after":     span(func(d time.Duration) error { return put(func(m *Message) { m.ExpireAfter = d }) }),
		"put max_attempts":     none,
		"put backoff":          func(value any) error { return put(func(m *Message) { m.Backoff = value.(Backoff) }) },
		"put replace":          none,
		"put debounce":         span(func(d time.Duration) error { return put(func(m *Message) { m.Debounce = d }) }),
		"put throttle":         span(func(d time.Duration) error { return put(func(m *Message) { m.ID, m.Throttle = "go-1", d }) }),
		"put swallow":          span(func(d time.Duration) error { return put(func(m *Message) { m.ID, m.Swallow = "go-1", d }) }),
		"put only":             text(func(text string) error { return put(func(m *Message) { m.Only = DueRule(text) }) }),
		"put keep_content":     none,
		"put expected":         at(func(at time.Time) error { return put(func(m *Message) { m.Expected = at }) }),
		"put expected_content": text(func(text string) error { return put(func(m *Message) { m.ExpectedContent = text }) }),
		"put first_tried":      at(func(at time.Time) error { return put(func(m *Message) { m.ID, m.FirstTried = "go-1", at }) }),

		"cancel topic": text(func(text string) error { return second(client.Cancel(ctx, text, "none", "")) }),
		"cancel id":    text(func(text string) error { return second(client.Cancel(ctx, "orders", text, "")) }),
		"cancel group": text(func(text string) error { return second(client.Cancel(ctx, "orders", "none", text)) }),
		"get topic":    text(func(text string) error { return second(client.Get(ctx, text, "none", "")) }),
		"get id":       text(func(text string) error { return second(client.Get(ctx, "orders", text, "")) }),
		"get group":    text(func(text string) error { return second(client.Get(ctx, "orders", "none", text)) }),

		"reschedule topic": text(func(text string) error { return move(text, "none", "", After(0)) }),
		"reschedule id":    text(func(text string) error { return move("orders", text, "", After(0)) }),
		"reschedule group": text(func(text string) error { return move("orders", "none", text, After(0)) }),
		"reschedule at":    at(func(at time.Time) error { return move("orders", "none", "", At(at)) }),
		"reschedule after": span(func(d time.Duration) error { return move("orders", "none", "", After(d)) }),
		"reschedule by":    span(func(d time.Duration) error { return move("orders", "none", "", By(d, time.Now())) }),
		"reschedule expected": at(func(at time.Time) error {
			return first(move("orders", "none", "", By(time.Second, at)), move("orders", "none", "", After(0).IfDue(at)))
		}),

		"reserve topic": text(func(text string) error { return reserve(Reserve{Topics: []string{text}}) }),
		"reserve max":   func(value any) error { return reserve(Reserve{Topics: []string{"none"}, Max: value.(int)}) },
		"reserve lease": span(func(d time.Duration) error { return reserve(Reserve{Topics: []string{"none"}, Lease: d}) }),
		"reserve wait": span(func(d time.Duration) error {
			if d >= time.Second {
				d = 1 // longer waits are valid, and not waited for here
			}
			return reserve(Reserve{Topics: []string{"none"}, Wait: d})
		}),
		"extend receipt":       by(func(one Receipt) error { return second(client.Extend(ctx, 0, one)) }),
		"extend lease":         span(func(d time.Duration) error { return second(client.Extend(ctx, d, receipt)) }),
		"ack receipt":          by(func(one Receipt) error { return second(client.Ack(ctx, one)) }),
		"release receipt":      by(func(one Receipt) error { return second(client.Release(ctx, Release{}, one)) }),
		"release delay":        span(func(d time.Duration) error { return second(client.Release(ctx, Release{Delay: d}, receipt)) }),
		"release keep_attempt": none,
		"release reason":       text(func(text string) error { return second(client.Release(ctx, Release{Reason: text}, receipt)) }),
		"bury receipt":         by(func(one Receipt) error { return second(client.Bury(ctx, "why", one)) }),
		"bury reason":          text(func(text string) error { return second(client.Bury(ctx, text, receipt)) }),

		"replay topic":  text(func(text string) error { return replay(client.Topic(text), 0, "", "none") }),
		"replay id":     text(func(text string) error { return replay(topic, 0, "", text) }),
		"replay group":  text(func(text string) error { return replay(topic, 0, text, "none") }),
		"replay delay":  span(func(d time.Duration) error { return replay(topic, d, "", "none") }),
		"list topic":    text(func(text string) error { return list(client.Topic(text), Dead, Range{}) }),
		"list state":    text(func(text string) error { return list(topic, State(text), Range{}) }),
		"list from":     at(func(at time.Time) error { return list(topic, Dead, Range{From: at}) }),
		"list to":       at(func(at time.Time) error { return list(topic, Dead, Range{To: at}) }),
		"promote topic": text(func(text string) error { return promote(client.Topic(text), Range{}) }),
		"promote from":  at(func(at time.Time) error { return promote(topic, Range{From: at}) }),
		"promote to":    at(func(at time.Time) error { return promote(topic, Range{To: at}) }),
		"purge topic":   text(func(text string) error { return purge(client.Topic(text), Dead, Range{}) }),
		"purge state":   text(func(text string) error { return purge(topic, State(text), Range{}) }),
		"purge from":    at(func(at time.Time) error { return purge(topic, Dead, Range{From: at}) }),
		"purge to":      at(func(at time.Time) error { return purge(topic, Dead, Range{To: at}) }),
		"group group":   text(func(text string) error { return second(client.Group(text).Cancel(ctx)) }),
		"group topic":   text(func(text string) error { return second(client.Group("g").OfTopic(text).Cancel(ctx)) }),
		"shift by":      span(func(d time.Duration) error { return second(client.Group("g").Shift(ctx, d, "")) }),
		"shift token":   text(func(text string) error { return second(client.Group("g").Shift(ctx, time.Second, text)) }),

		"client namespace": text(func(text string) error { return second(New(client.redis, text)) }),
		"client max_payload_bytes": func(value any) error {
			return own(func(c *Client) { c.MaxPayloadBytes = value.(int) })
		},
		"client confirm_timeout": span(func(d time.Duration) error { return own(func(c *Client) { c.ConfirmTimeout = d }) }),
		"worker topic":           text(func(text string) error { return work(Worker{Topics: []string{text}}) }),
		"worker concurrency":     func(value any) error { return work(Worker{Concurrency: value.(int)}) },
		"worker lease":           span(func(d time.Duration) error { return work(Worker{Lease: d}) }),
		"worker pump":            none,
	}
}

// unset has the options for which an empty text means that none is given.
var unset = []string{"put id", "put group", "cancel group", "get group", "reschedule group", "replay group", "shift token", "put only", "put expected_content", "client namespace"}

func TestNoOddValueOfAnOptionOfTheProtocolIsTakenForAnother(t *testing.T) {
	connection := connect(t)
	client := deployment(t, connection, "odd", 1)
	must(client.Topic("orders").Count(context.Background()))
	var protocol described
	vectors(t, "protocol.json", &protocol)
	calls := shared(client)
	if len(calls) != len(protocol.Options) {
		t.Errorf("%d options are tried, and protocol.json has %d", len(calls), len(protocol.Options))
	}
	for _, one := range protocol.Options {
		what := one.Call + " " + one.Option
		call, is := calls[what]
		if !is {
			t.Errorf("%s is not tried", what)
			continue
		}
		for _, value := range one.values() {
			taken := protocol.takes(one, value) || value == "" && contains(unset, what) || what == "release delay" && value == Now
			try(t, connection, what, value, taken, func() error { return call(value) })
		}
	}
}

func TestNoOddValueOfASettingIsTakenForAnother(t *testing.T) {
	connection := connect(t)
	client := deployment(t, connection, "odd-settings", 1)
	topic := client.Topic("policies")
	must(topic.Count(context.Background()))
	var protocol described
	vectors(t, "protocol.json", &protocol)
	for i, one := range protocol.Settings {
		for _, value := range one.values() {
			var patch Policy
			field := reflect.ValueOf(&patch).Elem().FieldByName(settingForms[i].name)
			if number, is := value.(int); is {
				if value = uint32(number); field.Type().Elem().Bits() == 16 || number < 0 || number > math.MaxUint32 {
					continue // which the compiler refuses
				}
			}
			field.Set(reflect.New(field.Type().Elem()))
			field.Elem().Set(reflect.ValueOf(value))
			if number, is := value.(uint32); is {
				value = int(number)
			}
			try(t, connection, one.Name, value, protocol.takes(one, value), func() error {
				return second(topic.SetPolicy(context.Background(), patch))
			})
		}
	}
	for _, name := range []Setting{"", "LeaseMs"} {
		try(t, connection, "a reset", name, false, func() error { return second(topic.SetPolicy(context.Background(), Policy{}, name)) })
	}
}

func TestNoOddValueIsTakenForAnother(t *testing.T) {
	connection, ctx := connect(t), context.Background()
	client := deployment(t, connection, "odd-others", 1)
	must(client.Topic("orders").Count(ctx))
	each(t, connection, "a time that is meant", map[time.Time]bool{{}: false, time.UnixMilli(1): true, time.UnixMilli(1<<53 - 1): true, time.UnixMilli(1 << 53): false},
		func(at time.Time) error {
			return second(client.Reschedule(ctx, "orders", "none", "", By(time.Second, at).PastOK()))
		})
	each(t, connection, "a time at a bound", map[time.Time]bool{time.UnixMilli(firstMeantMs - 1): false, time.UnixMilli(firstMeantMs): true,
		time.UnixMilli(lastMeantMs): true, time.UnixMilli(lastMeantMs + 1): false},
		func(at time.Time) error { return second(client.Reschedule(ctx, "orders", "none", "", At(at))) })
	topics := map[string]bool{"~odd-%": false, "~odd-my%20orders": true}
	each(t, connection, "the name of a topic", topics, func(text string) error { return second(client.Topic(text).Count(ctx)) })
	each(t, connection, "a replay's delay", map[time.Duration]bool{-1: false, math.MinInt64: false, 1: true}, func(d time.Duration) error {
		_, _, err := client.Topic("orders").ReplayAll(ctx, d, Range{})
		return err
	})
	each(t, connection, "a namespace", map[string]bool{" ": false, "a:b": false, "\xff": false, "": true}, func(text string) error { return second(New(connection, text)) })

	own := deployment(t, connection, "odder", 1)
	each(t, connection, "Timeout", map[time.Duration]bool{math.MinInt64: false, 0: false, time.Second: true, longestTimeout: true, longestTimeout + 1: false}, func(d time.Duration) error {
		own.Timeout = d
		return second(own.Get(ctx, "orders", "none", ""))
	})
	own.Timeout = time.Second
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
