// Promotes the messages that are due first over all shards, and no more than the caller has room for.

package delayq

import (
	"context"
	"sort"
	"time"
)

// Maximum messages of a shard that are read at once, to find which are due first.
const duesAtOnce = 32

// place identifies a message of a topic.
type place struct {
	shard     int
	id, group string
}

// reservePromoting reserves all ready messages that there is room for, and then the earliest due of the others.
func (c *Client) reservePromoting(ctx context.Context, ask Reserve) (found []*Delivery, err error) {
	shards, err := c.shards(ctx)
	all := make([]int, shards)
	for shard := range all {
		all[shard] = shard
	}
	if err == nil {
		found, err = c.askAll(ctx, ask, all)
	}
	for i := 0; err == nil && i < len(ask.Topics) && len(found) < ask.Max; i++ {
		rest, order := ask, []place(nil)
		rest.Max -= len(found)
		if order, err = c.promoteEarliest(ctx, ask.Topics[i], ask.PromoteUntil, rest.Max); err != nil {
			break
		}
		rank, some := map[place]int{}, []int(nil)
		for n, one := range order {
			if rank[one] = n; !contains(some, one.shard) {
				some = append(some, one.shard)
			}
		}
		var promoted []*Delivery
		promoted, err = c.askAll(ctx, rest, some)
		sort.SliceStable(promoted, func(i, j int) bool {
			return rank[promoted[i].place()] < rank[promoted[j].place()]
		})
		found = append(found, promoted...)
	}
	if len(found) > 0 {
		err = nil // the next call meets it
	}
	return found, err
}

func (d *Delivery) place() place { return place{d.Receipt.Shard, d.ID, d.Group} }

// askAll reserves the ready messages of some shards, up to the maximum. A shard that gave its whole share is asked again.
func (c *Client) askAll(ctx context.Context, ask Reserve, shards []int) (found []*Delivery, err error) {
	for max := ask.Max; err == nil && len(shards) > 0 && len(found) < max; {
		ask.Max = max - len(found)
		some := shards
		if len(some) > ask.Max {
			some = some[:ask.Max]
		}
		var got []*Delivery
		got, err = c.ask(ctx, ask, some, nil)
		given := map[int]int{}
		for _, one := range got {
			given[one.Receipt.Shard]++
		}
		shards, found = append([]int(nil), shards[len(some):]...), append(found, got...)
		for i, shard := range some {
			if given[shard] >= (ask.Max-i+len(some)-1)/len(some) {
				shards = append(shards, shard)
			}
		}
	}
	return found, err
}

// promoteEarliest promotes delayed messages of a topic due until a time, until `room` messages are ready: ready messages that are
// not handed out, as of a paused topic, leave no room for others. It returns the promoted in the order of due times; a concurrent
// change may promote others in the same shards instead, and never more.
func (c *Client) promoteEarliest(ctx context.Context, topic string, until time.Time, room int) ([]place, error) {
	reply, err := c.one(ctx, "overview", 0, 0)
	if err != nil {
		return nil, err
	}
	due := Range{From: time.UnixMilli(reply[0].(int64)/1000 + 1), To: until} // what is due now belongs to the timer
	if due.From.After(until) {
		return nil, nil
	}
	numbers, err := c.Topic(topic).Count(ctx)
	if room -= int(numbers.Ready); err != nil || room <= 0 {
		return nil, err
	}
	order, err := c.earliest(ctx, topic, due, room)
	shares := map[int]int64{}
	for _, one := range order {
		shares[one.shard]++
	}
	var promoted, kept int64
	for shard, share := range shares {
		if err == nil {
			err = c.inSteps(ctx, "promote", shard, [2]any{topic, ""}, due, promotedAtOnce, share, &promoted, &kept)
		}
	}
	return order, err
}

// earliest returns the places of the delayed messages that are due first, up to `room`. It reads the first messages of each shard,
// and further ones of the shards whose messages are due before those of the others.
func (c *Client) earliest(ctx context.Context, topic string, due Range, room int) (order []place, err error) {
	var heads []*dues
	err = c.Topic(topic).everyShard(ctx, func(shard int) error {
		one := &dues{client: c, topic: topic, shard: shard, most: room, mark: ""}
		one.after, one.to = due.millis()
		heads = append(heads, one)
		return one.fill(ctx)
	})
	for err == nil && len(order) < room {
		var next *dues
		for _, one := range heads {
			if len(one.page) > 0 && (next == nil || one.page[0].Due.Before(next.page[0].Due)) {
				next = one
			}
		}
		if next == nil {
			break
		}
		order = append(order, place{next.shard, next.page[0].ID, next.page[0].Group})
		next.page = next.page[1:]
		err = next.fill(ctx)
	}
	return order, err
}

// dues are the delayed messages of one shard by due time, read page by page.
type dues struct {
	client *Client
	topic  string
	shard  int
	most   int
	after  any
	mark   any
	to     int64
	page   []*StoredMessage
}

// fill reads the next page if no message is left of the last one.
func (d *dues) fill(ctx context.Context) error {
	for len(d.page) == 0 && d.after != "" {
		limit := duesAtOnce
		if d.most < limit {
			limit = d.most
		}
		reply, err := d.client.one(ctx, "list", d.shard, d.topic, string(Delayed), d.after, d.to, "asc", d.mark, limit)
		if err != nil {
			return err
		}
		d.after, d.mark = reply[1], reply[2]
		for items := reply[3:]; len(items) > 0; items = items[2:] {
			if one := storedMessage(d.shard, d.topic, items[0].(string), items[1].(string)); one.Unreadable == nil {
				d.page = append(d.page, one)
			}
		}
	}
	return nil
}
