// The program that goes through outages (tests/src/bin/client-outages.rs): `outages URL NAME PAUSE_MS`.
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

var ctx = context.Background()

func main() {
	url, name := os.Args[1], os.Args[2]
	pause := must(strconv.Atoi(os.Args[3]))
	busy, source, idle := connect(url), connect(url), connect(url)
	working, end := context.WithCancel(ctx)
	var workers, loading sync.WaitGroup
	work := func(client *delayq.Client, topic string) {
		defer workers.Done()
		worker := delayq.Worker{Client: client, Topics: []string{topic}, Concurrency: 4, Lease: 2 * time.Second, Handle: handle}
		if err := worker.Run(working); err != nil {
			log.Fatal(err)
		}
	}
	workers.Add(2)
	go work(busy, name)
	go work(idle, name+"-idle")
	var isOver atomic.Bool
	loading.Add(1)
	go func() {
		defer loading.Done()
		for n := 0; !isOver.Load(); n++ {
			put(busy, name, fmt.Sprint(name, "-load-", n))
			time.Sleep(time.Duration(pause) * time.Millisecond)
		}
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() != "stop" {
			put(source, name+"-idle", lines.Text())
			continue
		}
		isOver.Store(true)
		loading.Wait()
		fmt.Println("stopped")
	}
	end()
	workers.Wait()
	for _, client := range []*delayq.Client{busy, source, idle} {
		client.Close()
	}
}

func connect(url string) *delayq.Client {
	options := must(delayq.ParseURL(url))
	options.ReadTimeout = 900 * time.Millisecond
	return must(delayq.New(delayq.Connect(options), "dq"))
}

func put(client *delayq.Client, topic, id string) {
	for ; ; time.Sleep(50 * time.Millisecond) {
		put, err := client.Put(ctx, delayq.Message{Topic: topic, ID: id, Payload: []byte(id)})
		if err == nil && put.Accepted() {
			fmt.Println("put", id, time.Now().UnixMilli())
			return
		}
		log.Print(id, ": ", put.Word, " ", err)
	}
}

func handle(_ context.Context, delivery *delayq.Delivery) error {
	fmt.Println("took", delivery.ID, delivery.Number, delivery.Ready.UnixMilli(), string(delivery.Payload))
	time.Sleep(30 * time.Millisecond)
	return nil
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
