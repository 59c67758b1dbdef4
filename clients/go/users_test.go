// The users that `delayq acl print` prints, who may load scripts, but not send EVAL.

package delayq

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func makeUsers(t *testing.T, admin *redis.Client, args ...string) {
	t.Helper()
	program, is := os.LookupEnv("DELAYQ_COMMAND")
	if !is {
		program = "../../target/debug/delayq"
	}
	for _, role := range []string{"producer", "consumer", "worker", "admin"} {
		printed := must(exec.Command(program, append([]string{"acl", "print", "--role", role}, args...)...).Output())
		_, user, found := strings.Cut(string(printed), "user ")
		if !found {
			t.Fatal(string(printed))
		}
		user, _, _ = strings.Cut(user, "\n")
		command := []any{"ACL", "SETUSER"}
		for _, word := range strings.Fields(strings.Replace(user, ">PASSWORD", ">secret", 1)) {
			command = append(command, word)
		}
		must(admin.Do(context.Background(), command...).Result())
	}
}

func as(t *testing.T, role string, options redis.Options) *Client {
	options.Username, options.Password = "delayq-"+role, "secret"
	connection := redis.NewClient(&options)
	t.Cleanup(func() { _ = connection.Close() })
	client := must(New(connection, ""))
	t.Cleanup(client.Close)
	return client
}

func TestAllVerbsWorkForThePrintedUsersAlsoAfterAScriptFlushAndARestart(t *testing.T) {
	at, server, restart := ownServer(t)
	timed(t, at, "dq")
	admin := redis.NewClient(&redis.Options{Network: "unix", Addr: at})
	t.Cleanup(func() { _ = admin.Close() })
	makeUsers(t, admin)
	ctx, options := context.Background(), redis.Options{Network: "unix", Addr: at}
	producer, consumer, operator := as(t, "producer", options), as(t, "consumer", options), as(t, "admin", options)
	useAll := func(name string) {
		for n := 0; n < 40; n++ {
			put := must(producer.Put(ctx, Message{Topic: "many", ID: fmt.Sprint(name, n), Due: After(time.Hour)}))
			if !put.Accepted() {
				t.Fatal(put)
			}
		}
		if moved := must(producer.Reschedule(ctx, "many", name+"1", "", After(time.Minute))); !moved.Accepted() {
			t.Fatal(moved)
		}
		if cancelled := must(producer.Cancel(ctx, "many", name+"2", "")); !cancelled.Accepted() {
			t.Fatal(cancelled)
		}
		worker := work(t, consumer, "orders", nothing)
		must(producer.PutMany(ctx, []Message{{Topic: "orders", ID: name}}))
		within(t, name, worker.handed)
		if err := worker.close(t); err != nil {
			t.Fatal(err)
		}
		must(operator.Topic("orders").SetPolicy(ctx, Policy{MaxAttempts: Set(uint16(3))}))
		if purged, _, err := operator.Topic("many").Purge(ctx, Delayed, Range{}); purged != 39 || err != nil {
			t.Fatal(purged, err)
		}
	}
	useAll("first")
	must(admin.ScriptFlush(ctx).Result())
	useAll("flushed")
	kill(server())
	restart()
	makeUsers(t, admin)
	for _, client := range []*Client{producer, consumer, operator} {
		for err := error(redis.ErrClosed); err != nil; { // its connections are made again
			_, err = client.Get(ctx, "orders", "none", "")
		}
	}
	useAll("restarted")
}

func TestAWorkerThatPumpsWorksAsThePrintedUserAndIsToldWhatAConsumerMayNot(t *testing.T) {
	at, _, _ := ownServer(t)
	ctx, options := context.Background(), redis.Options{Network: "unix", Addr: at}
	admin := redis.NewClient(&options)
	t.Cleanup(func() { _ = admin.Close() })
	makeUsers(t, admin)
	producer := deployment(t, admin, "dq", 1)
	soon := func(id string) {
		must(producer.Put(ctx, Message{Topic: "orders", ID: id, Due: After(20 * time.Millisecond)}))
	}
	refused := work(t, as(t, "consumer", options), "mails", nothing, pumps)
	soon("order-0")
	if err := within(t, "an error", refused.errors); !strings.Contains(err.Error(), "can't run this command") && !strings.Contains(err.Error(), "NOPERM") {
		t.Fatal(err)
	}
	_ = refused.close(t)
	worker := work(t, as(t, "worker", options), "orders", nothing, pumps)
	within(t, "order-0", worker.handed)
	for _, id := range []string{"order-1", "order-2"} {
		soon(id)
		within(t, id, worker.handed)
		must(admin.ScriptFlush(ctx).Result())
	}
	if err := worker.close(t); err != nil {
		t.Fatal(err)
	}
}

func TestCallsThatWaitForAReplicaWorkForThePrintedUsersAlsoAfterAScriptFlush(t *testing.T) {
	group, ctx := startGroup(t, "replica"), context.Background()
	t.Cleanup(group.end)
	master := group.connect(t, nil).(*redis.Client)
	makeUsers(t, master, "--durability", "replica:1")
	operator := deployment(t, master, "dq", 1)
	must(operator.Topic("orders").SetPolicy(ctx, Policy{Durability: Set("replica:1")}))
	producer := as(t, "producer", redis.Options{Network: master.Options().Network, Addr: master.Options().Addr, ReadTimeout: time.Minute})
	producer.Timeout = time.Minute
	for _, id := range []string{"one", "other"} {
		for _, put := range must(producer.PutMany(ctx, []Message{{Topic: "orders", ID: id + "a"}, {Topic: "orders", ID: id + "b"}})) {
			if !put.Accepted() {
				t.Fatal(put)
			}
		}
		must(master.ScriptFlush(ctx).Result())
	}
}
