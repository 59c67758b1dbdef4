package delayq

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

const (
	mostIDs   = 500
	mostBytes = 4 * 1024 * 1024
)

// item is one message in a call: the name that says its places (or "", and its shard), its topic, its id or receipt, the rest.
type item struct {
	name  string
	shard int
	topic []any
	args  []any
}

// seeking is an item without an outcome yet: in how many places it was sought before, and whether the next is the last one.
type seeking struct {
	i, before int
	last      bool
}

// batch is what goes in one call: messages of one shard and topic.
type batch struct {
	shard, bytes int
	args         []any
	asked        []seeking
}

// each carries a verb out for each item, by as few calls as the limits allow.
func (c *Client) each(ctx context.Context, verb string, items []item) ([]Put, error) {
	if _, err := c.learn(ctx); err != nil {
		return nil, err
	}
	puts, left := make([]Put, len(items)), make([]seeking, len(items))
	for i := range items {
		left[i].i = i
	}
	for len(left) > 0 {
		counts := *c.counts.Load()
		batches := gather(verb, items, left, counts)
		left = nil
		for _, b := range batches {
			reply, err := c.call(ctx, verb, counts, b.shard, b.args)
			if err != nil {
				return nil, err
			}
			for k, s := range b.asked {
				if reply == nil { // another layout: it may belong elsewhere now
					left = append(left, seeking{i: s.i})
				} else if text := reply[len(reply)-len(b.asked)+k].(string); !s.last && (text == "unknown" || text == "moved") {
					left = append(left, seeking{i: s.i, before: s.before + 1})
				} else {
					if text == "stored" || verb == "put" && text == "ready" {
						text = fmt.Sprint(text, " ", dueMs(items[s.i].args[1].(string), reply[0].(int64)))
					}
					puts[s.i] = Put{idText(items[s.i].args[0].(string)), b.shard, parseOutcome(text)}
				}
			}
		}
	}
	return puts, nil
}

// dueMs is when a message is due that was put at this time: ms, or "+" and a delay.
func dueMs(due string, nowUs int64) int64 {
	ms, _ := strconv.ParseInt(due, 10, 64)
	if due[0] == '+' {
		ms += nowUs / 1000
	}
	return ms
}

// gather parts items into calls of at most 500 messages and 4 MiB.
func gather(verb string, items []item, left []seeking, counts []int) (batches []*batch) {
	open := map[string]*batch{}
	for _, s := range left {
		one, places := items[s.i], []int{items[s.i].shard}
		if one.name != "" {
			places = placesOf(one.name, counts)
		}
		s.last = s.before+1 == len(places)
		shard, args := places[s.before], one.args
		if verb == "put" { // first to where it may be since before a growth, in the end where it belongs
			shard = places[len(places)-1-s.before]
			if !s.last {
				args = []any{args[0], args[1], fmt.Sprint(args[2], " earlier"), args[3]}
			}
		}
		size, key := len(fmt.Sprint(args...)), fmt.Sprint(shard, one.topic)
		b := open[key]
		if b == nil || len(b.asked) == mostIDs || b.bytes+size > mostBytes {
			b = &batch{shard: shard, args: append([]any{}, one.topic...)}
			open[key], batches = b, append(batches, b)
		}
		b.args, b.asked, b.bytes = append(b.args, args...), append(b.asked, s), b.bytes+size
	}
	return batches
}

// one gets the reply of one call, whatever the layout.
func (c *Client) one(ctx context.Context, verb string, shard int, args ...any) (reply []any, err error) {
	for reply == nil && err == nil {
		reply, err = c.call(ctx, verb, *c.counts.Load(), shard, args)
	}
	return reply, err
}

// learn says how many shards there are. The first time, Redis is asked: whoever knows none is refused, and told.
func (c *Client) learn(ctx context.Context) (int, error) {
	if len(*c.counts.Load()) == 0 {
		if _, err := c.call(ctx, "describe", nil, 0, []any{""}); err != nil {
			return 0, err
		}
	}
	counts := *c.counts.Load()
	return counts[len(counts)-1], nil
}

// call gets the reply of one call; nil where the shard had another layout, which is followed then. A Redis that has not got
// the script is given it.
func (c *Client) call(ctx context.Context, verb string, counts []int, shard int, args []any) ([]any, error) {
	script, err := published(verb)
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("{%s:%d}:", c.namespace, shard)
	command := append([]any{"EVALSHA", script.sha, 2, base + "meta", base + "never", len(counts)}, args...)
	reply, err := c.redis.Do(ctx, command...).Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		command[0], command[1] = "EVAL", script.source
		reply, err = c.redis.Do(ctx, command...).Result()
	}
	if err != nil {
		return nil, c.follow(ctx, shard, err)
	}
	if items, many := reply.([]any); many {
		return items, nil
	}
	return []any{reply}, nil
}

// follow takes over the layout of a shard that knows more, and tells one that knows less. Other errors it hands back.
func (c *Client) follow(ctx context.Context, shard int, fault error) error {
	code, detail, _ := strings.Cut(fault.Error(), " ")
	if !strings.HasPrefix(code, "DQ") {
		return fault
	}
	words, told := strings.Fields(detail+" ? ?"), []int(nil)
	for _, text := range strings.Split(words[1], ",") {
		count, _ := strconv.Atoi(text)
		told = append(told, count)
	}
	known, same := *c.counts.Load(), code == "DQLAYOUT" && words[0] == strconv.Itoa(len(told))
	for i := 0; i < len(told) && i < len(known); i++ {
		same = same && told[i] == known[i]
	}
	if !same {
		return ScriptError{code, detail}
	}
	if len(told) >= len(known) {
		c.counts.Store(&told)
		return nil
	}
	_, err := c.one(ctx, "grow", shard, shard, strings.ReplaceAll(strings.Trim(fmt.Sprint(known), "[]"), " ", ","))
	return err
}
