// Topics: messages by state, dead letters, counts and policy.

package delayq

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Topic is the messages of one topic.
type Topic struct {
	client *Client
	name   string
	stored string
	err    error
}

// Topic returns the topic of this name. A topic outside the rules has an ~odd- name.
func (c *Client) Topic(name string) Topic {
	stored, err := topicArg(name)
	return Topic{c, name, stored, err}
}

// Numbers counts the messages of a topic by state, and from Accepted on all messages ever.
type Numbers struct {
	Delayed, Ready, Leased, Dead                                      int64
	Accepted, Delivered, Cancelled, Expired, Purged, Replaced, Buried int64
	// NextDue is the due time of the next delayed message, or earlier; zero if no message is delayed.
	NextDue time.Time
	// Unreadable counts keys of another type, whose messages are not counted.
	Unreadable int64
}

// Range limits due times of delayed messages, lease ends of leased messages, or times of death; both ends are inclusive, and a
// zero time is no limit.
type Range struct {
	From, To time.Time
	// PastOK accepts times before 2001 or after 9999.
	PastOK bool
}

func (r Range) check() (err error) {
	for what, at := range map[string]time.Time{"the beginning of a range": r.From, "the end of a range": r.To} {
		if at.IsZero() {
			continue
		}
		err = first(err, checkTime(what, at))
		if !r.PastOK {
			err = first(err, doubtTime(what, at))
		}
	}
	return err
}

func (r Range) millis() (from, to int64) {
	to = maxTimeMs
	if !r.From.IsZero() {
		from = r.From.UnixMilli()
	}
	if !r.To.IsZero() {
		to = r.To.UnixMilli()
	}
	return from, to
}

// Count counts messages over all shards, each shard at another instant.
func (t Topic) Count(ctx context.Context) (total Numbers, err error) {
	err = t.everyShard(ctx, func(shard int) error {
		for hour := any(0); hour != ""; {
			reply, err := t.client.one(ctx, "count", shard, t.stored, hour)
			if err != nil {
				return err
			}
			if hour == any(0) {
				total.add(reply[3:])
			}
			hour = reply[0]
			total.Delayed += reply[1].(int64)
			if ms, is := number64(reply[2]); is && (total.NextDue.IsZero() || ms < total.NextDue.UnixMilli()) {
				total.NextDue = time.UnixMilli(ms)
			}
		}
		return nil
	})
	return total, err
}

// add adds the first step of a shard; a shard that does not know the topic adds nothing.
func (n *Numbers) add(reply []any) {
	if len(reply) == 0 {
		return
	}
	counted := []*int64{&n.Ready, &n.Leased, &n.Dead, &n.Accepted, &n.Delivered, &n.Cancelled, &n.Expired, &n.Purged,
		&n.Replaced, &n.Buried}
	for i, number := range counted {
		if more, _ := number64(reply[i]); more > 0 {
			*number += more
		}
	}
	// Behind the pause and the rate; later versions may say more.
	if unreadable, is := number64(reply[len(counted)+2]); is {
		n.Unreadable += unreadable
	}
}

// List visits messages in one state (Delayed, Ready, Leased or Dead) until visit returns an error: shard by shard, by time,
// ready messages in queue order.
func (t Topic) List(ctx context.Context, state State, span Range, visit func(*StoredMessage) error) error {
	return t.everyShard(ctx, func(shard int) error {
		return t.pages(ctx, shard, state, span, func(page []*StoredMessage) (err error) {
			for i := 0; err == nil && i < len(page); i++ {
				err = visit(t.client.shown(ctx, page[i]))
			}
			return err
		})
	})
}

// PausedGroup is a paused group of a topic.
type PausedGroup struct {
	Group string
	Since time.Time
}

// PauseGroup stops the messages of one group of the topic from being reserved; messages of other groups pass. Safe to repeat.
func (t Topic) PauseGroup(ctx context.Context, group string) error {
	return t.changePause(ctx, "pause", group)
}

// ResumeGroup lets a paused group continue, in the order in which its messages became ready. Safe to repeat.
func (t Topic) ResumeGroup(ctx context.Context, group string) error {
	return t.changePause(ctx, "resume", group)
}

func (t Topic) changePause(ctx context.Context, word, group string) error {
	err := first(t.err, checkName("group", group))
	if err == nil {
		_, err = t.client.everywhere(ctx, "pause_group", func(int) []any { return []any{t.stored, word, group} })
	}
	return err
}

// PausedGroups returns the paused groups of the topic, the longest paused first.
func (t Topic) PausedGroups(ctx context.Context) (groups []PausedGroup, err error) {
	since, last, page := any(""), any(""), []any{""}
	for err = t.err; err == nil && len(page) > 0; {
		page, err = t.client.one(ctx, "paused_groups", 0, t.stored, since, last, maxIDsACall)
		for i := 0; i+1 < len(page); i += 2 {
			ms, _ := number64(page[i+1])
			last, since = page[i], ms
			groups = append(groups, PausedGroup{page[i].(string), time.UnixMilli(ms)})
		}
	}
	return groups, err
}

// Replay revives dead letters after a delay, with attempts counted from zero. An empty group means no group.
func (t Topic) Replay(ctx context.Context, delay time.Duration, group string, ids ...string) ([]Outcome, error) {
	items := make([]*item, len(ids))
	for i, id := range ids {
		items[i] = named(t.name, id, group)
	}
	return t.replay(ctx, delay, items)
}

// ReplayAll revives all dead letters that died in the range, and counts revived and remaining letters.
func (t Topic) ReplayAll(ctx context.Context, delay time.Duration, span Range) (replayed, kept int, err error) {
	if err = checkSpan("a delay", delay); err != nil {
		return 0, 0, err
	}
	err = t.everyShard(ctx, func(shard int) error {
		return t.pages(ctx, shard, Dead, span, func(page []*StoredMessage) error {
			items := make([]*item, len(page))
			for i, one := range page {
				items[i] = named(t.name, one.ID, one.Group)
				items[i].name, items[i].places = "", []int{shard}
			}
			outcomes, err := t.replay(ctx, delay, items)
			for _, outcome := range outcomes {
				if outcome.Word == Ready || outcome.Word == Delayed {
					replayed++
				} else {
					kept++
				}
			}
			return err
		})
	})
	return replayed, kept, err
}

func (t Topic) replay(ctx context.Context, delay time.Duration, items []*item) ([]Outcome, error) {
	for _, one := range items {
		one.shared = []any{wholeMillis(delay)}
		one.err = first(one.err, checkSpan("a delay", delay))
	}
	return t.client.each(ctx, "replay", items)
}

// Purge deletes messages in one state (Delayed, Ready or Dead), and counts deleted and unreadable messages.
func (t Topic) Purge(ctx context.Context, state State, span Range) (purged, kept int64, err error) {
	if state != Delayed && state != Ready && state != Dead {
		return 0, 0, InvalidMessage(fmt.Sprintf("%.40q is not a state that is purged: Delayed, Ready or Dead", state))
	}
	return t.inSteps(ctx, "purge", string(state), span, maxIDsACall)
}

// Promote makes delayed messages due in the range ready now, in each shard the earliest due first, and counts promoted and
// unreadable messages. Safe to repeat. For one message: Client.Reschedule with After(0).
func (t Topic) Promote(ctx context.Context, due Range) (promoted, kept int64, err error) {
	return t.inSteps(ctx, "promote", "", due, promotedAtOnce)
}

func (t Topic) inSteps(ctx context.Context, verb, word string, span Range, most int) (changed, kept int64, err error) {
	if err = span.check(); err != nil {
		return 0, 0, err
	}
	err = t.everyShard(ctx, func(shard int) error {
		return t.client.inSteps(ctx, verb, shard, [2]any{t.stored, word}, span, most, math.MaxInt64, &changed, &kept)
	})
	return changed, kept, err
}

// inSteps calls a script of one shard, each time for at most `most` messages, until it is done or has changed `total`. Counts
// messages changed and kept.
func (c *Client) inSteps(ctx context.Context, verb string, shard int, head [2]any, span Range, most int, total int64, changed, kept *int64) error {
	from, to := span.millis()
	for word, after, mark := any("more"), any(from), any(""); word == "more" && total > 0; {
		step := int64(most)
		if total < step {
			step = total
		}
		reply, err := c.one(ctx, verb, shard, head[0], head[1], after, to, mark, step)
		if err != nil {
			return err
		}
		word, after, mark = reply[0], reply[3], reply[4]
		total -= reply[1].(int64)
		*changed += reply[1].(int64)
		*kept += reply[2].(int64)
	}
	return nil
}

// everyShard visits every shard, including shards added by a growth meanwhile.
func (t Topic) everyShard(ctx context.Context, visit func(shard int) error) error {
	shards, err := 1, t.err
	for shard := 0; err == nil && shard < shards; shard++ {
		if shards, err = t.client.shards(ctx); err == nil {
			err = visit(shard)
		}
	}
	return err
}

// pages visits pages of one shard. Messages that die during a listing of dead letters are left out.
func (t Topic) pages(ctx context.Context, shard int, state State, span Range, visit func([]*StoredMessage) error) error {
	if state != Delayed && state != Ready && state != Leased && state != Dead {
		return InvalidMessage(fmt.Sprintf("%.40q is not a state that is listed: Delayed, Ready, Leased or Dead", state))
	}
	if err := span.check(); err != nil {
		return err
	}
	from, to := span.millis()
	for after, mark := any(from), any(""); after != ""; {
		reply, err := t.client.one(ctx, "list", shard, t.stored, string(state), after, to, "asc", mark, maxIDsACall)
		if err != nil {
			return err
		}
		if now := reply[0].(int64) / 1000; state == Dead && now < to {
			to = now
		}
		after, mark = reply[1], reply[2]
		var page []*StoredMessage
		for items := reply[3:]; len(items) > 0; items = items[2:] {
			page = append(page, storedMessage(shard, t.name, items[0].(string), items[1].(string)))
		}
		if err := visit(page); err != nil {
			return err
		}
	}
	return nil
}

// number64 parses a number in a reply; false if empty.
func number64(value any) (int64, bool) {
	if number, is := value.(int64); is {
		return number, true
	}
	text, _ := value.(string)
	return int64(atoi(text)), text != ""
}
