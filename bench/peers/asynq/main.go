// The rows of compare.py for asynq: asynq REDIS_PORT ROW COUNT IDS (own or generated) BYTES
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

type order struct {
	Order int    `json:"order"`
	Text  string `json:"text"`
	DueMs int64  `json:"due,omitempty"`
}

type bench struct {
	option asynq.RedisClientOpt
	client *asynq.Client
	redis  *redis.Client
	count  int
	bytes  int
}

func main() {
	count, err := strconv.Atoi(os.Args[3])
	check(err)
	bytes, err := strconv.Atoi(os.Args[5])
	check(err)
	address := "127.0.0.1:" + os.Args[1]
	b := &bench{
		option: asynq.RedisClientOpt{Addr: address, PoolSize: 80},
		redis:  redis.NewClient(&redis.Options{Addr: address}),
		count:  count,
		bytes:  bytes,
	}
	b.client = asynq.NewClient(b.option)
	rows := map[string]func() map[string]float64{
		// asynq has no call for many: 64 callers are the most that it can do in bulk.
		"put_bulk":   func() map[string]float64 { return map[string]float64{"put_bulk": b.put()} },
		"put_single": func() map[string]float64 { return map[string]float64{"put_single": b.put()} },
		"memory":     b.memory, "storm": b.storm, "lateness": b.lateness, "take": b.take,
	}
	check(json.NewEncoder(os.Stdout).Encode(rows[os.Args[2]]()))
}

func (b *bench) task(n int, due time.Time) *asynq.Task {
	text := strings.Repeat("x", b.bytes-22-len(strconv.Itoa(n)))
	stamp := int64(0)
	if os.Args[2] == "lateness" {
		stamp = due.UnixMilli()
	}
	payload, err := json.Marshal(order{n, text, stamp})
	check(err)
	return asynq.NewTask("order", payload)
}

func (b *bench) options(n int, due time.Time) []asynq.Option {
	options := []asynq.Option{asynq.ProcessAt(due)}
	if os.Args[4] == "own" {
		options = append(options, asynq.TaskID("order-"+strconv.Itoa(n)))
	}
	return options
}

// fill puts count tasks by 64 callers.
func (b *bench) fill(due func(n int) time.Time) {
	var callers sync.WaitGroup
	var next atomic.Int64
	for range 64 {
		callers.Go(func() {
			for n := int(next.Add(1)) - 1; n < b.count; n = int(next.Add(1)) - 1 {
				_, err := b.client.Enqueue(b.task(n, due(n)), b.options(n, due(n))...)
				check(err)
			}
		})
	}
	callers.Wait()
}

func (b *bench) put() float64 {
	start := time.Now()
	due := start.Add(time.Hour)
	b.fill(func(int) time.Time { return due })
	return float64(b.count) / time.Since(start).Seconds()
}

// memory fills; bytes are counted by who asks.
func (b *bench) memory() map[string]float64 {
	start := time.Now().Add(time.Hour)
	b.fill(func(n int) time.Time { return start.Add(time.Duration(n) * 10 * time.Millisecond) })
	return map[string]float64{}
}

func (b *bench) storm() map[string]float64 {
	due := time.Now().Add(10 * time.Second).Truncate(time.Second)
	b.fill(func(int) time.Time { return due })
	server := b.serve(1, func(context.Context, *asynq.Task) error { select {} })
	defer server.Stop()
	time.Sleep(time.Until(due))
	for b.redis.ZCard(context.Background(), "asynq:{default}:scheduled").Val() > 0 {
		time.Sleep(2 * time.Millisecond)
	}
	return map[string]float64{"storm": time.Since(due).Seconds()}
}

func (b *bench) lateness() map[string]float64 {
	start := time.Now().Add(8 * time.Second)
	dues := make([]time.Time, b.count)
	for n := range dues {
		dues[n] = start.Add(time.Duration(rand.Intn(b.count)) * time.Millisecond)
	}
	b.fill(func(n int) time.Time { return dues[n] })
	type taken struct {
		at   time.Time
		task *asynq.Task
	}
	came := make(chan taken, b.count)
	server := b.serve(64, func(_ context.Context, task *asynq.Task) error {
		came <- taken{time.Now(), task}
		return nil
	})
	all, tasks, early := make([]float64, b.count), make([]*asynq.Task, b.count), 0.0
	for n := range all {
		one := <-came
		tasks[n] = one.task
		all[n] = float64(one.at.Sub(time.UnixMilli(orderOf(one.task).DueMs)).Microseconds()) / 1000
		if all[n] < 0 {
			early++
		}
	}
	server.Shutdown()
	slices.Sort(all)
	at := func(part float64) float64 { return all[min(b.count-1, int(float64(b.count)*part))] }
	return map[string]float64{"p50": at(0.5), "p99": at(0.99), "max": at(1), "early": early, "distinct": distinct(tasks)}
}

func (b *bench) take() map[string]float64 {
	now := time.Now()
	b.fill(func(int) time.Time { return now })
	came := make(chan *asynq.Task, b.count)
	start := time.Now()
	server := b.serve(64, func(_ context.Context, task *asynq.Task) error {
		came <- task
		return nil
	})
	tasks := make([]*asynq.Task, b.count)
	for n := range tasks {
		tasks[n] = <-came
	}
	rate := float64(b.count) / time.Since(start).Seconds()
	server.Shutdown()
	return map[string]float64{"take": rate, "distinct": distinct(tasks)}
}

func orderOf(task *asynq.Task) (got order) {
	check(json.Unmarshal(task.Payload(), &got))
	return got
}

// distinct counts the orders among the tasks.
func distinct(tasks []*asynq.Task) float64 {
	orders := make(map[int]bool, len(tasks))
	for _, task := range tasks {
		orders[orderOf(task).Order] = true
	}
	return float64(len(orders))
}

func (b *bench) serve(concurrency int, handle asynq.HandlerFunc) *asynq.Server {
	server := asynq.NewServer(b.option, asynq.Config{
		Concurrency: concurrency, DelayedTaskCheckInterval: time.Second, LogLevel: asynq.ErrorLevel,
		ShutdownTimeout: time.Millisecond,
	})
	check(server.Start(handle))
	return server
}

func check(err error) {
	if err != nil {
		log.Fatal(fmt.Errorf("asynq: %w", err))
	}
}
