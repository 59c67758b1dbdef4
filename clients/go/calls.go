package delayq

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// How much a call may have.
const mostIDs, mostBytes = 500, 4 * 1024 * 1024

// layout is how many shards there were in each layout of the deployment, the newest last: "64,128," and the numbers.
type layout struct {
	text   string
	counts []int
}

// unknown is what a client knows at first: every shard refuses its layout 0, and says which it has.
var unknown = &layout{counts: []int{1}}

func layoutOf(text string) *layout {
	told := &layout{text: text + ","}
	for _, word := range strings.Split(text, ",") {
		count, _ := strconv.Atoi(word)
		told.counts = append(told.counts, count)
	}
	return told
}

func (l *layout) number() int { return strings.Count(l.text, ",") }

func (l *layout) shards() int { return l.counts[len(l.counts)-1] }

// item is one message in a call, and what became of it: the name that says its places (or "", and its place), its topic (or
// "", where a receipt says it), its id or receipt and the rest.
type item struct {
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

// named is what is said of a message by its name. A generated id says its shard, an own one goes by its group, or itself.
func named(topic, id, group string, args ...any) *item {
	raw, err := idBytes(id)
	name := raw
	if group != "" {
		err = first(err, checkName("group", group))
		if !generated(raw) {
			name = group
		}
	}
	return &item{name: name, topic: topic, args: append([]any{raw}, args...), outcome: Outcome{ID: idText(raw)},
		err: first(err, checkName("topic", topic))}
}

// each carries a verb out for each item, by as few calls as the limits allow.
func (c *Client) each(ctx context.Context, verb string, items []*item) ([]Outcome, error) {
	var known *layout
	for left := items; len(left) > 0; {
		if known == nil {
			known = c.layout.Load()
			for _, one := range left {
				if one.err != nil {
					return nil, one.err
				}
				one.place(verb, known.counts)
			}
		}
		some, rest := together(left)
		reply, err := c.call(ctx, verb, known, some[0].places[0], arguments(verb, some))
		if err != nil {
			return nil, err
		}
		if reply == nil { // they may belong elsewhere now
			known = nil
			continue
		}
		answers := reply.([]any)
		for i, one := range some {
			one.outcome.Shard = one.places[0]
			one.outcome.parse(answers[len(answers)-len(some)+i].(string))
			switch word := one.outcome.Word; {
			case len(one.places) > 1 && (word == "unknown" || word == "moved"):
				one.places, rest = one.places[1:], append(rest, one)
			case verb == "put" && (word == "stored" || word == "ready"):
				one.outcome.Time = dueAt(one.args[1].(string), answers[0].(int64))
			}
		}
		left = rest
	}
	outcomes := make([]Outcome, len(items))
	for i, one := range items {
		outcomes[i] = one.outcome
	}
	return outcomes, nil
}

// place finds the places of an item that has a name. A put goes to where it may be since before a growth first, and in the
// end to where it belongs.
func (one *item) place(verb string, counts []int) {
	if one.name != "" {
		one.places = placesOf(one.name, counts)
		if verb == "put" {
			one.places = append(one.places[1:], one.places[0])
		}
	}
}

// together parts what goes in one call with the first from the rest: the same shard and topic, 500 messages and 4 MiB.
func together(left []*item) (some, rest []*item) {
	head, bytes := left[0], 0
	for _, one := range left {
		same := one.places[0] == head.places[0] && len(one.places) == len(head.places) && one.topic == head.topic
		if same && len(some) < mostIDs && bytes+one.bytes <= mostBytes {
			some, bytes = append(some, one), bytes+one.bytes
		} else {
			rest = append(rest, one)
		}
	}
	return some, rest
}

func arguments(verb string, some []*item) (args []any) {
	if some[0].topic != "" {
		args = []any{some[0].topic}
	}
	for _, one := range some {
		args = append(args, one.args...)
		if options := len(args) - 2; verb == "put" && len(one.places) > 1 {
			args[options] = fmt.Sprint(args[options], " earlier")
		}
	}
	return args
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
func (c *Client) one(ctx context.Context, verb string, shard int, args ...any) (reply any, err error) {
	for reply == nil && err == nil {
		reply, err = c.call(ctx, verb, c.layout.Load(), shard, args)
	}
	return reply, err
}

// learn gives the layout, and asks Redis for it the first time.
func (c *Client) learn(ctx context.Context) (known *layout, err error) {
	if known = c.layout.Load(); known == unknown {
		_, err = c.one(ctx, "describe", 0, "")
	}
	return c.layout.Load(), err
}

// call gets the reply of one call; nil where the shard had another layout, which is followed then.
func (c *Client) call(ctx context.Context, verb string, known *layout, shard int, args []any) (any, error) {
	base := fmt.Sprintf("{%s:%d}:", c.namespace, shard)
	keys, said := []string{base + "meta", base + "never"}, append([]any{known.number()}, args...)
	reply, err := c.scripts[verb].Run(ctx, c.redis, keys, said...).Result()
	if err != nil {
		return nil, c.follow(ctx, shard, err)
	}
	return reply, nil
}

// follow takes over the layout of a shard that knows more, and tells one that knows less. Other errors it hands back.
func (c *Client) follow(ctx context.Context, shard int, fault error) error {
	code, detail, _ := strings.Cut(fault.Error(), " ")
	words, known := strings.Fields(detail+" ? ?"), c.layout.Load()
	told := layoutOf(words[1])
	switch {
	case !strings.HasPrefix(code, "DQ"):
		return fault
	case code != "DQLAYOUT" || words[0] != strconv.Itoa(told.number()):
	case strings.HasPrefix(told.text, known.text):
		c.layout.Store(told)
		return nil
	case strings.HasPrefix(known.text, told.text):
		_, err := c.one(ctx, "grow", shard, shard, strings.TrimSuffix(known.text, ","))
		return err
	}
	return ScriptError{code, detail}
}
