// A worker calls a handler for each message and settles the message by the result.

package delayq

import (
	"context"
	"errors"
	"fmt"
	"log"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Handler handles one message. A nil error acks the message and an error releases the message, unless the handler has settled
// the delivery. The context ends when the lease is lost, the message is cancelled, or the worker's deadline passes.
type Handler func(ctx context.Context, delivery *Delivery) error

// Worker passes due messages to a handler.
type Worker struct {
	Client *Client
	Topics []string
	Handle Handler
	// Concurrency limits concurrent handlers: 1 to 10,000, 10 if 0.
	Concurrency int
	// Lease is extended every third of its length while the handler runs; 0 selects the topic's lease.
	Lease time.Duration
	// StopTimeout is how long Run waits for handlers after the context has ended: 10 s if 0.
	StopTimeout time.Duration
	// Pump also pumps due messages, so that no timer is needed. Workers that pump share the shards, and yield to timers.
	Pump bool
	// OnError receives errors, with the message concerned if there is one. If nil, errors are logged.
	OnError func(delivery *Delivery, err error)
}

// Bury marks a message as undeliverable: the message becomes a dead letter, with err as the reason.
func Bury(err error) error { return hopeless{err} }

type hopeless struct{ error }

func (h hopeless) Unwrap() error { return h.error }

func isHopeless(err error) bool {
	never := hopeless{}
	return errors.As(err, &never)
}

// PanicError is the panic of a handler, which fails only the message concerned.
type PanicError struct {
	Value any
	// Stack starts at the panic in the handler.
	Stack string
}

func (e PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the panic value if the value is an error.
func (e PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

var errGone = errors.New("the handler ended its goroutine (runtime.Goexit)")

// Run works until the context ends, across outages of Redis. Then Run stops reserving, waits for handlers, and releases
// unfinished messages at the deadline with the attempt kept; the error counts the messages. Run also ends, with an error, when
// client or connection is closed.
func (w Worker) Run(ctx context.Context) error {
	if w.Concurrency == 0 {
		w.Concurrency = defaultConcurrency
	}
	if w.StopTimeout == 0 {
		w.StopTimeout = 10 * time.Second
	}
	w.OnError = quiet(w.OnError)
	ask := Reserve{Topics: w.Topics, Max: 1, Lease: w.Lease}
	if w.Client == nil || w.Handle == nil {
		return InvalidMessage("a worker needs a Client and a Handle")
	}
	if w.Concurrency < 0 || w.Concurrency > maxConcurrency {
		return InvalidMessage(fmt.Sprintf("Concurrency is %d: 1 to %d", w.Concurrency, maxConcurrency))
	}
	if err := first(checkSpan("a StopTimeout", w.StopTimeout), ask.check()); err != nil {
		return err
	}
	handlers, end := context.WithCancel(detached{ctx})
	defer end()
	run := running{Worker: w, handlers: handlers, slots: make(chan struct{}, w.Concurrency), held: map[*Delivery]bool{}}
	pumped := make(<-chan struct{})
	pumpedUntil, endPump := context.WithCancel(ctx)
	defer endPump()
	if w.Pump {
		pumped = w.Client.pump(pumpedUntil, func(err error) { w.OnError(nil, err) })
	}
	closed := run.take(ctx, ask)
	endPump()
	late := run.stop(end)
	if w.Pump {
		select {
		case <-pumped:
		case <-time.After(giveBackWithin):
		}
	}
	return first(closed, late)
}

// quiet protects a worker from a panic in OnError. If report is nil, errors are logged.
func quiet(report func(*Delivery, error)) func(*Delivery, error) {
	if report == nil {
		return logged
	}
	return func(delivery *Delivery, err error) {
		defer func() {
			if why := recover(); why != nil {
				logged(delivery, err)
				logged(delivery, fmt.Errorf("OnError panicked: %v", why))
			}
		}()
		report(delivery, err)
	}
}

func logged(delivery *Delivery, err error) {
	if delivery == nil {
		log.Printf("delayq: %v", err)
	} else {
		log.Printf("delayq: %s %s: %v", delivery.Topic, delivery.ID, err)
	}
}

type running struct {
	Worker
	handlers context.Context
	slots    chan struct{}

	mu   sync.Mutex
	held map[*Delivery]bool
}

// take reserves a message per free slot until the context ends or the client is closed.
func (r *running) take(ctx context.Context, ask Reserve) error {
	for pause := rest; ctx.Err() == nil; {
		if ask.Max = r.free(ctx); ask.Max == 0 {
			return nil
		}
		found, err := r.Client.reserveWhenReady(ctx, ask)
		for n := len(found); n < ask.Max; n++ {
			<-r.slots
		}
		if ctx.Err() != nil { // nothing more is started
			r.giveBack(found)
			for range found {
				<-r.slots
			}
			return nil
		}
		for _, delivery := range found {
			r.hold(delivery, true)
			go r.work(delivery)
		}
		if err == nil {
			pause = rest
			continue
		}
		r.OnError(nil, err)
		if isClosed(err) {
			return fmt.Errorf("the worker ended: no more messages are handled: %w", err)
		}
		wait(ctx, pause)
		if pause *= 2; pause > maxRest {
			pause = maxRest
		}
	}
	return nil
}

// free waits for a free slot and takes the free slots, as many as a call may ask for; 0 once the context has ended.
func (r *running) free(ctx context.Context) int {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n := 1; n < maxIDsACall; n++ {
		select {
		case r.slots <- struct{}{}:
		default:
			return n
		}
	}
	return maxIDsACall
}

func (r *running) hold(delivery *Delivery, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held {
		r.held[delivery] = true
	} else {
		delete(r.held, delivery)
	}
}

func (r *running) work(delivery *Delivery) {
	defer func() { <-r.slots }()
	defer r.hold(delivery, false)
	go delivery.keepAlive(r.Lease)
	err := r.handle(delivery)
	if err != nil {
		r.OnError(delivery, err)
	}
	if delivery.Settled() {
		return
	}
	settled, lost := delivery.Settle(detached{r.handlers}, err)
	switch {
	case lost != nil:
	case settled.Word == Expired:
		lost = errors.New("the lease expired before settlement: the message will be delivered again")
	case settled.Word == Failed:
		lost = errors.New("cannot settle the message: " + settled.Why)
	case settled.Word == Buried && !isHopeless(err):
		lost = fmt.Errorf("buried after the last attempt, number %d", delivery.Attempt)
	}
	if lost != nil {
		r.OnError(delivery, lost)
	}
}

// handle calls the handler on a separate goroutine, which the handler may end. A panic fails only the message.
func (r *running) handle(delivery *Delivery) error {
	ctx, end := context.WithCancel(r.handlers)
	defer end()
	go func() {
		select {
		case <-delivery.lost:
			end()
		case <-ctx.Done():
		}
	}()
	ended := make(chan error, 1)
	go func() {
		err := errGone
		defer func() {
			if why := recover(); why != nil {
				err = PanicError{why, stackOf(debug.Stack())}
			}
			ended <- err
		}()
		err = r.Handle(ctx, delivery)
	}()
	return <-ended
}

// stackOf drops the frames of the panic itself, since a dead letter has little room.
func stackOf(stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	for n, line := range lines {
		if strings.HasPrefix(line, "panic(") && n+2 < len(lines) {
			return strings.Join(lines[n+2:], "\n")
		}
	}
	return string(stack)
}

// stop waits for handlers, and releases held messages at the deadline.
func (r *running) stop(end context.CancelFunc) error {
	deadline := time.After(r.StopTimeout)
	for n := 0; n < cap(r.slots); n++ {
		select {
		case r.slots <- struct{}{}:
		case <-deadline:
			end()
			late := r.late()
			r.giveBack(late)
			return fmt.Errorf("%d handlers did not finish within %v: their messages were released", len(late), r.StopTimeout)
		}
	}
	return nil
}

func (r *running) late() (late []*Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for delivery := range r.held {
		late = append(late, delivery)
	}
	return late
}

// giveBack releases messages with the attempt kept. Without an answer within a second, messages return when the leases expire.
func (r *running) giveBack(held []*Delivery) {
	ctx, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	var all sync.WaitGroup
	for _, delivery := range held {
		all.Add(1)
		go func(delivery *Delivery) {
			defer all.Done()
			if _, err := delivery.Release(ctx, Release{Delay: Now, KeepAttempt: true}); err != nil {
				r.OnError(delivery, err)
			}
		}(delivery)
	}
	all.Wait()
}
