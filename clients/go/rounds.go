// Round trips of reserves that wait: one to each node of a cluster, or of several Redises, so that what one has reserved does not wait for
// another's answer.

package delayq

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// rounds are the nodes that do not answer in time.
type rounds struct {
	mu   sync.Mutex
	slow map[string]*slowNode
}

// slowNode is asked for a single message at a time, by nobody who waits for it.
type slowNode struct {
	// underWay are the round trips that nobody waits for.
	underWay int
	// fault is why the last one was not answered.
	fault error
	// waiting are the shards to ask once one has ended.
	waiting map[waitingShard]bool
}

type waitingShard struct {
	watch *watch
	shard int
}

// round is one round trip to a node.
type round struct {
	node  string
	lease time.Duration
	done  chan struct{}
	found []*Delivery
	err   error
}

// askEach asks the node of each shard by itself, and waits a little for all of them. What comes later is kept in the
// watch, for a caller who waits.
func (c *Client) askEach(ctx context.Context, ask Reserve, shards []int, watch *watch) (found []*Delivery, err error) {
	switch c.redis.(type) {
	case *redis.ClusterClient, *several:
	default:
		return c.ask(ctx, ask, shards, watch)
	}
	var awaited []*round
	for node, some := range c.byNode(ctx, shards) {
		part := ask
		part.Max = ask.Max * len(some) / len(shards) // at least 1 for each shard
		now, isSlow := c.rounds.begin(node, some, watch)
		switch {
		case isSlow && len(now) > 0:
			part.Max = 1
			go c.late(c.round(ctx, part, node, now, watch), watch)
		case !isSlow:
			awaited = append(awaited, c.round(ctx, part, node, now, watch))
		}
	}
	patience, end := context.WithTimeout(context.Background(), rest)
	defer end()
	for _, one := range awaited {
		select {
		case <-one.done:
			found, err = append(found, one.found...), first(err, c.rounds.end(one.node, 0, one.err))
		case <-patience.Done():
			c.rounds.leave(one.node)
			go c.late(one, watch)
		}
	}
	if len(found) > 0 { // the next call returns the error, unless it was a silence that is over
		c.keep(nil, ask.Lease, err, watch)
		err = nil
	}
	return found, err
}

// byNode parts shards by the nodes that have them. That of a shard whose node is not known is empty.
func (c *Client) byNode(ctx context.Context, shards []int) map[string][]int {
	parts := map[string][]int{}
	for _, shard := range shards {
		name := c.nodeName(shard)
		if _, is := c.redis.(*redis.ClusterClient); is {
			if node, err := nodeOf(ctx, c.redis, c.key(shard, "meta")); err == nil {
				name = node.(*redis.Client).Options().Addr
			}
		}
		parts[name] = append(parts[name], shard)
	}
	return parts
}

func (c *Client) round(ctx context.Context, ask Reserve, node string, shards []int, watch *watch) *round {
	one := &round{node: node, lease: ask.Lease, done: make(chan struct{})}
	go func() {
		defer close(one.done)
		one.found, one.err = c.ask(ctx, ask, shards, watch)
	}()
	return one
}

// late keeps what comes of a round trip.
func (c *Client) late(one *round, watch *watch) {
	<-one.done
	c.keep(one.found, one.lease, c.rounds.end(one.node, 1, one.err), watch)
}

// keep keeps deliveries, or why there are none, for a caller who waits, and gives back what nobody takes soon.
func (c *Client) keep(found []*Delivery, lease time.Duration, fault error, watch *watch) {
	if len(found) == 0 && fault == nil {
		return
	}
	watch.keep(found, lease, fault)
	time.AfterFunc(rest, func() {
		c.giveBack(watch.clear(found))
	})
}

// begin says which of these shards to ask of a node now. A slow one is asked for one at a time; the others wait.
func (r *rounds) begin(node string, shards []int, watch *watch) (now []int, isSlow bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slow := r.slow[node]
	if slow == nil {
		return shards, false
	}
	if slow.underWay == 0 {
		slow.underWay, now, shards = 1, shards[:1], shards[1:]
	}
	for _, shard := range shards {
		slow.waiting[waitingShard{watch, shard}] = true
	}
	return now, true
}

// leave notes that a round trip is not waited for any more.
func (r *rounds) leave(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(node).underWay++
}

// end ends a round trip, which was left or not, and hands back its error unless that is a silence which is known.
func (r *rounds) end(node string, left int, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	slow, pause := r.slow[node], time.Duration(0)
	if isSilence(err) {
		slow, pause = r.of(node), rest
	}
	if slow == nil {
		return err
	}
	slow.underWay -= left
	for one := range slow.waiting {
		one.watch.again(one.shard, pause)
		delete(slow.waiting, one)
	}
	if pause > 0 {
		known := slow.fault != nil
		if slow.fault = err; known {
			return nil
		}
		return err
	}
	if slow.fault = nil; slow.underWay == 0 {
		delete(r.slow, node)
	}
	return err
}

// isSilence says whether an error is none of Redis's own answers.
func isSilence(err error) bool {
	var broken net.Error
	return errors.As(err, &broken) || errors.Is(err, io.EOF)
}

func (r *rounds) of(node string) *slowNode {
	if r.slow == nil {
		r.slow = map[string]*slowNode{}
	}
	if r.slow[node] == nil {
		r.slow[node] = &slowNode{waiting: map[waitingShard]bool{}}
	}
	return r.slow[node]
}

// fault is why a node is silent; nil where none is.
func (r *rounds) fault() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, slow := range r.slow {
		if slow.fault != nil {
			return slow.fault
		}
	}
	return nil
}
