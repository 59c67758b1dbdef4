// A worker that pumps, so that messages are delivered on time without a timer.
//
// Workers share the shards by the lock of claim, and yield to timers. The owner of a shard sleeps until the next due time, or
// until the channel wake reports a sooner due time.

package delayq

import (
	"context"
	"fmt"
	"math"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// Maximum ids of the pumps of all shards, and minimum share of a shard.
	maxPumpedIDs, minPumpedIDs = 150, 8
	// Pause between looks at the number of shards, and maximum wait of a stop.
	lookAfter, giveBackWithin = time.Second, time.Second
)

// pumping pumps every shard that no other worker and no timer pumps.
type pumping struct {
	client *Client
	owner  string
	report func(error)

	mu     sync.Mutex
	shards []*pumpedShard
	// failing are nodes with a failed last call.
	failing map[string]bool
}

// pumpedShard is a shard, for the loop that pumps the shard.
type pumpedShard struct {
	number int
	wake   chan struct{}

	mu sync.Mutex
	*shard
}

var began = time.Now()

func monotonic() float64 { return float64(time.Since(began)) / float64(time.Millisecond) }

// pump pumps until the context ends, and then gives every shard back, for other workers to claim at once.
func (c *Client) pump(ctx context.Context, report func(error)) (ended <-chan struct{}) {
	host, _ := os.Hostname()
	p := &pumping{client: c, report: report, failing: map[string]bool{}}
	p.owner = fmt.Sprintf("worker/%s:%d-%08x", host, os.Getpid(), rand.Uint32())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.run(ctx)
	}()
	return done
}

// run starts a loop for each shard, also after a growth.
func (p *pumping) run(ctx context.Context) {
	var loops sync.WaitGroup
	for started := 0; ctx.Err() == nil; wait(ctx, lookAfter) {
		shards, err := p.client.shards(ctx)
		if err == nil {
			err = p.client.followDue(p, shards)
		}
		p.note(ctx, "", err)
		for ; err == nil && started < shards; started++ {
			one := &pumpedShard{number: started, wake: make(chan struct{}, 1), shard: newShard()}
			p.mu.Lock()
			p.shards = append(p.shards, one)
			p.mu.Unlock()
			loops.Add(1)
			go func() {
				defer loops.Done()
				p.loop(ctx, one)
			}()
		}
	}
	p.client.waiters.unfollow(p)
	loops.Wait()
}

func (p *pumping) woken(number int, report string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if number >= len(p.shards) {
		return
	}
	s := p.shards[number]
	s.mu.Lock()
	s.woken(report, monotonic())
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (p *pumping) loop(ctx context.Context, s *pumpedShard) {
	calls := map[string]func(context.Context, *pumpedShard) error{"claim": p.claim, "hold": p.hold, "pump": p.pump}
	for ctx.Err() == nil {
		s.mu.Lock()
		verb, at := s.next(monotonic())
		pause := at - monotonic()
		if pause <= 0 {
			s.sends(verb)
		}
		s.mu.Unlock()
		if pause > 0 {
			timer := time.NewTimer(time.Duration(pause * float64(time.Millisecond)))
			select {
			case <-timer.C:
			case <-s.wake:
			case <-ctx.Done():
			}
			timer.Stop()
			continue
		}
		err := calls[verb](detached{ctx}, s)
		p.note(ctx, p.client.nodeName(s.number), err)
		if err != nil {
			s.mu.Lock()
			s.fail(verb, monotonic())
			s.mu.Unlock()
		}
	}
	if s.isOwned {
		_, err := p.ask(detached{ctx}, s, "claim", 2, p.owner, "free", p.identity())
		p.note(detached{ctx}, p.client.nodeName(s.number), err)
	}
}

// claim claims a shard, or renews the lock.
func (p *pumping) claim(ctx context.Context, s *pumpedShard) error {
	sent := monotonic()
	reply, err := p.ask(ctx, s, "claim", 2, p.owner, lockMs, p.identity())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if reply[0] != "owned" {
		s.own(reply[1].(int64), sent)
		s.woken(fmt.Sprint(reply[4]), sent)
	} else if left, is := reply[5].(int64); is {
		s.lose(monotonic(), afterLock(left))
	} else {
		s.lose(monotonic(), watchAfter)
	}
	return nil
}

// hold keeps due messages delayed while the clock is not trusted, for the next owner too; or ends the hold.
func (p *pumping) hold(ctx context.Context, s *pumpedShard) error {
	word := map[bool]string{true: "on", false: "off"}[s.clock.isJumped]
	reply, err := p.client.one(ctx, "hold", s.number, s.epoch, word)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer(0, word == "on", false, monotonic())
	if strings.HasPrefix(reply[0].(string), "fenced") {
		s.lose(monotonic(), watchAfter)
	}
	return nil
}

func (p *pumping) pump(ctx context.Context, s *pumpedShard) error {
	counts := p.client.layout.Load().counts
	limit := maxPumpedIDs / counts[len(counts)-1]
	if limit < minPumpedIDs {
		limit = minPumpedIDs
	}
	reply, err := p.ask(ctx, s, "pump", 1, s.epoch, limit, s.clock.latestMs(monotonic()), s.mark)
	if err != nil {
		return err
	}
	word, told := strings.Fields(reply[0].(string)), reply[1].(int64)
	due, err := strconv.ParseFloat(reply[2].(string), 64)
	if err != nil {
		due = math.Inf(1)
	}
	if len(word) > 3 {
		p.report(fmt.Errorf("shard %d came back with older data: what changed since %s ms is lost", s.number, word[3]))
	}
	if blocked := reply[8].(int64); blocked > 0 {
		p.report(fmt.Errorf("%d due messages of shard %d cannot be moved: a key has the wrong type", blocked, s.number))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer(due, word[0] == "held", word[0] != "more" && due*1000 <= float64(told), monotonic())
	switch {
	case word[0] == "fenced":
		s.lose(monotonic(), watchAfter)
	case len(word) > 1:
		s.mark = word[1]
	}
	return nil
}

// ask returns the reply of a call. The reply has Redis's time at index at.
func (p *pumping) ask(ctx context.Context, s *pumpedShard, verb string, at int, args ...any) ([]any, error) {
	sent := monotonic()
	reply, err := p.client.one(ctx, verb, s.number, args...)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.clock.hear(reply[at].(int64), sent, monotonic())
	}
	return reply, err
}

func (p *pumping) identity() string {
	if known := p.client.identity.Load(); known != nil {
		return *known
	}
	return ""
}

// note reports the first of several errors of a node.
func (p *pumping) note(ctx context.Context, node string, err error) {
	p.mu.Lock()
	isKnown := p.failing[node]
	p.failing[node] = err != nil
	p.mu.Unlock()
	if err != nil && !isKnown && ctx.Err() == nil {
		p.report(fmt.Errorf("cannot pump; retrying: %w", err))
	}
}
