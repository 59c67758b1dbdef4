// Orders the writes of one message: a cancel called after a put finds the stored message, and so does a change of its group.

package delayq

import (
	"context"
	"sync"
)

// ordering has the writes in flight by message; each channel is closed when its write has ended.
type ordering struct {
	mu   sync.Mutex
	last map[string]chan struct{}
}

// begin waits until all earlier writes of the same messages have ended, or until the context ends. The caller calls end when
// its own write has ended, even if its own caller has given up.
func (o *ordering) begin(ctx context.Context, messages ...string) (end func(), err error) {
	mine := make(chan struct{})
	before := o.register(messages, mine)
	end = func() { o.end(messages, mine) }
	for n, earlier := range before {
		select {
		case <-earlier:
		case <-ctx.Done():
			left := before[n:]
			go func() {
				for _, earlier := range left {
					<-earlier
				}
				end()
			}()
			return nil, ctx.Err()
		}
	}
	return end, nil
}

// register adds a write as the last one of its messages, and returns the earlier ones.
func (o *ordering) register(messages []string, mine chan struct{}) (before []chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = map[string]chan struct{}{}
	}
	for _, one := range messages {
		if earlier := o.last[one]; earlier != nil && earlier != mine {
			before = append(before, earlier)
		}
		o.last[one] = mine
	}
	return before
}

// settled waits until all writes that have begun before have ended.
func (o *ordering) settled(ctx context.Context) error {
	o.mu.Lock()
	before := make([]chan struct{}, 0, len(o.last))
	for _, earlier := range o.last {
		before = append(before, earlier)
	}
	o.mu.Unlock()
	for _, earlier := range before {
		select {
		case <-earlier:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (o *ordering) end(messages []string, mine chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range messages {
		if o.last[one] == mine {
			delete(o.last, one)
		}
	}
	close(mine)
}
