// Orders writes of one message: a cancel, or a change of the group, called after a put finds the message.

package delayq

import (
	"context"
	"sync"
)

// ordering has the writes in flight by message; each channel closes when the write has ended.
type ordering struct {
	mu   sync.Mutex
	last map[string]chan struct{}
}

// begin waits for earlier writes of the same messages, or for the end of the context. The caller must call end after the write,
// even if abandoned.
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

// register adds a write as the last of the messages, and returns the earlier writes.
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

// settled waits for all writes that have begun.
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
