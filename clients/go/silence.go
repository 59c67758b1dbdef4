// Silent connections: open, but without answers.
//
// The pool hands silent connections out one by one, and each costs a call the deadline. So when a call waits long, or a
// listener's connection is silent, all idle connections are pinged, and go-redis closes the silent connections.

package delayq

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Maximum time for a ping.
const patience = time.Second

// Maximum nodes remembered, since nodes of a cluster come and go.
const maxNodes = 64

var errSilent = fmt.Errorf("no reply, nor on a second connection: %w", os.ErrDeadlineExceeded)

type silences struct {
	mu    sync.Mutex
	nodes map[redis.UniversalClient]*silence
}

type silence struct {
	// found closes when a listener finds the node silent.
	found chan struct{}
	// isAsked is true while idle connections are pinged.
	isAsked bool
}

// of requires the mutex.
func (s *silences) of(node redis.UniversalClient) *silence {
	if s.nodes == nil || len(s.nodes) > maxNodes {
		s.nodes = map[redis.UniversalClient]*silence{}
	}
	if s.nodes[node] == nil {
		s.nodes[node] = &silence{found: make(chan struct{})}
	}
	return s.nodes[node]
}

func (s *silences) next(node redis.UniversalClient) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(node).found
}

func (s *silences) doubt(node redis.UniversalClient) {
	s.mu.Lock()
	one := s.of(node)
	close(one.found)
	one.found = make(chan struct{})
	s.mu.Unlock()
	s.ask(node)
}

// ask pings all idle connections of a node, and the pool closes silent connections. Calls meanwhile use other connections.
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

// exchange runs a pipeline until the deadline, and reports whether the pipeline has ended. Halfway to the deadline, the
// pipeline is abandoned if a listener finds the node silent.
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

func (c *Client) deadline(node redis.UniversalClient) time.Duration {
	if client, is := node.(*redis.Client); is && client.Options().ReadTimeout > 0 && client.Options().ReadTimeout < c.Timeout {
		return client.Options().ReadTimeout
	}
	return c.Timeout
}
