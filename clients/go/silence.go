// Connections that no answer comes on any more: nobody says that they are dead.
//
// A pool hands them out one after another, and each costs a call its deadline. So where a call waits for long, or a listener
// finds its own connection silent, all that are idle are asked whether they are there; go-redis closes those that are not.

package delayq

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience is how long a server may take at most to answer whether it is there.
const patience = time.Second

// maxNodes are the most that are remembered: those of a cluster come and go.
const maxNodes = 64

var errSilent = fmt.Errorf("nothing was answered, nor on another connection: %w", os.ErrDeadlineExceeded)

// silences are the nodes that listeners have found silent.
type silences struct {
	mu    sync.Mutex
	nodes map[redis.UniversalClient]*silence
}

type silence struct {
	// found is closed when a listener finds its connection to the node silent.
	found chan struct{}
	// isAsked says that its idle connections are being asked.
	isAsked bool
}

// of is what is known of a node. The caller holds the mutex.
func (s *silences) of(node redis.UniversalClient) *silence {
	if s.nodes == nil || len(s.nodes) > maxNodes {
		s.nodes = map[redis.UniversalClient]*silence{}
	}
	if s.nodes[node] == nil {
		s.nodes[node] = &silence{found: make(chan struct{})}
	}
	return s.nodes[node]
}

// next is closed when a listener finds a node silent from now on.
func (s *silences) next(node redis.UniversalClient) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(node).found
}

// doubt notes that a listener has found a node silent.
func (s *silences) doubt(node redis.UniversalClient) {
	s.mu.Lock()
	one := s.of(node)
	close(one.found)
	one.found = make(chan struct{})
	s.mu.Unlock()
	s.ask(node)
}

// ask has the pool of a node close the idle connections that are silent. While they are asked, calls get others.
func (s *silences) ask(node redis.UniversalClient) {
	client, is := node.(*redis.Client)
	if !is {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.of(node)
	if one.isAsked {
		return
	}
	one.isAsked = true
	ctx, end := context.WithTimeout(context.Background(), patience/2)
	var all sync.WaitGroup
	for n := client.PoolStats().IdleConns; n > 0; n-- {
		all.Add(1)
		go func() {
			defer all.Done()
			_ = once(client).Ping(ctx).Err()
		}()
	}
	go func() {
		all.Wait()
		end()
		s.mu.Lock()
		defer s.mu.Unlock()
		one.isAsked = false
	}()
}

// exchange sends a pipeline that ends by the deadline of its context: whether it has ended. One that is left alone half-way
// is lost, where a listener has found its node silent since it was sent.
func (c *Client) exchange(
	ctx context.Context, node redis.UniversalClient, pipe redis.Pipeliner,
) (fault error, hasEnded bool) {
	done, silent := make(chan error, 1), c.silences.next(node)
	go func() {
		_, err := pipe.Exec(ctx)
		done <- err
	}()
	half := time.NewTimer(c.deadline(node) / 2)
	defer half.Stop()
	select {
	case fault = <-done:
		return fault, true
	case <-half.C:
	}
	c.silences.ask(node)
	select {
	case fault = <-done:
		return fault, true
	case <-silent:
		return errSilent, false
	}
}

// deadline is how long a call of a node takes at most.
func (c *Client) deadline(node redis.UniversalClient) time.Duration {
	if client, is := node.(*redis.Client); is && client.Options().ReadTimeout > 0 && client.Options().ReadTimeout < c.Timeout {
		return client.Options().ReadTimeout
	}
	return c.Timeout
}
