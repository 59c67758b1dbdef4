// Listening for ready queues that stop being empty, over one connection for a whole client; in a cluster, one a node.

package delayq

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// listener listens to the shards of a deployment until its context ends.
type listener struct {
	redis redis.UniversalClient
	// channel is that of a shard.
	channel func(shard int) string
	// notify is called for a shard whose ready queue may have something, of this topic or, where it is empty, of any.
	notify func(shard int, topic string)
	shards int
	// pingAfter is after how long a silent connection is pinged; the answer may take a third of that.
	pingAfter time.Duration
}

// run listens, and starts again after a growing pause where that fails.
func (l *listener) run(ctx context.Context) {
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause *= 2 {
		began := time.Now()
		if err := l.listen(ctx); errors.Is(err, redis.ErrClosed) {
			return
		}
		if time.Since(began) > l.pingAfter {
			pause = 50 * time.Millisecond
		} else if pause > 2*time.Second {
			pause = 2 * time.Second
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// listen listens until anything fails.
func (l *listener) listen(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	nodes, err := l.nodes(ctx)
	failed := make(chan error, len(nodes))
	for node, shards := range nodes {
		subscription, fault := l.subscribe(ctx, node, shards)
		err = first(err, fault)
		defer subscription.Close()
		go func() { failed <- l.receive(ctx, subscription) }()
	}
	if err != nil {
		return err
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return err
}

// subscriber is a Redis that can be subscribed to.
type subscriber interface {
	SSubscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// nodes are those that have to be listened to, and the shards of each.
func (l *listener) nodes(ctx context.Context) (map[subscriber][]int, error) {
	nodes := map[subscriber][]int{}
	for shard := 0; shard < l.shards; shard++ {
		var node subscriber = l.redis
		if cluster, is := l.redis.(*redis.ClusterClient); is {
			master, err := cluster.MasterForKey(ctx, l.channel(shard))
			if err != nil {
				return nil, err
			}
			node = master
		}
		nodes[node] = append(nodes[node], shard)
	}
	return nodes, nil
}

// subscribe subscribes to each shard by itself: in a cluster, one command may have channels of one slot only.
func (l *listener) subscribe(ctx context.Context, node subscriber, shards []int) (*redis.PubSub, error) {
	subscription := node.SSubscribe(ctx)
	if _, is := l.redis.(*redis.ClusterClient); !is {
		var channels []string
		for _, shard := range shards {
			channels = append(channels, l.channel(shard))
		}
		return subscription, subscription.SSubscribe(ctx, channels...)
	}
	for _, shard := range shards {
		if err := subscription.SSubscribe(ctx, l.channel(shard)); err != nil {
			return subscription, err
		}
	}
	return subscription, nil
}

// receive passes on what is published, until it fails. What a shard published before the subscription is lost, so the
// subscription itself counts as a notification.
func (l *listener) receive(ctx context.Context, subscription *redis.PubSub) error {
	for isPinged := false; ; {
		silence := l.pingAfter
		if isPinged {
			silence = l.pingAfter / 3
		}
		message, err := subscription.ReceiveTimeout(ctx, silence)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !isPinged {
			isPinged, err = true, subscription.Ping(ctx)
		} else {
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
			l.notify(shardOf(event.Channel), "")
		case *redis.Message:
			l.notify(shardOf(event.Channel), event.Payload)
		}
	}
}

// shardOf is the shard of a channel, "{dq:7}:ready".
func shardOf(channel string) int {
	_, rest, _ := strings.Cut(channel, ":")
	number, _, _ := strings.Cut(rest, "}")
	return atoi(number)
}
