// Reserving: unreadable messages, wake-ups, and lost connections.

package delayq

import (
	"context"
	"encoding/hex"
	"fmt"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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
			// The stored name of a generated id has no group.
			id, whole := strings.Repeat("\x01", 16), "\x01\x01"+string(make([]byte, 30))
			broken := "\x01\x01\x00" + rest[0] + string(make([]byte, 28)) + string(must(hex.DecodeString(rest[1])))
			must(r.script("put", 0, 1, "t", id, "1", "", whole, "whole", "1", "", whole))
			plant(t, r.redis, namespace, id, broken)
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

// plant writes flags and fields that no put accepts into the stored message of a shard's first topic.
func plant(t *testing.T, connection redis.UniversalClient, namespace, id, envelope string) {
	t.Helper()
	ctx, key := context.Background(), "{"+namespace+":0}:m:1:"+id
	head := must(connection.Get(ctx, key).Result())[:32]
	must(connection.Set(ctx, key, head[:2]+envelope[2:4]+head[4:]+envelope[32:], 0).Result())
}

func TestATopicOrIDOutsideTheRulesHidesNoOtherAndIsRemovedByTheNameThatIsShown(t *testing.T) {
	r, namespace := reading(t, "odd")
	ctx, later := context.Background(), After(time.Hour)
	put := func(id string, due Due, group string) {
		must(r.client.Put(ctx, Message{Topic: "t", ID: id, Due: due, Group: group}))
	}
	put("odd-id", later, "g")
	put("whole", later, "g")
	put("dead", After(0), "")
	must(r.client.Bury(ctx, "why", must(r.client.Reserve(ctx, Reserve{Topics: []string{"t"}}))[0].Receipt))
	must(r.redis.Eval(ctx, makeOdd, nil, "odd-id\x1fg", "od\xff\nd", "{"+namespace+":0}:").Result())

	topic, id := "~odd-my%20orders", "~odd-od%FF%0Ad"
	orders := r.client.Topic(topic)
	var shown []string
	show := func(one *StoredMessage) error {
		shown = append(shown, one.Topic+" "+one.ID)
		return nil
	}
	must(0, orders.List(ctx, Delayed, Range{}, show))
	must(0, r.client.Group("g").List(ctx, show))
	must(0, orders.List(ctx, Dead, Range{}, show))
	sort.Strings(shown)
	if want := []string{topic + " dead", topic + " whole", topic + " whole", topic + " " + id, topic + " " + id}; !reflect.DeepEqual(shown, want) {
		t.Fatal(shown)
	}
	if found := must(r.client.Get(ctx, topic, id, "")); found.State != Delayed {
		t.Fatal(found)
	}
	if cancelled := must(r.client.Cancel(ctx, topic, id, "")); !cancelled.Accepted() {
		t.Fatal(cancelled)
	}
	for _, state := range []State{Dead, Delayed} {
		if purged, kept, err := orders.Purge(ctx, state, Range{}); purged != 1 || kept != 0 || err != nil {
			t.Fatal(state, purged, kept, err)
		}
	}
}

// makeOdd renames a topic and, wherever the message is stored, an id to names that no put accepts.
const makeOdd = `
local from, to, base = ARGV[1], ARGV[2], ARGV[3]
local no = redis.call('HGET', base .. 'meta', 'topic:t')
redis.call('RENAME', base .. 'm:' .. no .. ':' .. from, base .. 'm:' .. no .. ':' .. to)
for _, key in ipairs(redis.call('KEYS', base .. '*')) do
  if redis.call('TYPE', key).ok == 'zset' then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      local first, last = string.find(member, from, 1, true)
      if first then
        local score = redis.call('ZSCORE', key, member)
        redis.call('ZREM', key, member)
        redis.call('ZADD', key, score, string.sub(member, 1, first - 1) .. to .. string.sub(member, last + 1))
      end
    end
  end
end
redis.call('HDEL', base .. 'meta', 'topic:t')
redis.call('HSET', base .. 'meta', 'topic:my orders', no)
redis.call('HSET', base .. 't:' .. no, 'name', 'my orders')
return 0`

func TestACountTellsOfKeysThatItCannotRead(t *testing.T) {
	r, namespace := reading(t, "unreadable")
	ctx := context.Background()
	must(r.client.Put(ctx, Message{Topic: "t", Due: After(time.Hour)}))
	must(r.redis.Set(ctx, "{"+namespace+":0}:d:1", "no set", 0).Result())
	if n := must(r.client.Topic("t").Count(ctx)); n.Unreadable != 1 || n.Delayed != 1 || n.Accepted != 1 || n.Dead != 0 {
		t.Fatal(n)
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

func TestWhoWaitsIsCountedAmongTheWorkersOfEachTopicUntilTheClientIsClosed(t *testing.T) {
	r, namespace := reading(t, "counted")
	ctx := context.Background()
	are := func(count int64) {
		channels := []string{"{" + namespace + ":0}:workers:orders", "{" + namespace + ":0}:workers:mails"}
		for counts := map[string]int64{}; counts[channels[0]] != count || counts[channels[1]] != count || len(counts) == 0; {
			counts = must(r.redis.PubSubShardNumSub(ctx, channels...).Result())
		}
	}
	wait := func(topics ...string) {
		_, _ = r.client.Reserve(ctx, Reserve{Topics: topics, Wait: 30 * time.Second})
	}
	go wait("orders")
	must(r.step(step{Op: "listening", Shard: 0}))
	go wait("orders", "mails")
	are(1)
	r.client.Close()
	are(0)
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

// settled waits until no script has been called for a while, since the loss of a connection fails calls in flight.
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

func reading(t *testing.T, namespace string) (*run, string) {
	connection := connect(t)
	r := run{t: t, client: must(New(connection, namespace)), redis: connection, namespace: namespace, bound: map[string]any{}}
	must(r.script("init", 0, 1, 0, 1))
	return &r, namespace
}
