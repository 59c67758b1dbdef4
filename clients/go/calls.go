// Calls of scripts: many messages at a time, in as few calls as the limits allow, wherever they are.

package delayq

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// How much a call may have.
const mostIDs, mostBytes = 500, 4 << 20

// layout is how many shards there were in each layout of the deployment, the newest last: "64,128,", and
// parsed.
type layout struct {
	text   string
	counts []int
	number int
}

// unknown is what a client knows at first: every shard refuses its layout 0, and says which it has.
var unknown = &layout{counts: []int{1}}

func layoutOf(text string) *layout {
	told := &layout{text: text + ","}
	_ = json.Unmarshal([]byte("["+text+"]"), &told.counts)
	told.number = len(told.counts)
	return told
}

// item is one message in a call, and what becomes of it.
type item struct {
	// name says its places: a raw id, or a group. It is empty where a receipt is sent, as the topic is.
	name, topic string
	args        []any
	// bytes is how large it is, where that matters.
	bytes int
	// places are the shards where it is still to be sought.
	places  []int
	outcome Outcome
	// err is what is wrong with it. Nothing is sent then.
	err error
}

// named is what is said of a message by its name. A generated id says its shard, an own one goes by its
// group, or by itself.
func named(topic, id, group string, args ...any) *item {
	raw, err := idBytes(id)
	one := &item{name: raw, topic: topic, args: append([]any{raw}, args...), outcome: Outcome{ID: id}}
	one.err = first(err, checkName("topic", topic))
	if group != "" {
		one.err = first(one.err, checkName("group", group))
		if !generated(raw) {
			one.name = group
		}
	}
	return one
}

// each carries a verb out for each item, by as few calls as the limits allow. With an error too, there is an
// outcome for each: of what was answered before, and of shards other than the one that refused its call.
func (c *Client) each(ctx context.Context, verb string, items []*item) (outcomes []Outcome, err error) {
	for _, one := range items {
		if one.err != nil {
			return nil, one.err
		}
	}
	err = c.fill(ctx, verb, items)
	for _, one := range items {
		if one.outcome.Word == "" {
			one.outcome.Word = "unanswered"
		}
		outcomes = append(outcomes, one.outcome)
	}
	return outcomes, err
}

// fill fills the outcomes in.
func (c *Client) fill(ctx context.Context, verb string, items []*item) (refused error) {
	var known *layout
	for left := items; len(left) > 0; {
		if now := c.layout.Load(); now != known { // they may belong elsewhere now
			known = now
			for _, one := range left {
				one.place(verb, known.counts)
			}
		}
		some, rest, args := together(verb, left)
		reply, err := c.call(ctx, verb, known, some[0].places[0], args)
		switch _, refusal := err.(ScriptError); {
		case refusal:
			refused, left = err, rest
		case err != nil:
			return err
		case reply != nil:
			left = append(rest, answer(some, reply)...)
		}
	}
	return refused
}

// place finds the places of an item that has a name. A put goes to where it may be since before a growth
// first, and in the end to where it belongs.
func (one *item) place(verb string, counts []int) {
	if one.name != "" {
		one.places = placesOf(one.name, counts)
		if verb == "put" {
			one.places = append(one.places[1:], one.places[0])
		}
	}
}

// together parts what goes in one call with the first from the rest: one shard and topic, as much as a call
// may have.
func together(verb string, left []*item) (some, rest []*item, args []any) {
	head, bytes := left[0], 0
	if head.topic != "" {
		args = []any{head.topic}
	}
	for _, one := range left {
		same := one.places[0] == head.places[0] && len(one.places) == len(head.places)
		if !same || one.topic != head.topic || len(some) == mostIDs || bytes+one.bytes > mostBytes {
			rest = append(rest, one)
			continue
		}
		some, bytes, args = append(some, one), bytes+one.bytes, append(args, one.args...)
		if options := len(args) - 2; verb == "put" && len(one.places) > 1 {
			args[options] = fmt.Sprint(args[options], " earlier")
		}
	}
	return some, rest, args
}

// answer reads what was answered of some items, and gives back those that may be elsewhere.
func answer(some []*item, reply []any) (elsewhere []*item) {
	for i, one := range some {
		one.outcome.Shard = one.places[0]
		one.outcome.parse(reply[len(reply)-len(some)+i].(string))
		switch word := one.outcome.Word; {
		case len(one.places) > 1 && (word == "unknown" || word == "moved"):
			one.places, elsewhere = one.places[1:], append(elsewhere, one)
		case word == "stored", word == "ready" && one.outcome.Time.IsZero(): // a put
			one.outcome.Time = dueAt(one.args[1].(string), reply[0].(int64))
		}
	}
	return elsewhere
}

// dueAt is when a message is due that was put with this due time, ms or "+" and a delay, at this time in µs.
func dueAt(due string, nowUs int64) time.Time {
	ms, _ := strconv.ParseInt(due, 10, 64)
	if due[0] == '+' {
		ms += nowUs / 1000
	}
	return time.UnixMilli(ms)
}

// one gets the reply of one call, whatever the layout.
func (c *Client) one(ctx context.Context, verb string, shard int, args ...any) (reply []any, err error) {
	for reply == nil && err == nil {
		reply, err = c.call(ctx, verb, c.layout.Load(), shard, args)
	}
	return reply, err
}

// shards are all there are, beginning one further each time. The first time, Redis is asked how many.
func (c *Client) shards(ctx context.Context) ([]int, error) {
	if c.layout.Load() == unknown {
		if _, err := c.one(ctx, "describe", 0, ""); err != nil {
			return nil, err
		}
	}
	counts := c.layout.Load().counts
	shards, turn := make([]int, counts[len(counts)-1]), int(c.turn.Add(1)%(1<<16))
	for i := range shards {
		shards[i] = (turn + i) % len(shards)
	}
	return shards, nil
}

// call gets the reply of one call; nil where the shard had another layout, which is followed then.
func (c *Client) call(ctx context.Context, verb string, known *layout, shard int, args []any) ([]any, error) {
	keys, said := []string{c.key(shard, "meta"), c.key(shard, "never")}, append([]any{known.number}, args...)
	reply, err := c.scripts[verb].Run(ctx, c.redis, keys, said...).Result()
	if err != nil {
		return nil, c.follow(ctx, shard, err)
	}
	if many, is := reply.([]any); is {
		return many, nil
	}
	return []any{reply}, nil
}

func (c *Client) key(shard int, name string) string {
	return fmt.Sprintf("{%s:%d}:%s", c.namespace, shard, name)
}

// follow takes over the layout of a shard that knows more, and tells one that knows less. It hands other
// errors back.
func (c *Client) follow(ctx context.Context, shard int, fault error) error {
	code, detail, _ := strings.Cut(fault.Error(), " ")
	words, known := strings.Fields(detail+" ? ?"), c.layout.Load()
	told := layoutOf(words[1])
	switch {
	case !strings.HasPrefix(code, "DQ"):
		return fault
	case code != "DQLAYOUT" || words[0] != strconv.Itoa(told.number):
	case strings.HasPrefix(told.text, known.text):
		c.layout.Store(told)
		return nil
	case strings.HasPrefix(known.text, told.text):
		_, err := c.one(ctx, "grow", shard, shard, strings.TrimSuffix(known.text, ","))
		return err
	}
	return ScriptError{code, detail}
}

// ScriptError says that a script refused the whole call, and did nothing. Its code is DQUNINITIALISED,
// DQLAYOUT, DQTYPE or DQARG.
type ScriptError struct{ Code, Detail string }

func (e ScriptError) Error() string { return e.Code + " " + e.Detail }

// Outcome is what became of one message: a word, and what belongs to it. The README lists the words.
type Outcome struct {
	Word string
	// ID and Shard find the message again.
	ID    string
	Shard int
	// Time is when it is due; of what is over, when it ended; of a lease, its end: on Redis's clock. Old is
	// when it was due before.
	Time, Old time.Time
	// State is the state that the answer names.
	State string
	// Why it was refused or failed.
	Why string
	// Doomed says that a cancel came while it was leased: it will not be tried again.
	Doomed bool
}

// Accepted says, of a put, whether the message is kept, by this one or an earlier one.
func (o Outcome) Accepted() bool {
	return o.Word == "stored" || o.Word == "ready" || o.Word == "exists"
}

// parse reads what a script answers for one message.
func (o *Outcome) parse(text string) {
	words := strings.Fields(text)
	if o.Word = words[0]; o.Word == "refused" || o.Word == "failed" {
		o.Why = strings.TrimPrefix(text, o.Word+" ")
		return
	}
	for n, word := range words {
		if ms, err := strconv.ParseInt(word, 10, 64); err == nil {
			o.Old, o.Time = o.Time, time.UnixMilli(ms)
		} else if n > 0 {
			o.State = word
		}
	}
	if o.Doomed = o.Word == "cancelled" && len(words) > 1; o.Doomed || o.Word[0] <= '9' {
		o.Word = "extended"
	}
}
