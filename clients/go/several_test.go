// Several independent Redises that share a deployment.

package delayq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestAWrongListOfNodesIsRefusedByName(t *testing.T) {
	connection := connect(t)
	for why, nodes := range map[string][]Node{
		"no node is given":                   {},
		"no node is given for any":           {{"a", connection, ""}},
		"\"a b\" is not the name of":         {{"a b", connection, "0"}},
		"node a has no connection":           {{"a", nil, "0"}},
		"two nodes have the name a":          {{"a", connection, "0"}, {"a", connection, "1"}},
		"shard 1 has two nodes: a and b":     {{"a", connection, "0-1"}, {"b", connection, "1"}},
		"shard 1 has no node":                {{"a", connection, "0,2"}},
		"\"3-1\" is not a list of shards":    {{"a", connection, "3-1"}},
		"\"0-4096\" is not a list of shards": {{"a", connection, "0-4096"}},
	} {
		var invalid InvalidMessage
		if _, err := NewOfNodes(nodes, "dq"); !errors.As(err, &invalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
	must(NewOfNodes([]Node{{"a", connection, "0"}, {"b", connection, ""}}, "dq"))
}

func TestAShardOfAnotherDeploymentIsRefusedByName(t *testing.T) {
	ctx, connection := context.Background(), connect(t)
	client := deployment(t, connection, "foreign", 2)
	for shard := 0; shard < 2; shard++ {
		must(connection.HSet(ctx, client.key(shard, "meta"), "identity", strings.Repeat("0a", 16)).Result())
	}
	must(client.Topic("orders").Count(ctx))
	must(connection.HSet(ctx, client.key(1, "meta"), "identity", strings.Repeat("0b", 16), "layout", "2", "counts", "2,4").Result())
	var refused ScriptError
	why := "shard 1 is of deployment 0b0b0b0b, and this client serves deployment 0a0a0a0a"
	if _, err := client.Topic("orders").Count(ctx); !errors.As(err, &refused) || !strings.Contains(err.Error(), why) {
		t.Fatal(err)
	}
}

func TestACallThatAWrongMapSendsToAnotherNodeIsRefusedByName(t *testing.T) {
	ctx, nodes := context.Background(), twoNodes(t)
	deployment(t, must(NewOfNodes(nodes, "dq")).redis, "dq", 4)
	a, b := nodes[0], nodes[1]
	for why, client := range map[string]*Client{
		"DQUNINITIALISED {dq:0}:meta does not exist (node a)":     must(NewOfNodes([]Node{{"a", b.Redis, a.Shards}, {"b", a.Redis, b.Shards}}, "dq")),
		"recorded on node a, but this client has it on node x":    must(NewOfNodes([]Node{{"x", a.Redis, a.Shards}, {"y", b.Redis, b.Shards}}, "dq")),
		"recorded on node a, but this client has it on one Redis": must(New(a.Redis, "dq")),
	} {
		var refused ScriptError
		if _, err := client.Put(ctx, Message{Topic: "orders", ID: "order-0"}); !errors.As(err, &refused) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}

func TestANodeThatIsAwayStopsOnlyItsShards(t *testing.T) {
	ctx := context.Background()
	at, server, restart := ownServer(t)
	away := redis.NewClient(&redis.Options{Network: "unix", Addr: at})
	t.Cleanup(func() { _ = away.Close() })
	nodes := []Node{{"a", away, "0,2"}, {"b", connect(t), "1,3"}}
	of := must(NewOfNodes(nodes, "away")).redis
	client := deployment(t, of, "away", 4)
	ids := func(there bool, name string, count int) (ids []string) {
		for n := 0; len(ids) < count; n++ {
			if id := fmt.Sprint(name, "-", n); placesOf(id, []int{4})[0]%2 == 0 == there {
				ids = append(ids, id)
			}
		}
		return ids
	}
	held, others := ids(true, "held", 1)[0], ids(false, "other", 20)
	must(client.Put(ctx, Message{Topic: "orders", ID: held}))
	kill(server())
	fresh := must(New(of, "away")) // one that begins meanwhile
	t.Cleanup(fresh.Close)
	worker := work(t, fresh, "orders", nothing)
	var messages []Message
	for _, id := range append([]string{ids(true, "lost", 1)[0]}, others...) {
		messages = append(messages, Message{Topic: "orders", ID: id})
	}
	puts, err := client.PutMany(ctx, messages)
	if err == nil || puts[0].Word != Unanswered || puts[1].Word != Ready && puts[1].Word != Stored {
		t.Fatal(puts, err)
	}
	handed := has(t, worker, nil, others)
	must(client.Put(ctx, Message{Topic: "mails", ID: others[0]}))
	if found := must(client.Reserve(ctx, Reserve{Topics: []string{"mails"}})); len(found) != 1 {
		t.Fatal(found)
	}
	restart()
	has(t, worker, handed, []string{held})
	if err := worker.close(t); err != nil {
		t.Fatal(err)
	}
}

func TestANodeThatIsSilentDelaysNoPumpOfAnother(t *testing.T) {
	ctx := context.Background()
	at, server, _ := ownServer(t)
	silent := redis.NewClient(&redis.Options{Network: "unix", Addr: at})
	t.Cleanup(func() { _ = silent.Close() })
	nodes := []Node{{"a", silent, "0,2"}, {"b", connect(t), "1,3"}}
	of := must(NewOfNodes(nodes, "silent-node")).redis
	client := deployment(t, of, "silent-node", 4)
	worker := work(t, client, "orders", nothing, pumps)
	var handed []string
	putAll := func(there bool, name string) {
		var ids []string
		for n := 0; len(ids) < 5; n++ {
			if id := fmt.Sprint(name, "-", n); placesOf(id, []int{4})[0]%2 == 0 == there {
				ids = append(ids, id)
				must(client.Put(ctx, Message{Topic: "orders", ID: id, Due: After(50 * time.Millisecond)}))
			}
		}
		handed = has(t, worker, handed, ids)
	}
	putAll(true, "held")
	putAll(false, "other")
	_ = server().Process.Signal(syscall.SIGSTOP)
	began := time.Now()
	putAll(false, "later")
	if took := time.Since(began); took > 4*time.Second { // less than the deadline of a call
		t.Error(took)
	}
	_ = server().Process.Signal(syscall.SIGCONT)
	eventually(t, "an answer", func() bool { return silent.Ping(ctx).Err() == nil })
	putAll(true, "again")
}

func TestAShardWhoseNodeIsNotGivenFailsByNameAndTheOthersAreServed(t *testing.T) {
	ctx, nodes := context.Background(), twoNodes(t)
	deployment(t, must(NewOfNodes(nodes, "dq")).redis, "dq", 5)
	fewer := []Node{{nodes[0].Name, nodes[0].Redis, "0,2"}, {nodes[1].Name, nodes[1].Redis, "1,3"}}
	client := must(NewOfNodes(fewer, "dq"))
	t.Cleanup(client.Close)
	var messages []Message
	for n := 0; n < 50; n++ {
		messages = append(messages, Message{Topic: "orders", ID: fmt.Sprint("order-", n)})
	}
	puts, err := client.PutMany(ctx, messages)
	if !errors.Is(err, errNoNode) || !strings.Contains(err.Error(), "shard 4") {
		t.Fatal(err)
	}
	for n, put := range puts {
		if isGiven := placesOf(messages[n].ID, []int{5})[0] < 4; isGiven != put.Accepted() {
			t.Fatal(put)
		}
	}
	if found, err := client.Reserve(ctx, Reserve{Topics: []string{"orders"}, Max: 4, Wait: time.Minute}); len(found) == 0 {
		t.Fatal(err)
	}
}

func TestANodeMayBeTheMasterThatSentinelsName(t *testing.T) {
	ctx, group := context.Background(), startGroup(t, "sentinel") // whose master does not come back
	t.Cleanup(group.end)
	nodes := []Node{{"a", group.connect(t, nil).(*redis.Client), "0,2"}, {"b", connect(t), "1,3"}}
	client := deployment(t, must(NewOfNodes(nodes, "named")).redis, "named", 4)
	client.pollInterval = time.Minute // a poll would come too late
	worker := work(t, client, "orders", nothing)
	handed := has(t, worker, nil, putAll(t, client, "before", 20))
	group.does("kill", client.key(0, "meta"))
	has(t, worker, handed, putAll(t, client, "after", 20))
	if numbers := must(client.Topic("orders").Count(ctx)); numbers.Accepted != 40 {
		t.Fatal(numbers)
	}
	if err := worker.close(t); err != nil {
		t.Fatal(err)
	}
}

func TestAShardThatHasMovedIsCalledAndListenedToAtItsNewNode(t *testing.T) {
	ctx, nodes := context.Background(), twoNodes(t)
	client := deployment(t, must(NewOfNodes(nodes, "dq")).redis, "dq", 2)
	worker := work(t, client, "orders", nothing)
	handed := has(t, worker, nil, putAll(t, client, "before", 10))
	must(nodes[0].Redis.HSet(ctx, client.key(0, "meta"), "layout", "1>b:7").Result())
	must(must(assemble(packed, "init")).Eval(ctx, nodes[1].Redis, client.keys(0), "1@b", 0, 2).Result())
	handed = has(t, worker, handed, putAll(t, client, "after", 10))
	for listening := int64(0); listening == 0; { // it does at the new node
		for _, listening = range must(nodes[1].Redis.PubSubShardNumSub(ctx, client.key(0, "ready")).Result()) {
		}
	}
	has(t, worker, handed, putAll(t, client, "then", 10))
	if err := worker.close(t); err != nil {
		t.Fatal(err)
	}
}

func TestAShardThatHasMovedToANodeThatIsNotGivenIsRefusedByName(t *testing.T) {
	ctx, nodes := context.Background(), twoNodes(t)
	client := deployment(t, must(NewOfNodes(nodes, "dq")).redis, "dq", 2)
	must(nodes[0].Redis.HSet(ctx, client.key(0, "meta"), "layout", "1>c").Result())
	_, err := client.Topic("orders").Count(ctx)
	if _, refused := err.(ScriptError); !refused || !strings.Contains(err.Error(), "shard 0 has moved to node c, which is not among those given") {
		t.Fatal(err)
	}
}

func TestNothingIsLostOrComesTwiceWhileDelayqMovesHalfOfTheShardsToANewNode(t *testing.T) {
	ctx, group := context.Background(), startGroup(t, "nodes")
	t.Cleanup(group.end)
	nodes := []Node{{Name: "a", Shards: "0-7"}, {Name: "b"}}
	for n, url := range strings.Fields(group.url) {
		connection := redis.NewClient(must(redis.ParseURL(url)))
		t.Cleanup(func() { _ = connection.Close() })
		nodes[n].Redis = connection
	}
	client := must(NewOfNodes(nodes, "dq"))
	t.Cleanup(client.Close)
	worker := work(t, client, "orders", nothing)
	ids := putAll(t, client, "before", 32)
	ids = append(ids, putWhile(t, client, "meanwhile", func() { group.does("shards", "4-7") })...)
	ids = append(ids, putAll(t, client, "after", 32)...)
	handed := has(t, worker, nil, ids)
	eachOnce(t, client, worker, ids, handed)
	if at := must(nodes[1].Redis.HGet(ctx, client.key(7, "meta"), "layout").Result()); at != "1@b" {
		t.Fatal(at)
	}
}
