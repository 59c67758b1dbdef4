// Orders that are not paid in time, with asynq: `go run ./asynq worker`, then `go run ./asynq shop`.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
)

func place(client *asynq.Client, order, placed string, after time.Duration) error {
	_, err := client.Enqueue(asynq.NewTask("timeout", []byte(placed)), asynq.TaskID(order), asynq.ProcessIn(after), asynq.MaxRetry(16))
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil // placed before
	}
	return err
}

func timeOut(ctx context.Context, task *asynq.Task) error {
	placed, err := strconv.ParseInt(string(task.Payload()), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
	}
	order, _ := asynq.GetTaskID(ctx)
	fmt.Printf("%s was not paid within %d ms\n", order, time.Now().UnixMilli()-placed)
	return nil
}

func main() {
	options, err := asynq.ParseRedisURI(os.Getenv("REDIS_URL"))
	check(err)
	if os.Args[1] == "worker" {
		server := asynq.NewServer(options, asynq.Config{Concurrency: 10, DelayedTaskCheckInterval: time.Second})
		check(server.Run(asynq.HandlerFunc(timeOut)))
		return
	}
	client, inspector := asynq.NewClient(options), asynq.NewInspector(options)
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	for _, order := range []string{"order-1", "order-2", "order-3", "order-1"} {
		check(place(client, order, now, 2*time.Second))
	}
	check(inspector.DeleteTask("default", "order-2"))
	// Two steps: a crash between them loses the timeout.
	check(inspector.DeleteTask("default", "order-3"))
	check(place(client, "order-3", now, 4*time.Second))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
