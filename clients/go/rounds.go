// Round trips of waiting reserves, one per node, so that messages of a fast node do not wait for a slow node.

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

// slowNode is asked for one message at a time, in the background.
type slowNode struct {
	// underWay counts background round trips.
	underWay int
	fault    error
	// waiting are the shards to ask after the next answer.
	waiting map[waitingShard]bool
}

type waitingShard struct {
	watch *watch
	shard int
}

type round struct {
	node  string
	lease time.Duration
	done  chan struct{}
	found []*Delivery
	err   error
}

// askEach asks every node, and waits briefly for all answers. A late answer is kept in the watch for the next waiting call.
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

// byNode groups shards by node; "" if the node is unknown.
func (c *Client) byNode(ctx context.Context, shards []int) map[string][]int {
	parts := map[string][]int{}
	for _, shard := range shards {
		name := c.nodeName(shard)
		if _, is := c.redis.(*redis.ClusterClient); is {
			if node, err := nodeOf(ctx, c.redis, c.key(shard, metaKey)); err == nil {
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

func (c *Client) late(one *round, watch *watch) {
	<-one.done
	c.keep(one.found, one.lease, c.rounds.end(one.node, 1, one.err), watch)
}

// keep stores deliveries, or an error, for the next waiting call, and releases unclaimed deliveries soon after.
func (c *Client) keep(found []*Delivery, lease time.Duration, fault error, watch *watch) {
	if len(found) == 0 && fault == nil {
		return
	}
	watch.keep(found, lease, fault)
	time.AfterFunc(rest, func() {
		c.giveBack(watch.clear(found))
	})
}

// begin returns the shards to ask now: all shards of a fast node, at most one of a slow node.
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

// leave moves a round trip to the background.
func (r *rounds) leave(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(node).underWay++
}

// end records the end of a round trip, and returns the error unless the silence is already known.
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

// isSilence reports whether a connection failed, as opposed to an answer of Redis.
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

// fault returns the error of a silent node; nil if all nodes answer.
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
