// Orders that are not paid in time, with delayq: `go run ./delayq worker`, then `go run ./delayq shop`.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
	"github.com/redis/go-redis/v9"
)

func place(ctx context.Context, client *delayq.Client, order, placed string) (delayq.Outcome, error) {
	return client.Put(ctx, delayq.Message{Topic: "timeouts", ID: order, Payload: []byte(placed), Due: delayq.After(2 * time.Second)})
}

func timeOut(_ context.Context, delivery *delayq.Delivery) error {
	placed, err := strconv.ParseInt(string(delivery.Payload), 10, 64)
	if err != nil {
		return delayq.Bury(err)
	}
	fmt.Printf("%s was not paid within %d ms\n", delivery.ID, time.Now().UnixMilli()-placed)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	check(err)
	client, err := delayq.New(redis.NewClient(options), "dq")
	check(err)
	defer client.Close()
	if os.Args[1] == "worker" {
		worker := delayq.Worker{Client: client, Topics: []string{"timeouts"}, Concurrency: 10, Pump: true, Handle: timeOut}
		check(worker.Run(ctx))
		return
	}
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	for _, order := range []string{"order-1", "order-2", "order-3", "order-1"} {
		put, err := place(ctx, client, order, now)
		check(err)
		fmt.Println(order, put.Word)
	}
	paid, err := client.Cancel(ctx, "timeouts", "order-2", "")
	check(err)
	fmt.Println("order-2 paid:", paid.Word)
	extended, err := client.Reschedule(ctx, "timeouts", "order-3", "", delayq.After(4*time.Second))
	check(err)
	fmt.Println("order-3 extended:", extended.Word)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
