// Thousands a second: `go run ./measure delayq 20000`, `go run ./measure asynq 20000`. 64 callers put timeouts an hour
// ahead, each in a separate call; then a worker with 64 handlers works on as many due timeouts. `go run ./measure delayq late`:
// how long after their due times a waiting worker gets 5,000 timeouts, due a millisecond apart.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// library under test: puts a timeout, and works until the context ends.
type library struct {
	put  func(id string, after time.Duration) error
	work func(ctx context.Context, handled func(id string))
}

func main() {
	name := os.Args[1]
	measured := ofDelayq()
	if name == "asynq" {
		measured = ofAsynq()
	}
	if os.Args[2] == "late" {
		measureLateness(name, measured)
		return
	}
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	measureRates(name, measured, count)
}

func measureRates(name string, measured library, count int) {
	began := time.Now()
	putAll(measured, count, func(int) time.Duration { return time.Hour })
	fmt.Printf("%s: put %.0f/s\n", name, float64(count)/time.Since(began).Seconds())
	putAll(measured, count, func(int) time.Duration { return 0 })
	ctx, stop := context.WithCancel(context.Background())
	var handled atomic.Int64
	began = time.Now()
	go measured.work(ctx, func(string) {
		if handled.Add(1) == int64(count) {
			stop()
		}
	})
	<-ctx.Done()
	fmt.Printf("%s: work %.0f/s\n", name, float64(count)/time.Since(began).Seconds())
}

func measureLateness(name string, measured library) {
	const count = 5000
	first := time.Now().Add(5 * time.Second)
	dues := make([]time.Time, count)
	putAll(measured, count, func(n int) time.Duration {
		dues[n] = first.Add(time.Duration(n) * time.Millisecond).Truncate(time.Millisecond)
		return time.Until(dues[n])
	})
	ctx, stop := context.WithCancel(context.Background())
	waits := make(chan float64, count)
	go measured.work(ctx, func(id string) {
		var n int
		_, err := fmt.Sscanf(id, "order-true-%d", &n)
		check(err)
		waits <- time.Since(dues[n]).Seconds() * 1000
	})
	sorted := make([]float64, count)
	for i := range sorted {
		sorted[i] = <-waits
	}
	stop()
	slices.Sort(sorted)
	at := func(part float64) float64 { return sorted[int(part*(count-1))] }
	fmt.Printf("%s: due -> handler, p50 %.2f ms, p99 %.2f ms, earliest %.2f ms\n", name, at(0.5), at(0.99), at(0))
}

func ofDelayq() library {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	check(err)
	client, err := delayq.New(redis.NewClient(options), "dq")
	check(err)
	return library{
		put: func(id string, after time.Duration) error {
			_, err := client.Put(context.Background(), delayq.Message{Topic: "timeouts", ID: id, Payload: []byte("{}"), Due: delayq.After(after)})
			return err
		},
		work: func(ctx context.Context, handled func(id string)) {
			handle := func(_ context.Context, delivery *delayq.Delivery) error { handled(delivery.ID); return nil }
			_ = (&delayq.Worker{Client: client, Topics: []string{"timeouts"}, Concurrency: 64, Pump: true, Handle: handle}).Run(ctx)
		},
	}
}

func ofAsynq() library {
	options, err := asynq.ParseRedisURI(os.Getenv("REDIS_URL"))
	check(err)
	client := asynq.NewClient(options)
	return library{
		put: func(id string, after time.Duration) error {
			_, err := client.Enqueue(asynq.NewTask("timeout", []byte("{}")), asynq.TaskID(id), asynq.ProcessIn(after))
			return err
		},
		work: func(ctx context.Context, handled func(id string)) {
			server := asynq.NewServer(options, asynq.Config{Concurrency: 64, LogLevel: asynq.ErrorLevel})
			check(server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
				id, _ := asynq.GetTaskID(ctx)
				handled(id)
				return nil
			})))
		},
	}
}

func putAll(measured library, count int, delayOf func(n int) time.Duration) {
	var next atomic.Int64
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for n := int(next.Add(1)) - 1; n < count; n = int(next.Add(1)) - 1 {
				delay := delayOf(n)
				check(measured.put(fmt.Sprintf("order-%t-%d", delay > 0, n), delay))
			}
		})
	}
	callers.Wait()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
