// Which shards may have something for the calls that wait for the same topics with the same lease.

package delayq

import (
	"context"
	"sync"
	"time"
)

// maxPolls are the most polls until each shard had its turn.
const maxPolls = 64

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
	found []*Delivery
	fault error
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

// keep keeps deliveries, or why there are none, for the next call.
func (w *watch) keep(found []*Delivery, fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found, w.fault = append(w.found, found...), first(w.fault, fault)
	w.wake()
}

// kept takes what was kept: at most max deliveries, or the fault where there are none.
func (w *watch) kept(max int) (found []*Delivery, fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.found) == 0 {
		fault, w.fault = w.fault, nil
		return nil, fault
	}
	if max > len(w.found) {
		max = len(w.found)
	}
	found, w.found = w.found[:max:max], w.found[max:] // a caller may append to it
	return found, nil
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
	var others []*Delivery
	for _, one := range w.found {
		if these[one] {
			left = append(left, one)
		} else {
			others = append(others, one)
		}
	}
	w.found = others
	return left
}

// wait waits for a notification, the time of a shard, the next poll or the context's end, whichever is first.
func (w *watch) wait(ctx context.Context) {
	w.mu.Lock()
	next, changed := w.pollAt, w.changed
	if len(w.found) > 0 || w.fault != nil {
		next = time.Time{}
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
