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

// layout is how many shards there were in each layout of the deployment, the newest last: "64,128," and the numbers.
type layout struct {
	text   string
	counts []int
}

func layoutOf(text string) *layout {
	told := &layout{text: text + ","}
	for _, word := range strings.Split(text, ",") {
		count, _ := strconv.Atoi(word)
		told.counts = append(told.counts, count)
	}
	return told
}

func (l *layout) shards() int { return l.counts[len(l.counts)-1] }

// item is one message in a call: the name that says its places (or "", and its shard), its topic, its id or receipt and the
// rest.
type item struct {
	name  string
	shard int
	topic string
	args  []string
}

// sought is an item without an answer yet, and the places where it is still to be sought.
type sought struct {
	item
	i, bytes int
	places   []int
}

// each carries a verb out for each item, by as few calls as the limits allow.
func (c *Client) each(ctx context.Context, verb string, items []item) ([]Put, error) {
	puts, left := make([]Put, len(items)), make([]*sought, len(items))
	for i, one := range items {
		left[i] = &sought{item: one, i: i, bytes: len(strings.Join(one.args, ""))}
	}
	var placedBy *layout
	for len(left) > 0 {
		known, err := c.learn(ctx)
		if err != nil {
			return nil, err
		}
		for i := 0; known != placedBy && i < len(left); i++ {
			left[i].place(verb, known)
		}
		placedBy = known
		some, rest := together(left)
		reply, err := c.call(ctx, verb, known, some[0].places[0], arguments(verb, some))
		if err != nil {
			return nil, err
		}
		if reply == nil {
			continue
		}
		for k, s := range some {
			shard, text := s.places[0], reply[len(reply)-len(some)+k].(string)
			if s.places = s.places[1:]; len(s.places) > 0 && (text == "unknown" || text == "moved") {
				rest = append(rest, s)
				continue
			}
			puts[s.i] = Put{idText(s.args[0]), shard, parseOutcome(text)}
			if text == "stored" || verb == "put" && text == "ready" {
				puts[s.i].Outcome.Time = dueAt(s.args[1], reply[0].(int64))
			}
		}
		left = rest
	}
	return puts, nil
}

func (s *sought) place(verb string, known *layout) {
	s.places = []int{s.shard}
	if s.name != "" {
		s.places = placesOf(s.name, known.counts)
	}
	if verb == "put" { // first to where it may be since before a growth, in the end where it belongs
		for a, b := 0, len(s.places)-1; a < b; a, b = a+1, b-1 {
			s.places[a], s.places[b] = s.places[b], s.places[a]
		}
	}
}

// together parts what goes in one call with the first from the rest: the same shard and topic, 500 messages and 4 MiB.
func together(left []*sought) (some, rest []*sought) {
	first, bytes := left[0], 0
	for _, s := range left {
		same := s.places[0] == first.places[0] && s.topic == first.topic && len(s.places) == len(first.places)
		if bytes += s.bytes; same && len(some) < mostIDs && bytes <= mostBytes {
			some = append(some, s)
		} else {
			bytes, rest = bytes-s.bytes, append(rest, s)
		}
	}
	return some, rest
}

func arguments(verb string, some []*sought) (args []string) {
	if some[0].topic != "" {
		args = []string{some[0].topic}
	}
	for _, s := range some {
		args = append(args, s.args...)
		if verb == "put" && len(s.places) > 1 {
			args[len(args)-2] += " earlier"
		}
	}
	return args
}

// one gets the reply of one call, whatever the layout.
func (c *Client) one(ctx context.Context, verb string, shard int, args ...string) (reply []any, err error) {
	for reply == nil && err == nil {
		reply, err = c.call(ctx, verb, c.layout.Load(), shard, args)
	}
	return reply, err
}

// learn gives the layout. The first time, Redis is asked: whoever knows none is refused, and told.
func (c *Client) learn(ctx context.Context) (*layout, error) {
	known := c.layout.Load()
	if known.counts != nil {
		return known, nil
	}
	_, err := c.call(ctx, "describe", known, 0, []string{""})
	return c.layout.Load(), err
}

// call gets the reply of one call; nil where the shard had another layout, which is followed then. A Redis that has not got
// the script is given it.
func (c *Client) call(ctx context.Context, verb string, known *layout, shard int, args []string) ([]any, error) {
	script, err := published(verb)
	if err != nil {
		return nil, err
	}
	base := fmt.Sprintf("{%s:%d}:", c.namespace, shard)
	command := []any{"EVALSHA", script.sha, 2, base + "meta", base + "never", len(known.counts)}
	for _, arg := range args {
		command = append(command, arg)
	}
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
	words := strings.Fields(fault.Error() + " ? ?")
	if !strings.HasPrefix(words[0], "DQ") {
		return fault
	}
	told, known := layoutOf(words[2]), c.layout.Load()
	switch {
	case words[0] != "DQLAYOUT" || words[1] != strconv.Itoa(len(told.counts)):
	case strings.HasPrefix(told.text, known.text):
		c.layout.Store(told)
		return nil
	case strings.HasPrefix(known.text, told.text):
		_, err := c.one(ctx, "grow", shard, strconv.Itoa(shard), strings.TrimSuffix(known.text, ","))
		return err
	}
	return ScriptError{words[0], strings.TrimPrefix(fault.Error(), words[0]+" ")}
}
