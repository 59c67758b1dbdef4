// Reserving: what cannot be read, what wakes a waiting reserve, and what it survives.

package delayq

import (
	"context"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestAMessageThatCannotBeReadIsBuriedAndDoesNotStopItsNeighbours(t *testing.T) {
	n := 0
	for name, rest := range map[string][2]string{
		"a malformed group":                             {"\x08", "0107"},
		"a group that is no text":                       {"\x08", "01ff"},
		"no zstd frame":                                 {"\x20", strings.Repeat("61", 100)},
		"a frame that is cut short":                     {"\x20", "28b52ffd2301"},
		"a frame that would be larger than any payload": {"\x20", "28b52ffda0000000400000000000000000"},
		"a dictionary that is not there":                {"\x20", "28b52ffd23010203040501000078"},
	} {
		n++
		t.Run(name, func(t *testing.T) {
			r, namespace := reading(t, fmt.Sprint("reading-", n))
			// Of a generated id, the group is not part of the name.
			id, whole := strings.Repeat("\x01", 16), "\x01\x01"+string(make([]byte, 30))
			broken := "\x01\x01\x00" + rest[0] + string(make([]byte, 28)) + string(must(hex.DecodeString(rest[1])))
			must(r.script("put", 0, 1, "t", id, "1", "", broken, "whole", "1", "", whole))
			found := must(must(New(r.redis, namespace)).Reserve(context.Background(), Reserve{Topics: []string{"t"}, Max: 10}))
			if len(found) != 1 || found[0].ID != "whole" {
				t.Fatal(found)
			}
			counted := must(r.script("count", 0, 1, "t", "0")).([]any)
			if ready, leased, dead := counted[3], counted[4], counted[5]; ready != int64(0) || leased != int64(1) || dead != int64(1) {
				t.Fatal(counted)
			}
		})
	}
}

// A poll would come too late.
func TestAWakeUpAloneBringsAWaitingReserveItsMessage(t *testing.T) {
	r, _ := reading(t, "waking")
	r.client.pollInterval = time.Minute
	waiting := make(chan []*Delivery)
	go func() {
		waiting <- must(r.client.Reserve(context.Background(), Reserve{Topics: []string{"t"}, Wait: 30 * time.Second}))
	}()
	must(r.step(step{Op: "listening", Shard: 0}))
	must(r.client.Put(context.Background(), Message{Topic: "t", Payload: []byte("x"), Due: After(0)}))
	if found := <-waiting; len(found) != 1 || string(found[0].Payload) != "x" {
		t.Fatal(found)
	}
}

func TestAReserveFromATopicThatIsNoneTakesNothing(t *testing.T) {
	r, _ := reading(t, "none")
	must(r.client.Put(context.Background(), Message{Topic: "t", Due: After(0)}))
	_, err := r.client.Reserve(context.Background(), Reserve{Topics: []string{"t", "no topic"}})
	if _, invalid := err.(InvalidMessage); !invalid {
		t.Fatal(err)
	}
	counted := must(r.script("count", 0, 1, "t", "0")).([]any)
	if ready, leased := counted[3], counted[4]; ready != int64(1) || leased != int64(0) {
		t.Fatal(counted)
	}
}

func TestAWaitingReserveSurvivesTheLossOfItsConnections(t *testing.T) {
	r, _ := reading(t, "lost")
	r.client.pollInterval = time.Minute
	ctx, waiting := context.Background(), make(chan []*Delivery)
	go func() {
		waiting <- must(r.client.Reserve(ctx, Reserve{Topics: []string{"t"}, Wait: 90 * time.Second}))
	}()
	must(r.step(step{Op: "listening", Shard: 0}))
	r.settled(ctx)
	both := r.redis.Pipeline() // so that none is sent between them
	both.ClientKillByFilter(ctx, "TYPE", "pubsub")
	both.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes")
	must(both.Exec(ctx))
	must(r.step(step{Op: "listening", Shard: 0}))
	must(r.client.Put(ctx, Message{Topic: "t", Payload: []byte("x"), Due: After(0)}))
	if found := <-waiting; len(found) != 1 || string(found[0].Payload) != "x" {
		t.Fatal(found)
	}
}

// settled waits until no script has been called for a while: one that is under way when its connection is lost is an error.
func (r *run) settled(ctx context.Context) {
	calls, quiet := "", 0
	for quiet < 5 {
		time.Sleep(100 * time.Millisecond)
		line := regexp.MustCompile(`cmdstat_evalsha:calls=\d+`).FindString(must(r.redis.Info(ctx, "commandstats").Result()))
		if quiet++; line != calls {
			calls, quiet = line, 0
		}
	}
}

func TestWhatCameTooLateGoesToNobodyWhoAskedForAnotherLease(t *testing.T) {
	r, _ := reading(t, "leases")
	ctx := context.Background()
	must(r.client.Put(ctx, Message{Topic: "t", Due: After(0)}))
	ask := Reserve{Topics: []string{"t"}, Lease: 5 * time.Second}
	r.client.keep(must(r.client.Reserve(ctx, ask)), ask.Lease, nil, r.client.waiters.enter(ask.Topics, 1, time.Minute))
	ask.Lease, ask.Wait = 10*time.Minute, 30*time.Second
	found := must(r.client.Reserve(ctx, ask)) // once it was given back
	if len(found) != 1 || found[0].length < 9*time.Minute {
		t.Fatal(found)
	}
}

func TestWhatIsKeptIsLeftToItsOwnTimer(t *testing.T) {
	early, next := []*Delivery{{ID: "early"}}, []*Delivery{{ID: "next"}}
	w := newWatch([]string{"t"}, time.Minute, 1)
	w.keep(early, time.Second, nil)
	w.keep(next, time.Second, nil)
	if left := w.clear(early); len(left) != 1 || left[0] != early[0] {
		t.Fatal(left)
	}
	if found, _ := w.kept(10, time.Second); len(found) != 1 || found[0] != next[0] {
		t.Fatal(found)
	}
	if left := w.clear(next); len(left) != 0 { // it has been taken
		t.Fatal(left)
	}
}

func TestWhatACallerAppendsReplacesNothingThatIsKept(t *testing.T) {
	two := []*Delivery{{ID: "first"}, {ID: "second"}}
	w := newWatch([]string{"t"}, time.Minute, 1)
	w.keep(two, time.Second, nil)
	found, _ := w.kept(1, time.Second)
	_ = append(found, &Delivery{})
	if second, _ := w.kept(1, time.Second); len(second) != 1 || second[0] != two[1] {
		t.Fatal(second)
	}
}

func TestCallsOfManyLeasesShareOneWatch(t *testing.T) {
	r, _ := reading(t, "many-leases")
	ctx, topics := context.Background(), []string{"t"}
	for n := 1; n <= 20; n++ {
		must(r.client.Reserve(ctx, Reserve{Topics: topics, Lease: time.Duration(n) * time.Second, Wait: time.Millisecond}))
	}
	if watches := r.client.waiters.watches; len(watches) != 1 || watches["t"].waiting != 0 {
		t.Fatal(watches)
	}
}

func TestAWatchThatNobodyWaitsByGoesOnceItIsOld(t *testing.T) {
	var w waiters
	first := func(topic string) *watch { return w.enter([]string{topic}, 1, time.Minute) }
	waited, old, young := first("waited"), first("old"), first("young")
	w.leave(old)
	w.leave(young)
	waited.idle, old.idle = time.Now().Add(-2*linger), time.Now().Add(-2*linger)
	first("next")
	if len(w.watches) != 3 || w.watches["old"] != nil || first("waited") != waited || first("young") != young {
		t.Fatal(w.watches)
	}
}

// reading makes a deployment of one shard.
func reading(t *testing.T, namespace string) (*run, string) {
	connection := connect(t)
	r := run{t: t, client: must(New(connection, namespace)), redis: connection, namespace: namespace, bound: map[string]any{}}
	must(r.script("init", 0, 1, 0, 1))
	return &r, namespace
}
