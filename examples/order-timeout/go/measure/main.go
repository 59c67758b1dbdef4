// Thousands a second: `go run ./measure delayq 20000`, `grouped` (delayq, with a thousand groups) or `asynq`. 64 callers put
// timeouts an hour ahead, each in a separate call; then a worker with 64 handlers works on as many due timeouts.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
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
	put  func(n int64, after time.Duration) error
	work func(ctx context.Context, handled func())
}

func main() {
	name := os.Args[1]
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	var measured library
	switch name {
	case "delayq":
		measured = ofDelayq(func(int64) string { return "" })
	case "grouped":
		measured = ofDelayq(func(n int64) string { return fmt.Sprintf("user-%d", n%1000) })
	case "asynq":
		measured = ofAsynq()
	}
	began := time.Now()
	putAll(measured, count, time.Hour)
	fmt.Printf("%s: put %.0f/s\n", name, float64(count)/time.Since(began).Seconds())
	putAll(measured, count, 0)
	ctx, stop := context.WithCancel(context.Background())
	var handled atomic.Int64
	began = time.Now()
	go measured.work(ctx, func() {
		if handled.Add(1) == int64(count) {
			stop()
		}
	})
	<-ctx.Done()
	fmt.Printf("%s: work %.0f/s\n", name, float64(count)/time.Since(began).Seconds())
}

func ofDelayq(groupOf func(n int64) string) library {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	check(err)
	client, err := delayq.New(redis.NewClient(options), "dq")
	check(err)
	return library{
		put: func(n int64, after time.Duration) error {
			message := delayq.Message{Topic: "timeouts", ID: idOf(n, after), Group: groupOf(n), Payload: []byte("{}"), Due: delayq.After(after)}
			_, err := client.Put(context.Background(), message)
			return err
		},
		work: func(ctx context.Context, handled func()) {
			handle := func(context.Context, *delayq.Delivery) error { handled(); return nil }
			_ = (&delayq.Worker{Client: client, Topics: []string{"timeouts"}, Concurrency: 64, Pump: true, Handle: handle}).Run(ctx)
		},
	}
}

func ofAsynq() library {
	options, err := asynq.ParseRedisURI(os.Getenv("REDIS_URL"))
	check(err)
	client := asynq.NewClient(options)
	return library{
		put: func(n int64, after time.Duration) error {
			_, err := client.Enqueue(asynq.NewTask("timeout", []byte("{}")), asynq.TaskID(idOf(n, after)), asynq.ProcessIn(after))
			return err
		},
		work: func(ctx context.Context, handled func()) {
			server := asynq.NewServer(options, asynq.Config{Concurrency: 64, LogLevel: asynq.ErrorLevel})
			check(server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { handled(); return nil })))
		},
	}
}

func putAll(measured library, count int, after time.Duration) {
	var next atomic.Int64
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for n := next.Add(1); n <= int64(count); n = next.Add(1) {
				check(measured.put(n, after))
			}
		})
	}
	callers.Wait()
}

func idOf(n int64, after time.Duration) string { return fmt.Sprintf("order-%d-%d", after, n) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
