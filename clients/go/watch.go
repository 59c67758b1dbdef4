// Which shards may have something for the calls that wait for the same topics.

package delayq

import (
	"context"
	"sync"
	"time"
)

// maxPolls are the most polls until each shard had its turn.
const maxPolls = 64

// linger is how long a watch stays that no call waits by.
const linger = time.Minute

// watch has the shards to ask, each from a time on.
type watch struct {
	topics       []string
	pollInterval time.Duration

	mu      sync.Mutex
	open    map[int]time.Time
	polled  int
	pollAt  time.Time
	changed chan struct{}
	// found is what came too late for the call that asked, and fault why nothing came.
	found []lateDelivery
	fault error

	// waiting are the calls that wait by it, and idle since when there are none; guarded by the client's waiters.
	waiting int
	idle    time.Time
}

// lateDelivery goes to a call that asks for the same lease.
type lateDelivery struct {
	*Delivery
	lease time.Duration
}

// newWatch begins with every shard: each may have something.
func newWatch(topics []string, pollInterval time.Duration, shards int) *watch {
	w := &watch{topics: topics, pollInterval: pollInterval, open: map[int]time.Time{}, changed: make(chan struct{})}
	for shard := 0; shard < shards; shard++ {
		w.open[shard] = time.Time{}
	}
	return w
}

// notify notes that a shard may have something after so long; of a topic, or of any.
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

// again notes that a shard is to be asked again after so long. Without a watch, it does nothing.
func (w *watch) again(shard int, after time.Duration) {
	if w != nil {
		w.notify(shard, "", after)
	}
}

// keep keeps deliveries under a lease, or why there are none, for the next call.
func (w *watch) keep(found []*Delivery, lease time.Duration, fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range found {
		w.found = append(w.found, lateDelivery{one, lease})
	}
	w.fault = first(w.fault, fault)
	w.wake()
}

// kept takes what was kept under a lease: at most max deliveries, or the fault where there are none.
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

// remove takes what was kept and is meant.
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

// take gives the shards to ask now, at most max. They count as asked.
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

// clear takes those of these deliveries that no call has taken.
func (w *watch) clear(kept []*Delivery) (left []*Delivery) {
	these := map[*Delivery]bool{}
	for _, one := range kept {
		these[one] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.remove(func(one lateDelivery) bool { return these[one.Delivery] })
}

// wait waits for a notification, the time of a shard, the next poll or the context's end, whichever is first; not at all
// where something is kept under this lease.
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
