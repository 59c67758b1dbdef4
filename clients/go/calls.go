package delayq

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	layout    = 1
	mostIDs   = 500
	mostBytes = 4 * 1024 * 1024
)

// ScriptError says that a script refused the whole call. Its code is DQUNINITIALISED, DQLAYOUT, DQTYPE or DQARG.
type ScriptError struct{ Code, Detail string }

func (e ScriptError) Error() string { return e.Code + " " + e.Detail }

// call is one call of a script; its arguments follow the layout.
type call struct {
	verb  string
	shard int
	args  []any
}

// send makes one round trip; where Redis does not know a script, a second one for the calls that need it.
func (c *Client) send(ctx context.Context, calls []call) ([][]any, error) {
	replies, errs := make([][]any, len(calls)), make([]error, len(calls))
	all := make([]int, len(calls))
	for i := range all {
		all[i] = i
	}
	if err := c.attempt(ctx, calls, all, replies, errs); err != nil {
		return nil, err
	}
	var missing []int
	for i, err := range errs {
		if err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
			continue
		}
		missing = append(missing, i)
		found, _ := published(calls[i].verb)
		if err := c.redis.ScriptLoad(ctx, found.source).Err(); err != nil {
			return nil, err
		}
	}
	if err := c.attempt(ctx, calls, missing, replies, errs); err != nil {
		return nil, err
	}
	for _, err := range errs {
		var answered redis.Error
		if errors.As(err, &answered) && strings.HasPrefix(answered.Error(), "DQ") {
			code, detail, _ := strings.Cut(answered.Error(), " ")
			return nil, ScriptError{code, detail}
		}
		if err != nil {
			return nil, err
		}
	}
	return replies, nil
}

func (c *Client) attempt(ctx context.Context, calls []call, which []int, replies [][]any, errs []error) error {
	pipeline := c.redis.Pipeline()
	commands := make([]*redis.Cmd, len(which))
	for n, i := range which {
		found, err := published(calls[i].verb)
		if err != nil {
			return err
		}
		base := fmt.Sprintf("{%s:%d}:", c.options.Namespace, calls[i].shard)
		head := []any{"EVALSHA", found.sha, 2, base + "meta", base + "never", layout}
		commands[n] = pipeline.Do(ctx, append(head, calls[i].args...)...)
	}
	if len(which) > 0 {
		_, _ = pipeline.Exec(ctx) // each command has its own error
	}
	for n, i := range which {
		reply, err := commands[n].Result()
		if items, many := reply.([]any); many {
			replies[i], errs[i] = items, err
		} else {
			replies[i], errs[i] = []any{reply}, err
		}
	}
	return nil
}

// batched parts 0..n into the batches of each key, within the limits of a call.
func batched(n int, key func(int) string, size func(int) int) [][]int {
	var batches [][]int
	open, sizes := map[string]int{}, map[string]int{}
	for i := range n {
		k := key(i)
		at, known := open[k]
		if !known || len(batches[at]) == mostIDs || sizes[k]+size(i) > mostBytes {
			at = len(batches)
			open[k], sizes[k] = at, 0
			batches = append(batches, nil)
		}
		batches[at] = append(batches[at], i)
		sizes[k] += size(i)
	}
	return batches
}

func millis(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func parseAnswer(text string) Answer {
	word, rest, _ := strings.Cut(text, " ")
	words := strings.Split(rest, " ")
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(words[i], 10, 64)
		return n
	}
	switch {
	case strings.Trim(word, "0123456789") == "":
		n, _ := strconv.ParseInt(word, 10, 64)
		return Answer{Word: "extended", TimeMs: n}
	case word == "cancelled" && rest != "":
		return Answer{Word: "extended", TimeMs: number(0), Doomed: true}
	case word == "refused" || word == "failed":
		return Answer{Word: word, Why: rest}
	case len(words) == 2 && (word == "exists" || word == "conflict" || word == "finished"):
		return Answer{Word: word, State: words[0], TimeMs: number(1)}
	case len(words) == 2:
		return Answer{Word: word, OldMs: number(0), TimeMs: number(1)}
	}
	return Answer{Word: word, TimeMs: number(0)}
}
