// Sentinel and Redis Cluster: servers that die, fall silent, or hand over slots.

package delayq

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// putAll puts messages to all shards, repeating each put until accepted, and returns the ids.
func putAll(t *testing.T, client *Client, name string, count int) (ids []string) {
	t.Helper()
	for n := 0; n < count; n++ {
		id := fmt.Sprint(name, "-", n)
		for stored := false; !stored; time.Sleep(5 * time.Millisecond) {
			put, err := client.Put(context.Background(), Message{Topic: "orders", ID: id})
			if stored = err == nil && put.Accepted(); !stored && err == nil {
				t.Fatal(put)
			}
		}
		ids = append(ids, id)
	}
	return ids
}

// putWhile puts during outages, and returns the ids.
func putWhile(t *testing.T, client *Client, name string, harm func()) (ids []string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		harm()
	}()
	for {
		select {
		case <-done:
			return ids
		default:
			ids = append(ids, putAll(t, client, fmt.Sprint(name, "-", len(ids)), 1)...)
		}
	}
}

// has waits until a worker has handled these messages, and returns all handled messages.
func has(t *testing.T, worker atWork, before []string, ids []string) (handed []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range before {
		seen[id] = true
	}
	for handed = before; ; {
		missing := ""
		for _, id := range ids {
			if !seen[id] {
				missing = id
			}
		}
		if missing == "" {
			return handed
		}
		one := within(t, missing, worker.handed)
		seen[one.ID], handed = true, append(handed, one.ID)
	}
}

func TestAWorkerGoesOnAtTheSuccessorOfAMasterThatWasKilled(t *testing.T) {
	for _, kind := range []string{"sentinel", "cluster"} {
		t.Run(kind, func(t *testing.T) {
			group := groupOf(t, kind)
			client := deployment(t, group.connect(t, nil), "killed", 8)
			client.pollInterval = time.Minute // a poll would come too late
			worker := work(t, client, "orders", nothing)
			handed := has(t, worker, nil, putAll(t, client, "before", 32))
			// Writes answered by the dying master may be lost.
			putWhile(t, client, "meanwhile", func() { group.does("kill", client.key(0, "meta")) })
			has(t, worker, handed, putAll(t, client, "after", 32))
			if err := worker.close(t); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Ends the worker, which must have handled each message once.
func eachOnce(t *testing.T, client *Client, worker atWork, ids, handed []string) {
	t.Helper()
	if err := worker.close(t); err != nil {
		t.Fatal(err)
	}
	sort.Strings(ids)
	sort.Strings(handed)
	if strings.Join(ids, " ") != strings.Join(handed, " ") || counted(t, client, "orders").Delivered != int64(len(ids)) {
		t.Fatal(len(ids), len(handed), counted(t, client, "orders"))
	}
}

func TestASlotThatGoesToAnotherServerAndBackLosesAndRepeatsNothing(t *testing.T) {
	group := groupOf(t, "cluster")
	client := deployment(t, group.connect(t, nil), "moved", 8)
	client.pollInterval = time.Minute // a poll would come too late
	worker := work(t, client, "orders", nothing)
	ids := putAll(t, client, "before", 32)
	var handed []string
	for _, way := range []string{"there", "back"} {
		ids = append(ids, putWhile(t, client, way, func() { group.does("move", client.key(0, "meta")) })...)
		handed = has(t, worker, handed, ids)
		ids = append(ids, putAll(t, client, "after-"+way, 32)...)
	}
	handed = has(t, worker, handed, ids)
	eachOnce(t, client, worker, ids, handed)
}

func TestACallWhoseAnswerIsLostIsNotSentAgain(t *testing.T) {
	for _, kind := range []string{"sentinel", "cluster"} {
		t.Run(kind, func(t *testing.T) {
			group, ctx := groupOf(t, kind), context.Background()
			connection := group.connect(t, func(options *redis.UniversalOptions) {
				options.ReadTimeout, options.MaxRetries = 500*time.Millisecond, 3
			})
			client := deployment(t, connection, "silent", 8)
			var five []Message
			for n := 0; n < 5; n++ {
				five = append(five, Message{Topic: "orders", Group: "user-5"})
			}
			key := client.key(must(client.PutMany(ctx, five))[0].Shard, "meta")
			group.does("freeze", key)
			_, err := client.Reserve(ctx, Reserve{Topics: []string{"orders"}})
			group.does("thaw", key)
			var timeout net.Error
			if !errors.As(err, &timeout) {
				t.Fatal(err)
			}
			numbers, err := client.Topic("orders").Count(ctx)
			for ; err != nil; numbers, err = client.Topic("orders").Count(ctx) { // it may have been succeeded
			}
			if numbers.Leased > 1 || numbers.Ready+numbers.Leased != 5 {
				t.Fatal(numbers)
			}
		})
	}
}

// idsIn returns ids of shards at the node of this shard, or at other nodes.
func idsIn(t *testing.T, client *Client, shard int, there bool, name string, count int) (ids []string) {
	t.Helper()
	nodes := client.byNode(context.Background(), []int{0, 1, 2, 3, 4, 5, 6, 7})
	for n := 0; len(ids) < count; n++ {
		id := fmt.Sprint(name, "-", n)
		home := placesOf(id, []int{8})[0]
		for _, shards := range nodes {
			if contains(shards, home) && contains(shards, shard) == there {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func TestAWorkerGetsWhatTheOtherNodesHaveWhileOneIsSilent(t *testing.T) {
	group, ctx := groupOf(t, "cluster"), context.Background()
	connection := group.connect(t, func(options *redis.UniversalOptions) { options.ReadTimeout = time.Minute })
	client := deployment(t, connection, "slow", 8)
	client.Timeout, client.pollInterval = time.Minute, time.Millisecond // the silent one is soon asked
	held := idsIn(t, client, 0, true, "held", 1)
	must(client.Put(ctx, Message{Topic: "orders", ID: held[0]}))
	others := idsIn(t, client, 0, false, "other", 100)
	group.does("freeze", client.key(0, "meta"))
	worker := work(t, client, "orders", nothing)
	var handed []string
	for _, id := range others { // if each waited for the silent node, they would not come
		must(client.Put(ctx, Message{Topic: "orders", ID: id}))
		handed = has(t, worker, handed, []string{id})
	}
	group.does("thaw", "")
	has(t, worker, handed, held)
	if err := worker.close(t); err != nil {
		t.Fatal(err)
	}
}

func TestAClustersMapIsReadOnceForAllThatItRefuses(t *testing.T) {
	group, ctx := groupOf(t, "cluster"), context.Background()
	seed := group.connect(t, nil)
	var reads atomic.Int32
	var isWrong atomic.Bool
	options := must(ParseURL(group.url)).Cluster()
	options.ClusterSlots = func(ctx context.Context) ([]redis.ClusterSlot, error) {
		slots := must(seed.(*redis.ClusterClient).ClusterSlots(ctx).Result())
		if reads.Add(1); isWrong.Swap(false) {
			first := slots[0].Nodes
			for i := range slots[1:] {
				slots[i].Nodes = slots[i+1].Nodes
			}
			slots[len(slots)-1].Nodes = first
		}
		return slots, nil
	}
	connection := redis.NewClusterClient(options)
	t.Cleanup(func() { connection.Close() })
	client := deployment(t, connection, "once", 8)
	putAll(t, client, "before", 1)
	isWrong.Store(true)
	relearn(ctx, connection)
	reads.Store(0)
	var many []Message
	for n := 0; n < 32; n++ {
		many = append(many, Message{Topic: "orders", ID: fmt.Sprint("order-", n)})
	}
	must(client.PutMany(ctx, many))
	if reads.Load() != 1 {
		t.Fatal(reads.Load())
	}
}
