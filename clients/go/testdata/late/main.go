// Prints how late messages of a thousand a second reach the handler of a worker that pumps: late URL NAMESPACE COUNT.
package main

import (
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

func main() {
	options := must(delayq.ParseURL(os.Args[1]))
	client, count := must(delayq.New(delayq.Connect(options), os.Args[2])), must(strconv.Atoi(os.Args[3]))
	late := make(chan time.Duration, count)
	handle := func(_ context.Context, delivery *delayq.Delivery) error {
		late <- time.Since(delivery.Due)
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- delayq.Worker{Client: client, Topics: []string{"late"}, Handle: handle, Concurrency: 64, Pump: true}.Run(ctx)
	}()
	messages, first := make([]delayq.Message, count), time.Now().Add(2*time.Second).Truncate(time.Millisecond)
	for n := range messages {
		due := first.Add(time.Duration(n) * time.Millisecond)
		messages[n] = delayq.Message{Topic: "late", ID: fmt.Sprint("late-", due.UnixMilli()), Payload: []byte("x"), Due: delayq.At(due)}
	}
	must(client.PutMany(ctx, messages))
	all := make([]time.Duration, count)
	for n := range all {
		all[n] = <-late
	}
	stop()
	if err := <-ended; err != nil {
		panic(err)
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	ms := func(part int) float64 { return all[count*part/100].Seconds() * 1000 }
	fmt.Printf("Go      %d messages, p50 %.2f ms, p99 %.2f ms\n", count, ms(50), ms(99))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
