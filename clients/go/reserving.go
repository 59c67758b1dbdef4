// Reserving: immediately, or when a shard reports ready messages.

package delayq

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// processName names this process in the history of messages.
var processName = func() string {
	host, _ := os.Hostname()
	program := ""
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	return fmt.Sprintf("%s@%s:%d", program, host, os.Getpid())
}()

// Reserve configures a reserve.
type Reserve struct {
	// Topics in order of priority within each shard.
	Topics []string
	// Max is 1 to 500 messages; 0 means 1.
	Max int
	// Lease is 0 for the topic's lease.
	Lease time.Duration
	// Wait limits the wait for a first message.
	Wait time.Duration
	// PromoteUntil, if given, hands out delayed messages due until then, too, if fewer are ready than Max: the earliest due of
	// all shards, and no more than this call has room for. A call that fails afterwards leaves them ready for every consumer.
	// They are promoted once, before the wait.
	PromoteUntil time.Time
}

// waiters are shared by all waiting calls: the listener, and one watch per list of topics.
type waiters struct {
	mu       sync.Mutex
	watches  map[string]*watch
	shards   int
	end      context.CancelFunc
	isClosed bool
	// followers get the reports of due times.
	followers map[*pumping]bool
}

// ErrClosed is returned by calls after Close.
var ErrClosed = errors.New("the client is closed: make another one")

// Reserve reserves ready messages. If the context ends during the wait, Reserve returns the context's error.
func (c *Client) Reserve(ctx context.Context, ask Reserve) ([]*Delivery, error) {
	if err := ask.check(); err != nil {
		return nil, err
	}
	if !ask.PromoteUntil.IsZero() {
		found, err := c.reserveOrGiveBack(ctx, ask, c.reservePromoting)
		if len(found) > 0 || err != nil || ask.Wait == 0 {
			return found, err
		}
	}
	if ask.Wait == 0 {
		return c.reserveOrGiveBack(ctx, ask, c.reserveNow)
	}
	waiting, end := context.WithTimeout(ctx, ask.Wait)
	defer end()
	found, err := c.reserveWhenReady(waiting, ask)
	if err == nil && len(found) == 0 {
		err = ctx.Err()
	}
	return found, err
}

type reserving func(ctx context.Context, ask Reserve) ([]*Delivery, error)

// reserveOrGiveBack reserves messages, and releases deliveries that arrive after the context has ended.
func (c *Client) reserveOrGiveBack(ctx context.Context, ask Reserve, reserve reserving) ([]*Delivery, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	type reserved struct {
		found []*Delivery
		err   error
	}
	done := make(chan reserved, 1)
	go func() {
		found, err := reserve(detached{ctx}, ask)
		done <- reserved{found, err}
	}()
	select {
	case one := <-done:
		return one.found, one.err
	case <-ctx.Done():
		go func() { c.giveBack((<-done).found) }()
		return nil, ctx.Err()
	}
}

// giveBack releases unclaimed deliveries. If the release fails, the messages return when the leases expire.
func (c *Client) giveBack(found []*Delivery) {
	var left []Receipt
	for _, delivery := range found {
		left = append(left, delivery.Receipt)
	}
	_, _ = c.Release(context.Background(), Release{Delay: Now, KeepAttempt: true}, left...)
}

func (r *Reserve) check() error {
	if r.Max == 0 {
		r.Max = 1
	}
	err := first(checkLease(r.Lease), checkSpan("a wait", r.Wait))
	if r.Max < 0 || r.Max > maxIDsACall {
		err = first(err, InvalidMessage(fmt.Sprintf("Max is %d: 1 to %d", r.Max, maxIDsACall)))
	}
	if at := r.PromoteUntil; !at.IsZero() && (checkTime("", at) != nil || doubtTime("", at) != nil) {
		err = first(err, InvalidMessage(fmt.Sprintf("PromoteUntil is %v: a time from 2001 to 9999", at.UTC())))
	}
	if len(r.Topics) == 0 {
		err = first(err, InvalidMessage("no topic to reserve from"))
	}
	for _, topic := range r.Topics {
		err = first(err, checkName("topic", topic))
	}
	return err
}

// reserveNow reserves ready messages, starting one shard later each time, from as many shards at once as messages wanted. A
// failed node of several Redises is skipped.
func (c *Client) reserveNow(ctx context.Context, ask Reserve) ([]*Delivery, error) {
	shards, err := c.shards(ctx)
	if err != nil {
		return nil, err
	}
	turn := int(c.turn.Add(1) % (1 << 16))
	failed := map[string]bool{}
	for asked := 0; asked < shards; asked += ask.Max {
		parts := map[string][]int{}
		for n := asked; n < shards && n < asked+ask.Max; n++ {
			shard := (turn + n) % shards
			parts[c.nodeName(shard)] = append(parts[c.nodeName(shard)], shard)
		}
		for node, some := range parts {
			if failed[node] {
				continue
			}
			found, fault := c.ask(ctx, ask, some, nil)
			if len(found) > 0 {
				return found, nil
			}
			err, failed[node] = first(err, fault), fault != nil
		}
	}
	return nil, err
}

// reserveWhenReady reserves as soon as a message is ready, until the context ends. Messages already reserved are still
// returned.
func (c *Client) reserveWhenReady(ctx context.Context, ask Reserve) ([]*Delivery, error) {
	calls := detached{ctx}
	shards, err := c.shards(calls)
	if err != nil {
		return nil, err
	}
	watch := c.waiters.enter(ask.Topics, shards, c.pollInterval)
	defer c.waiters.leave(watch)
	for {
		if shards, err = c.shards(calls); err == nil {
			err = c.listen(shards)
		}
		if err != nil {
			return nil, err
		}
		if found, err := watch.kept(ask.Max, ask.Lease); len(found) > 0 || err != nil && c.rounds.fault() != nil {
			return found, err // not a silence that is over
		}
		due := watch.take(shards, ask.Max)
		if len(due) > 0 {
			if found, err := c.askEach(calls, ask, due, watch); len(found) > 0 || err != nil {
				return found, err
			}
			continue
		}
		if ctx.Err() != nil {
			return nil, c.rounds.fault()
		}
		watch.wait(ctx, ask.Lease)
	}
}

// detached keeps the values of a context without the deadline: an interrupted reserve would leave messages leased.
type detached struct{ values context.Context }

func (detached) Deadline() (time.Time, bool) { return time.Time{}, false }
func (detached) Done() <-chan struct{}       { return nil }
func (detached) Err() error                  { return nil }
func (d detached) Value(key any) any         { return d.values.Value(key) }

func (c *Client) listen(shards int) error {
	w := &c.waiters
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isClosed {
		return ErrClosed
	}
	if w.shards < shards {
		if w.end != nil {
			w.end()
		}
		var ctx context.Context
		ctx, w.end = context.WithCancel(context.Background())
		w.shards = shards
		channel := func(shard int) string { return c.key(shard, readyKey) }
		listener := listener{redis: c.redis, channel: channel, notify: w.notify, shards: shards, pingAfter: c.pingAfter, woken: w.woken,
			topics: w.topics, workers: func(topic string) string { return c.key(0, workersKey+topic) }, doubt: c.silences.doubt}
		if len(w.followers) > 0 {
			listener.wake = func(shard int) string { return c.key(shard, wakeKey) }
		}
		go listener.run(ctx)
	}
	return nil
}

// followDue also reports the due times of all shards, from now on: a sooner one, "free", or 0 where reports may be lost.
func (c *Client) followDue(p *pumping, shards int) error {
	w := &c.waiters
	w.mu.Lock()
	isFirst := len(w.followers) == 0
	if isFirst {
		w.followers = map[*pumping]bool{}
	}
	w.followers[p] = true
	w.mu.Unlock()
	if isFirst {
		w.listenAgain()
	}
	return c.listen(shards)
}

func (w *waiters) unfollow(p *pumping) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.followers, p)
}

func (w *waiters) woken(shard int, report string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.followers {
		p.woken(shard, report)
	}
}

// listenAgain restarts listening with the next waiting call, after a shard has moved.
func (w *waiters) listenAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end != nil {
		w.end()
		w.end = nil
	}
	w.shards = 0
}

// enter returns the watch of the topics, and drops watches that have been idle for long.
func (w *waiters) enter(topics []string, shards int, pollInterval time.Duration) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := strings.Join(topics, " ")
	if w.watches[key] == nil {
		if w.watches == nil {
			w.watches = map[string]*watch{}
		}
		for key, watch := range w.watches {
			if watch.waiting == 0 && time.Since(watch.idle) > linger {
				delete(w.watches, key)
			}
		}
		w.watches[key] = newWatch(topics, pollInterval, shards)
	}
	w.watches[key].waiting++
	return w.watches[key]
}

func (w *waiters) leave(watch *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	watch.waiting--
	watch.idle = time.Now()
}

func (w *waiters) notify(shard int, topic string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watch := range w.watches {
		watch.notify(shard, topic, 0)
	}
}

// topics returns the topics that callers wait for.
func (w *waiters) topics() (topics []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watch := range w.watches {
		topics = append(topics, watch.topics...)
	}
	return topics
}

func (w *waiters) closed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isClosed
}

func (w *waiters) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.end != nil {
		w.end()
	}
	w.isClosed = true
}

// ask reserves from several shards at once, and notes in the watch which shards may have more, and when.
func (c *Client) ask(ctx context.Context, ask Reserve, shards []int, watch *watch) (found []*Delivery, err error) {
	calls := make([]call, len(shards))
	for i, shard := range shards {
		part := (ask.Max - i + len(shards) - 1) / len(shards)
		args := []any{part, 0, millis(ask.Lease)}
		for _, topic := range ask.Topics {
			args = append(args, topic)
		}
		args = append(args, "by="+processName)
		calls[i] = call{verb: "reserve", shard: shard, args: args}
	}
	sent := time.Now()
	for i, answer := range c.send(ctx, c.layout.Load(), "", calls) {
		shard, part := shards[i], calls[i].args[0].(int)
		if answer.reply == nil { // an error, or another layout
			err = first(err, answer.err)
			pause := rest // so that those of other nodes do not wait for it
			if answer.err == nil {
				pause = 0
			}
			watch.again(shard, pause)
			continue
		}
		some, fault := c.deliveries(ctx, ask, shard, answer.reply, sent)
		err = first(err, fault)
		found = append(found, some...)
		if wait, is := answer.reply[1].(int64); is || len(some) >= part {
			watch.again(shard, time.Duration(wait)*time.Millisecond)
		}
	}
	if len(found) > 0 {
		err = nil // the shard that has failed is asked again
	}
	return found, err
}

// deliveries decodes the answer of a reserve. Unreadable messages are buried, so that the queue moves on.
func (c *Client) deliveries(ctx context.Context, ask Reserve, shard int, reply []any, sent time.Time) (found []*Delivery, err error) {
	now := time.UnixMicro(reply[0].(int64))
	for items := reply[6:]; len(items) > 0; {
		topic, end := ask.Topics[items[0].(int64)-1], time.UnixMilli(items[1].(int64))
		for count := items[2].(int64); count > 0; count-- {
			items = items[3:]
			one := c.delivery(Receipt{shard, items[1].(string)}, topic, end)
			one.Ready = time.UnixMicro(items[0].(int64))
			one.length = end.Sub(now)
			one.ends = sent.Add(one.length)
			if fault := c.readDelivery(ctx, one, items[2].(string)); fault == nil {
				found = append(found, one)
			} else if unreadable, is := fault.(InvalidMessage); is {
				_, fault = c.Bury(ctx, unreadable.Error(), one.Receipt)
				err = first(err, fault)
			} else { // others may be able to read it
				_, _ = c.Release(ctx, Release{Delay: time.Second, KeepAttempt: true}, one.Receipt)
				err = first(err, fault)
			}
		}
		items = items[3:]
	}
	return found, err
}

func (c *Client) delivery(receipt Receipt, topic string, end time.Time) *Delivery {
	done, lost := make(chan struct{}), make(chan struct{})
	return &Delivery{Receipt: receipt, Topic: topic, ID: receipt.id(), LeaseEnd: end, client: c, done: done, lost: lost}
}

// readDelivery reads the envelope from before the reserve, and counts this delivery.
func (c *Client) readDelivery(ctx context.Context, one *Delivery, stored string) (err error) {
	if err = one.read(stored); err != nil {
		return err
	}
	if one.Number++; one.Attempt < 65535 {
		one.Attempt++
	}
	if one.Compressed {
		one.Compressed = false
		one.Payload, err = c.restore(ctx, one.Payload)
	}
	return err
}

func atoi(text string) int {
	number, _ := strconv.Atoi(text)
	return number
}
