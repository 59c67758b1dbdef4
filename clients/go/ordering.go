// The order of writes of one message: a cancel that is called after a put finds what that put has stored.

package delayq

import (
	"context"
	"sync"
)

// ordering has the writes that are under way, by the messages that they are of: what is closed when the last one has ended.
type ordering struct {
	mu   sync.Mutex
	last map[string]chan struct{}
}

// begin waits until all writes of the same messages that began before have ended, or for the end of the context. The caller
// calls end once its own has ended, whether somebody waits for it or not.
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

// register makes this write the last one of its messages, and gives those before it.
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
