// Package delayqtest has helpers for tests: a deployment for one test, what is pending in it, and deliveries without waiting.
package delayqtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/delayq/delayq/clients/go"
	"github.com/delayq/delayq/clients/go/internal/packed"
	"github.com/redis/go-redis/v9"
)

// Keys that a step of a removal visits.
const keysAStep = 10_000

const maxShards = 4096

// Deployment is a deployment without a timer, for one test: its messages become due by PromoteAll and Drain.
type Deployment struct {
	// Client is for the program under test.
	Client *delayq.Client
	// Namespace is that of no other test.
	Namespace string
	// MaxDeliveries bounds a drain, 1,000 by default: a handler that needs more is taken to put messages for ever.
	MaxDeliveries int

	t      testing.TB
	redis  *redis.Client
	shards int
}

// Pending is a message that waits for its due time, or for a worker.
type Pending struct {
	ID      string
	Due     time.Time
	Payload []byte
	Group   string
	Headers []delayq.Header
}

// New creates a deployment of one shard on the Redis at this URL, and removes all of its keys with the test. Nothing else in that
// Redis is touched, though a removal walks through all of its keys. The test ends with an error where a removal would be refused.
func New(t testing.TB, url string) *Deployment {
	t.Helper()
	options, err := delayq.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	connection, isOne := delayq.Connect(options).(*redis.Client)
	if !isOne {
		t.Fatalf("the URL names a Redis Cluster: a test needs one Redis, whose keys can be removed at once")
	}
	t.Cleanup(func() { _ = connection.Close() })
	return Over(t, connection, 1)
}

// Over is as New, over a connection of the caller, with any number of shards.
func Over(t testing.TB, connection *redis.Client, shards int) *Deployment {
	t.Helper()
	if connection == nil {
		t.Fatal("there is no connection")
	}
	if shards < 1 || shards > maxShards {
		t.Fatalf("shards is %d: 1 to %d", shards, maxShards)
	}
	name := make([]byte, 8)
	if _, err := rand.Read(name); err != nil {
		t.Fatal(err)
	}
	d := &Deployment{Namespace: "test-" + hex.EncodeToString(name), MaxDeliveries: 1000, t: t, redis: connection, shards: shards}
	var err error
	if d.Client, err = delayq.New(connection, d.Namespace); err == nil {
		err = d.create()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Client.Close()
		if err := d.remove(); err != nil {
			t.Errorf("the deployment %s was not removed: %v", d.Namespace, err)
		}
	})
	return d
}

// Pending returns the delayed and ready messages of a topic in the order of due times.
func (d *Deployment) Pending(topic string) (pending []Pending) {
	d.t.Helper()
	for _, state := range []delayq.State{delayq.Delayed, delayq.Ready} {
		err := d.Client.Topic(topic).List(context.Background(), state, delayq.Range{}, func(one *delayq.StoredMessage) error {
			pending = append(pending, Pending{one.ID, one.Due, one.Payload, one.Group, one.Headers})
			return nil
		})
		if err != nil {
			d.t.Fatal(err)
		}
	}
	sort.SliceStable(pending, func(i, j int) bool { return pending[i].Due.Before(pending[j].Due) })
	return pending
}

// PromoteAll makes all delayed messages of a topic ready now, and returns the number.
func (d *Deployment) PromoteAll(topic string) int64 {
	d.t.Helper()
	before := d.count(topic)
	d.pump()
	if _, _, err := d.Client.Topic(topic).Promote(context.Background(), delayq.Range{}); err != nil {
		d.t.Fatal(err)
	}
	return before.Delayed - d.count(topic).Delayed
}

func (d *Deployment) count(topic string) delayq.Numbers {
	d.t.Helper()
	numbers, err := d.Client.Topic(topic).Count(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	return numbers
}

// pump makes everything ready that is due by now, as a timer does.
func (d *Deployment) pump() {
	d.t.Helper()
	for shard := 0; shard < d.shards; shard++ {
		claimed, err := d.call("claim", shard, "worker/testing", 1, "")
		for word := "more"; err == nil && strings.HasPrefix(word, "more"); {
			var pumped []any
			if pumped, err = d.call("pump", shard, claimed[1], 500); err == nil {
				word = fmt.Sprint(pumped[0])
			}
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d *Deployment) call(verb string, shard int, args ...any) ([]any, error) {
	source, err := packed.Source(verb)
	if err != nil {
		return nil, err
	}
	keys := []string{d.meta(shard), fmt.Sprintf("{%s:%d}:never", d.Namespace, shard)}
	reply, err := d.redis.Eval(context.Background(), source, keys, append([]any{1}, args...)...).Result()
	many, _ := reply.([]any)
	return many, err
}

func (d *Deployment) meta(shard int) string { return fmt.Sprintf("{%s:%d}:meta", d.Namespace, shard) }

// create creates the shards, once a removal is known to be allowed.
func (d *Deployment) create() error {
	ctx := context.Background()
	err := d.redis.Scan(ctx, 0, d.meta(0), 1).Err()
	if err == nil {
		err = d.redis.Unlink(ctx, d.metas()...).Err()
	}
	if err != nil {
		return fmt.Errorf("this Redis would not let a test remove its deployment, so none was created: %w", err)
	}
	for shard := 0; shard < d.shards && err == nil; shard++ {
		_, err = d.call("init", shard, shard, d.shards)
	}
	return err
}

func (d *Deployment) metas() (metas []string) {
	for shard := 0; shard < d.shards; shard++ {
		metas = append(metas, d.meta(shard))
	}
	return metas
}

// remove removes all keys. Without their `meta`, scripts write nothing more.
func (d *Deployment) remove() error {
	ctx := context.Background()
	err := d.redis.Unlink(ctx, d.metas()...).Err()
	for cursor, isFirst := uint64(0), true; err == nil && (isFirst || cursor != 0); isFirst = false {
		var keys []string
		keys, cursor, err = d.redis.Scan(ctx, cursor, "{"+d.Namespace+":*", keysAStep).Result()
		if err == nil && len(keys) > 0 {
			err = d.redis.Unlink(ctx, keys...).Err()
		}
	}
	return err
}
