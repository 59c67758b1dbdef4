// Listens for queues that become ready: one connection per client, or per node of a cluster.

package delayq

import (
	"context"
	"errors"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

type listener struct {
	redis   redis.UniversalClient
	channel func(shard int) string
	// notify reports a shard whose queue may be ready, for one topic or, with "", for all topics.
	notify func(shard int, topic string)
	// wake is nil unless due times are followed; woken takes their reports.
	wake  func(shard int) string
	woken func(shard int, report string)
	// topics are those that callers wait for, workers names the channel on which the workers of a topic are counted.
	topics  func() []string
	workers func(topic string) string
	shards  int
	// pingAfter is the silence before a ping, whose answer may take half of that.
	pingAfter time.Duration
	// doubt reports a node that does not answer.
	doubt func(node redis.UniversalClient)
	end   context.CancelFunc
}

// run listens to each node, and starts over when a shard has moved.
func (l *listener) run(ctx context.Context) {
	ctx, l.end = context.WithCancel(ctx)
	defer l.end()
	for ctx.Err() == nil {
		nodes, err := l.nodes(ctx)
		if err != nil {
			wait(ctx, rest)
			continue
		}
		round, over := context.WithCancel(ctx)
		var all sync.WaitGroup
		for node, shards := range nodes {
			all.Add(1)
			go func(node redis.UniversalClient, shards []int) {
				defer all.Done()
				defer over()
				l.stay(round, node, shards)
			}(node, shards)
		}
		all.Wait()
		over()
	}
}

// stay listens to the shards of a node until a shard moves; after an error, with growing pauses.
func (l *listener) stay(ctx context.Context, node redis.UniversalClient, shards []int) {
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause *= 2 {
		began := time.Now()
		err := l.listen(ctx, node, shards)
		if errors.Is(err, redis.ErrClosed) && errors.Is(l.redis.Ping(ctx).Err(), redis.ErrClosed) {
			l.end() // not that of a node alone, which has left the cluster
			return
		}
		if time.Since(began) > l.pingAfter {
			pause = 50 * time.Millisecond
		} else if pause > maxRest {
			pause = maxRest
		}
		wait(ctx, pause)
		if cluster, is := l.redis.(*redis.ClusterClient); is {
			relearn(ctx, cluster)
			if nodes, err := l.nodes(ctx); err == nil && !reflect.DeepEqual(nodes[node], shards) {
				return
			}
		}
	}
}

func wait(ctx context.Context, long time.Duration) {
	select {
	case <-time.After(long):
	case <-ctx.Done():
	}
}

// nodes returns the shards of each node.
func (l *listener) nodes(ctx context.Context) (map[redis.UniversalClient][]int, error) {
	nodes := map[redis.UniversalClient][]int{}
	for shard := 0; shard < l.shards; shard++ {
		node, err := nodeOf(ctx, l.redis, l.channel(shard))
		if errors.Is(err, errNoNode) {
			continue
		}
		if err != nil {
			return nil, err
		}
		nodes[node] = append(nodes[node], shard)
	}
	return nodes, nil
}

// listen listens to shards of one node until the first error.
func (l *listener) listen(ctx context.Context, node redis.UniversalClient, shards []int) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	subscription := node.SSubscribe(ctx)
	go func() {
		<-ctx.Done()
		subscription.Close()
	}()
	// A cluster refuses channels of several slots in one command.
	size, hasFirst := len(shards), slices.Contains(shards, 0)
	if _, is := l.redis.(*redis.ClusterClient); is {
		size = 1
	}
	for ; len(shards) > 0; shards = shards[size:] {
		var channels []string
		for _, shard := range shards[:size] {
			channels = append(channels, l.channel(shard))
			if l.wake != nil {
				channels = append(channels, l.wake(shard))
			}
		}
		if err := subscription.SSubscribe(ctx, channels...); err != nil {
			return err
		}
	}
	return l.receive(ctx, node, subscription, hasFirst)
}

// count subscribes to the channels that count the workers of each topic.
func (l *listener) count(ctx context.Context, subscription *redis.PubSub, counted map[string]bool) error {
	var joined []string
	for _, topic := range l.topics() {
		if !counted[topic] {
			counted[topic] = true
			joined = append(joined, l.workers(topic))
		}
	}
	if len(joined) == 0 {
		return nil
	}
	return subscription.SSubscribe(ctx, joined...)
}

// receive forwards notifications until an error. A subscription counts as a notification, since earlier notifications are lost.
func (l *listener) receive(ctx context.Context, node redis.UniversalClient, subscription *redis.PubSub, hasFirst bool) error {
	counted := map[string]bool{}
	for isPinged := false; ; {
		if hasFirst {
			if err := l.count(ctx, subscription, counted); err != nil {
				return err
			}
		}
		silence := l.pingAfter
		if isPinged {
			silence = l.pingAfter / 2
		}
		message, err := subscription.ReceiveTimeout(ctx, silence)
		var timeout net.Error
		switch isTimeout := errors.As(err, &timeout) && timeout.Timeout(); {
		case isTimeout && isPinged:
			l.doubt(node)
		case isTimeout:
			isPinged, err = true, subscription.Ping(ctx)
		default:
			isPinged = false
		}
		if err != nil {
			return err
		}
		switch event := message.(type) {
		case *redis.Subscription:
			if event.Kind == "sunsubscribe" {
				return errors.New("the shard's slot has moved")
			}
			if strings.HasSuffix(event.Channel, ":"+readyKey) {
				l.notify(shardOf(event.Channel), "")
			} else if strings.HasSuffix(event.Channel, ":"+wakeKey) {
				l.woken(shardOf(event.Channel), "0")
			}
		case *redis.Message:
			if strings.HasSuffix(event.Channel, ":"+wakeKey) {
				l.woken(shardOf(event.Channel), event.Payload)
			} else {
				l.notify(shardOf(event.Channel), event.Payload)
			}
		}
	}
}

// shardOf returns the shard of a key or channel, "{dq:7}:ready".
func shardOf(name string) int {
	_, rest, _ := strings.Cut(name, ":")
	number, _, _ := strings.Cut(rest, "}")
	return atoi(number)
}
