// Tracks which shards may have ready messages for one list of topics.

package delayq

import (
	"context"
	"sync"
	"time"
)

// Maximum polls for a full round over all shards.
const maxPolls = 64

// How long an unused watch is kept.
const linger = time.Minute

// watch has the shards to ask, each with an earliest time.
type watch struct {
	topics       []string
	pollInterval time.Duration

	mu      sync.Mutex
	open    map[int]time.Time
	polled  int
	pollAt  time.Time
	changed chan struct{}
	// found are deliveries that arrived too late for the caller, fault the last error.
	found []lateDelivery
	fault error

	// waiting counts waiting calls, idle is the end of the last one; guarded by the mutex of waiters.
	waiting int
	idle    time.Time
}

type lateDelivery struct {
	*Delivery
	lease time.Duration
}

// newWatch starts with every shard, since each may have messages.
func newWatch(topics []string, pollInterval time.Duration, shards int) *watch {
	w := &watch{topics: topics, pollInterval: pollInterval, open: map[int]time.Time{}, changed: make(chan struct{})}
	for shard := 0; shard < shards; shard++ {
		w.open[shard] = time.Time{}
	}
	return w
}

// notify schedules a shard, for one topic or, with "", for all topics.
func (w *watch) notify(shard int, topic string, after time.Duration) {
	concerned := topic == ""
	for _, one := range w.topics {
		concerned = concerned || one == topic
	}
	if !concerned {
		return
	}
	at := time.Now().Add(after)
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, is := w.open[shard]; !is || at.Before(known) {
		w.open[shard] = at
		w.wake()
	}
}

func (w *watch) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// again schedules a shard. A nil watch ignores the call.
func (w *watch) again(shard int, after time.Duration) {
	if w != nil {
		w.notify(shard, "", after)
	}
}

// keep stores deliveries or an error for the next call.
func (w *watch) keep(found []*Delivery, lease time.Duration, fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range found {
		w.found = append(w.found, lateDelivery{one, lease})
	}
	w.fault = first(w.fault, fault)
	w.wake()
}

// kept takes at most max deliveries with the same lease, or else the error.
func (w *watch) kept(max int, lease time.Duration) (found []*Delivery, fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found = w.remove(func(one lateDelivery) bool {
		isMeant := one.lease == lease && max > 0
		if isMeant {
			max--
		}
		return isMeant
	})
	if len(found) == 0 {
		fault, w.fault = w.fault, nil
	}
	return found, fault
}

func (w *watch) remove(isMeant func(lateDelivery) bool) (meant []*Delivery) {
	var others []lateDelivery
	for _, one := range w.found {
		if isMeant(one) {
			meant = append(meant, one.Delivery)
		} else {
			others = append(others, one)
		}
	}
	w.found = others
	return meant
}

// take returns at most max due shards, and removes them from the schedule.
func (w *watch) take(shards, max int) (due []int) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.Before(w.pollAt) {
		w.pollAt = now.Add(w.pollInterval)
		for n := 0; n < (shards+maxPolls-1)/maxPolls; n++ {
			w.polled = (w.polled + 1) % shards
			w.open[w.polled] = now
		}
	}
	for shard, at := range w.open {
		if len(due) < max && !at.After(now) {
			delete(w.open, shard)
			due = append(due, shard)
		}
	}
	return due
}

func (w *watch) clear(kept []*Delivery) (left []*Delivery) {
	these := map[*Delivery]bool{}
	for _, one := range kept {
		these[one] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remove(func(one lateDelivery) bool { return these[one.Delivery] })
}

// wait returns at the next scheduled time, on a notification, or when the context ends; at once if something is kept for this
// lease.
func (w *watch) wait(ctx context.Context, lease time.Duration) {
	w.mu.Lock()
	next, changed := w.pollAt, w.changed
	if w.fault != nil {
		next = time.Time{}
	}
	for _, one := range w.found {
		if one.lease == lease {
			next = time.Time{}
		}
	}
	for _, at := range w.open {
		if at.Before(next) {
			next = at
		}
	}
	w.mu.Unlock()
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
	}
}
