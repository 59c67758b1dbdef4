// Groups: messages listed, moved and cancelled together, such as the messages of a user.

package delayq

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"time"
)

// Maximum messages promoted per call: a call delays other callers by a few milliseconds at most.
const promotedAtOnce = 100

// Group is the messages of a group, of all topics or of one.
type Group struct {
	client *Client
	name   string
	topic  string // as scripts take it; "" for all
	err    error
}

// Group returns the group of this name: its messages of all topics.
func (c *Client) Group(name string) Group {
	return Group{client: c, name: name, err: checkName("group", name)}
}

// OfTopic returns the group's messages of one topic.
func (g Group) OfTopic(topic string) Group {
	arg, err := topicArg(topic)
	g.topic, g.err = arg, first(g.err, err)
	return g
}

// GroupCancelled counts the messages of a cancelled group. Leased messages finish this attempt and are not retried; Failed
// messages are unreadable.
type GroupCancelled struct{ Cancelled, Leased, Failed int64 }

// GroupShifted counts the messages of a moved group. PassedOver messages are leased, or would expire before the new due time.
type GroupShifted struct{ Moved, PassedOver int64 }

// ErrGroupBusy reports another shift of the same group in progress. Nothing was moved.
var ErrGroupBusy = errors.New("another shift of the group is under way")

// Cancel cancels all of these messages, including earlier puts in flight.
func (g Group) Cancel(ctx context.Context) (total GroupCancelled, err error) {
	if err = g.client.writes.settled(ctx); err != nil {
		return total, err
	}
	err = g.steps(ctx, "cancel_group", []any{g.name, g.topic}, 0, func(_ int, reply []any) error {
		total.Cancelled += reply[2].(int64)
		total.Leased += reply[3].(int64)
		total.Failed += reply[4].(int64)
		return nil
	})
	return total, err
}

// Promote makes delayed messages due in the range ready now, the earliest due first, and counts promoted and unreadable messages.
// Safe to repeat.
func (g Group) Promote(ctx context.Context, due Range) (promoted, kept int64, err error) {
	if err = first(g.err, due.check()); err != nil {
		return 0, 0, err
	}
	if err = g.client.writes.settled(ctx); err != nil {
		return 0, 0, err
	}
	err = g.client.everyPlace(ctx, g.name, func(shard int) (bool, error) {
		err := g.client.inSteps(ctx, "promote", shard, [2]any{g.topic, g.name}, due, promotedAtOnce, math.MaxInt64, &promoted, &kept)
		return err == nil, err
	})
	return promoted, kept, err
}

// List visits pending messages until visit returns an error, ordered by due time unless the deployment has grown.
func (g Group) List(ctx context.Context, visit func(*StoredMessage) error) error {
	return g.steps(ctx, "list_group", []any{g.name}, 2, func(shard int, reply []any) (err error) {
		for items := reply[4:]; err == nil && len(items) > 0; items = items[3:] {
			if g.topic != "" && g.topic != items[0].(string) {
				continue
			}
			one := storedMessage(shard, topicText(items[0].(string)), items[1].(string), items[2].(string))
			err = visit(g.client.shown(ctx, one))
		}
		return err
	})
}

// Shift moves the due times of all pending messages by the same difference, each message once. A repeat with the same token
// resumes an interrupted shift; "" generates a token.
func (g Group) Shift(ctx context.Context, by time.Duration, token string) (total GroupShifted, err error) {
	if by.Milliseconds() == 0 {
		return total, InvalidMessage("a shift moves by a millisecond at least")
	}
	if token == "" {
		raw := make([]byte, 16)
		_, err = rand.Read(raw)
		token = hex.EncodeToString(raw)
	}
	if err = first(g.err, first(err, checkName("token", token))); err != nil {
		return total, err
	}
	if err = g.client.writes.settled(ctx); err != nil {
		return total, err
	}
	err = g.client.everyPlace(ctx, g.name, func(shard int) (bool, error) {
		for {
			reply, err := g.client.one(ctx, "shift_group", shard, g.name, g.topic, token, by.Milliseconds(), maxIDsACall)
			if err != nil || reply[0] == "busy" {
				return false, first(err, ErrGroupBusy)
			}
			total.Moved += reply[1].(int64)
			total.PassedOver += reply[2].(int64)
			if reply[0] == "done" {
				return true, nil
			}
		}
	})
	return total, err
}

// steps calls a script with what names the messages in each of the group's shards until it is through. Its reply has the mark
// of the next step at this place.
func (g Group) steps(ctx context.Context, verb string, named []any, mark int, visit func(shard int, reply []any) error) error {
	if g.err != nil {
		return g.err
	}
	return g.client.everyPlace(ctx, g.name, func(shard int) (bool, error) {
		for due, name := any(0), any(""); due != ""; {
			reply, err := g.client.one(ctx, verb, shard, append(slices.Clone(named), due, name, maxIDsACall)...)
			if err == nil {
				err = visit(shard, reply)
			}
			if err != nil {
				return false, err
			}
			due, name = reply[mark], reply[mark+1]
		}
		return true, nil
	})
}
