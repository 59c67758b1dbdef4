// Concurrent puts, and refusals before anything is sent.

package delayq

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestPutsOfManyCallersGoTogetherOverOneConnection(t *testing.T) {
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, PoolSize: 1})
	defer connection.Close()
	client, ctx := deployment(t, connection, "gathered", 16), context.Background()
	answers := make([]Outcome, 500)
	puts := func() {
		var all sync.WaitGroup
		for n := range answers {
			all.Add(1)
			go func(n int) {
				defer all.Done()
				answers[n] = must(client.Put(ctx, Message{Topic: "t", ID: fmt.Sprint("m-", n), Due: After(time.Hour)}))
			}(n)
		}
		all.Wait()
	}
	puts()
	commands := commandsDuring(t, connect(t), puts)
	for n, answer := range answers {
		if answer.ID != fmt.Sprint("m-", n) || answer.Word != Exists || answer.State != Delayed {
			t.Fatal(answer)
		}
	}
	if len(commands) > 250 {
		t.Fatal(len(commands), "commands")
	}
}

func TestWhatNoCallCouldMeanIsRefusedByName(t *testing.T) {
	client, ctx := deployment(t, connect(t), "refused", 1), context.Background()
	seconds := time.UnixMilli(1_800_000_000)
	put := func(message Message) func() error {
		message.Topic = "t"
		return func() error {
			_, err := client.Put(ctx, message)
			return err
		}
	}
	for why, call := range map[string]func() error{
		"a due time of 1970-01-21 20:00:00 +0000 UTC, 1800000000 ms since the epoch: if seconds were meant, make it by time.Unix(1800000000, 0)": put(Message{Due: At(seconds)}),
		"a due time of 0001-01-01 00:00:00 +0000 UTC is out of range: 1970 to 287396":                                                            put(Message{Due: At(time.Time{})}),
		"an expiry of 1970-01-21":            put(Message{Expires: seconds}),
		"a delay of -1s: at least 0":         put(Message{Due: After(-time.Second)}),
		"By and IfDue are for a reschedule":  put(Message{Due: By(time.Second, time.Now())}),
		`"no topic" is not a valid topic`:    func() error { _, err := client.Cancel(ctx, "no topic", "i", ""); return err },
		"a due time of 1970-01-21 20:00:00 ": func() error { _, err := client.Reschedule(ctx, "t", "i", "", At(seconds)); return err },
		"a wait of -1s": func() error {
			_, err := client.Reserve(ctx, Reserve{Topics: []string{"t"}, Wait: -time.Second})
			return err
		},
		"Max is 501: 1 to 500":               func() error { _, err := client.Reserve(ctx, Reserve{Topics: []string{"t"}, Max: 501}); return err },
		"no topic to reserve":                func() error { _, err := client.Reserve(ctx, Reserve{}); return err },
		"a delay of -2s: at least 0":         func() error { _, err := client.Release(ctx, Release{Delay: -2 * time.Second}); return err },
		"a lease of -3s: at least 0":         func() error { _, err := client.Extend(ctx, -3*time.Second); return err },
		"a worker needs a Client and a Hand": func() error { return Worker{Topics: []string{"t"}}.Run(ctx) },
	} {
		err := call()
		if _, invalid := err.(InvalidMessage); !invalid || !strings.Contains(err.Error(), why) {
			t.Errorf("%q, not %q", err, why)
		}
	}
	if stored := must(client.Put(ctx, Message{Topic: "t", Due: At(seconds), PastOK: true})); stored.Word != Ready {
		t.Error(stored)
	}
}
