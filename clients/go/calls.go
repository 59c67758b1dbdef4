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

// answer is what a script answered for one message, in which shard, and with what before it: of a put, the time in µs.
type answer struct {
	text  string
	shard int
	head  any
}

// seeking is an item without an answer yet, which was sought in some places before.
type seeking struct {
	i, before int
	last      bool
}

type call struct {
	shard int
	args  []any
	asked []seeking
	bytes int
}

// each gets one answer for each item, by as few calls as the limits allow.
func (c *Client) each(ctx context.Context, verb string, items []item) ([]answer, error) {
	if _, err := c.learn(ctx); err != nil {
		return nil, err
	}
	answers, left := make([]answer, len(items)), make([]seeking, len(items))
	for i := range items {
		left[i].i = i
	}
	for len(left) > 0 {
		counts := *c.counts.Load()
		calls := gather(verb, items, left, counts)
		replies, err := c.call(ctx, verb, counts, calls)
		if err != nil {
			return nil, err
		}
		left = nil
		for n, reply := range replies {
			for k, s := range calls[n].asked {
				if reply == nil { // another layout: it may belong elsewhere now
					left = append(left, seeking{i: s.i})
				} else if text := reply[len(reply)-len(calls[n].asked)+k].(string); !s.last && (text == "unknown" || text == "moved") {
					left = append(left, seeking{i: s.i, before: s.before + 1})
				} else {
					answers[s.i] = answer{text, calls[n].shard, reply[0]}
				}
			}
		}
	}
	return answers, nil
}

// gather makes calls of one shard and topic each, with at most 500 messages and 4 MiB.
func gather(verb string, items []item, left []seeking, counts []int) (calls []call) {
	open := map[string]int{}
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
		size := 0
		for _, arg := range args {
			size += len(fmt.Sprint(arg))
		}
		key := fmt.Sprint(shard, one.topic)
		at, found := open[key]
		if !found || len(calls[at].asked) == mostIDs || calls[at].bytes+size > mostBytes {
			at = len(calls)
			open[key], calls = at, append(calls, call{shard: shard, args: append([]any{}, one.topic...)})
		}
		calls[at].args, calls[at].asked = append(calls[at].args, args...), append(calls[at].asked, s)
		calls[at].bytes += size
	}
	return calls
}

// one gets the reply of one call.
func (c *Client) one(ctx context.Context, verb string, shard int, args ...any) ([]any, error) {
	for {
		replies, err := c.call(ctx, verb, *c.counts.Load(), []call{{shard: shard, args: args}})
		if err != nil || replies[0] != nil {
			return append(replies, nil)[0], err
		}
	}
}

// learn says how many shards there are. The first time, Redis is asked: whoever knows none is refused, and told.
func (c *Client) learn(ctx context.Context) (int, error) {
	if len(*c.counts.Load()) == 0 {
		if _, err := c.call(ctx, "describe", nil, []call{{args: []any{""}}}); err != nil {
			return 0, err
		}
	}
	counts := *c.counts.Load()
	return counts[len(counts)-1], nil
}

// call gets the replies of one script's calls, in one round trip; nil where the shard had another layout, which is followed
// then. A Redis that has not got the script is given it.
func (c *Client) call(ctx context.Context, verb string, counts []int, calls []call) ([][]any, error) {
	script, err := published(verb)
	if err != nil {
		return nil, err
	}
	commands, missing := make([]*redis.Cmd, len(calls)), true
	for try := 0; try < 2 && missing; try++ {
		pipeline := c.redis.Pipeline()
		if try > 0 {
			pipeline.ScriptLoad(ctx, script.source)
		}
		for i, one := range calls {
			if try == 0 || redis.HasErrorPrefix(commands[i].Err(), "NOSCRIPT") {
				base := fmt.Sprintf("{%s:%d}:", c.namespace, one.shard)
				head := []any{"EVALSHA", script.sha, 2, base + "meta", base + "never", len(counts)}
				commands[i] = pipeline.Do(ctx, append(head, one.args...)...)
			}
		}
		_, _ = pipeline.Exec(ctx) // each command has its own error
		missing = false
		for _, command := range commands {
			missing = missing || redis.HasErrorPrefix(command.Err(), "NOSCRIPT")
		}
	}
	replies := make([][]any, len(calls))
	for i, command := range commands {
		reply, err := command.Result()
		if err != nil {
			if err = c.follow(ctx, calls[i].shard, err); err != nil {
				return nil, err
			}
		} else if items, many := reply.([]any); many {
			replies[i] = items
		} else {
			replies[i] = []any{reply}
		}
	}
	return replies, nil
}

// follow takes over the layout of a shard that knows more, and tells one that knows less. Other errors it hands back.
func (c *Client) follow(ctx context.Context, shard int, fault error) error {
	code, detail, _ := strings.Cut(fault.Error(), " ")
	if !strings.HasPrefix(code, "DQ") {
		return fault
	}
	words := strings.Fields(detail + " ? ?")
	var told []int
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
