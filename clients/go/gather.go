// Batching: calls that arrive during a flight share the next flight.

package delayq

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Limits of a batch, and of batches in flight.
const gatherItems, gatherBytes, gatherInFlight = 500, 1 << 20, 4

type gatherer struct {
	send func(verb string, items []*item)
	// batch counts batches; messages of a batch share a shard.
	batch atomic.Uint32

	mu       sync.Mutex
	waiting  []*gathered
	underWay int
}

type gathered struct {
	verb    string
	item    *item
	outcome Outcome
	err     error
	done    chan struct{}
}

// add runs a verb for one item in a batch. If the context ends first, the item is not sent. If the context ends in flight, left
// closes after the item.
func (g *gatherer) add(ctx context.Context, verb string, one *item) (outcome Outcome, left <-chan struct{}, err error) {
	entry := &gathered{verb: verb, item: one, done: make(chan struct{})}
	unanswered := Outcome{Word: Unanswered, ID: one.outcome.ID}
	if ctx.Err() != nil {
		return unanswered, nil, ctx.Err()
	}
	g.mu.Lock()
	g.waiting = append(g.waiting, entry)
	start := g.underWay < gatherInFlight
	if start {
		g.underWay++
	}
	g.mu.Unlock()
	if start {
		go g.run()
	}
	select {
	case <-entry.done:
		return entry.outcome, nil, entry.err
	case <-ctx.Done():
		if g.remove(entry) {
			return unanswered, nil, ctx.Err()
		}
		return unanswered, entry.done, ctx.Err()
	}
}

// remove reports whether the entry was still queued.
func (g *gatherer) remove(entry *gathered) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n, one := range g.waiting {
		if one == entry {
			g.waiting = append(append([]*gathered{}, g.waiting[:n]...), g.waiting[n+1:]...)
			return true
		}
	}
	return false
}

// run sends batches until the queue is empty.
func (g *gatherer) run() {
	for {
		runtime.Gosched() // callers that can run already go along
		batch := g.take()
		if len(batch) == 0 {
			return
		}
		g.batch.Add(1)
		for _, verb := range verbsOf(batch) {
			g.settle(verb, batch)
		}
	}
}

func (g *gatherer) take() (batch []*gathered) {
	g.mu.Lock()
	defer g.mu.Unlock()
	count, bytes := 0, 0
	for _, one := range g.waiting {
		bytes += one.item.bytes
		if count > 0 && (count == gatherItems || bytes > gatherBytes) {
			break
		}
		count++
	}
	batch, g.waiting = g.waiting[:count:count], g.waiting[count:]
	if count == 0 {
		g.underWay--
	}
	return batch
}

func verbsOf(batch []*gathered) (verbs []string) {
	seen := map[string]bool{}
	for _, one := range batch {
		if !seen[one.verb] {
			seen[one.verb], verbs = true, append(verbs, one.verb)
		}
	}
	return verbs
}

func (g *gatherer) settle(verb string, batch []*gathered) {
	var entries []*gathered
	var items []*item
	for _, one := range batch {
		if one.verb == verb {
			entries, items = append(entries, one), append(items, one.item)
		}
	}
	g.send(verb, items)
	for _, one := range entries {
		one.outcome, one.err = one.item.outcome, one.item.fault
		close(one.done)
	}
}
