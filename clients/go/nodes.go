// Sends calls to the node of each shard, once.
//
// go-redis resends commands whose answer is lost, but delayq must mark a resent put as a repeat. So calls go to each node
// directly, with the retries of go-redis off.

package delayq

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Maximum attempts of a call; a slot does not move more often during one call.
const maxTrips = 6

// trips sends calls in one pipeline per node, all nodes at once, and returns a command with the answer per call. A call refused
// as MOVED goes to the new node, and a node without the script loads the script first. Nothing else is resent: both nodes
// refuse calls of a moving slot (ASK, TRYAGAIN), because each script declares a key that never exists.
func (c *Client) trips(ctx context.Context, known *layout, waits string, calls []call) []*redis.Cmd {
	commands, unknown, left := make([]*redis.Cmd, len(calls)), map[int]bool{}, make([]int, len(calls))
	for i := range calls {
		left[i] = i
	}
	add := func(pipe redis.Pipeliner, i int) {
		script, keys, args := c.scripts[calls[i].verb], c.keys(calls[i].shard), append([]any{c.layoutWord(known.number, calls[i].shard, waits)}, calls[i].args...)
		if unknown[i] { // the users of `delayq acl print` may load scripts, and not send them
			pipe.ScriptLoad(ctx, script.source)
		}
		commands[i] = script.EvalSha(ctx, pipe, keys, args...)
	}
	for trip := 0; trip < maxTrips && len(left) > 0; trip++ {
		parts := map[redis.UniversalClient][]int{}
		for _, i := range left {
			if node, err := nodeOf(ctx, c.redis, c.key(calls[i].shard, metaKey)); err == nil {
				parts[node] = append(parts[node], i)
			} else {
				commands[i] = redis.NewCmd(ctx)
				commands[i].SetErr(err)
			}
		}
		var all sync.WaitGroup
		for node, some := range parts {
			all.Add(1)
			go func(node redis.UniversalClient, some []int) {
				defer all.Done()
				c.trip(ctx, node, waits, some, add, commands)
			}(node, some)
		}
		all.Wait()
		c.heed(ctx, commands, left)
		left = left[:0]
		for i, command := range commands {
			switch err := command.Err(); {
			case refusedAs(err, "NOSCRIPT"):
				unknown[i], left = true, append(left, i)
			case refusedAs(err, "MOVED"):
				left = append(left, i)
			}
		}
	}
	return commands
}

func (c *Client) trip(ctx context.Context, node redis.UniversalClient, waits string, some []int, add func(redis.Pipeliner, int), commands []*redis.Cmd) {
	pipe := once(node).Pipeline()
	for _, i := range some {
		add(pipe, i)
	}
	var behind *confirming
	if waits != "" {
		leave, err := c.durabilities.enter(ctx)
		if err != nil {
			setErrors(commands, some, err)
			return
		}
		defer leave()
		behind = c.confirm(ctx, pipe, node, waits)
	}
	fault, hasEnded := c.exchange(ctx, node, pipe)
	if !hasEnded { // what it still does is none of the caller's
		for _, i := range some {
			commands[i] = redis.NewCmd(ctx)
			commands[i].SetErr(fault)
		}
		return
	}
	for _, i := range some {
		if commands[i].Err() == nil && commands[i].Val() == nil { // what came before the commands has failed
			commands[i].SetErr(fault)
		}
	}
	if behind != nil {
		setErrors(commands, some, behind.err())
	}
}

func setErrors(commands []*redis.Cmd, some []int, err error) {
	for _, i := range some {
		if commands[i].Err() == nil {
			commands[i].SetErr(err)
		}
	}
}

// heed updates the slot map of a cluster client after a refusal (immediately) or a lost call (in the background).
func (c *Client) heed(ctx context.Context, commands []*redis.Cmd, some []int) {
	cluster, is := c.redis.(*redis.ClusterClient)
	if !is {
		return
	}
	moved, lost := false, false
	for _, i := range some {
		err := commands[i].Err()
		_, answered := err.(redis.Error)
		if _, unconfirmed := err.(UnconfirmedError); unconfirmed {
			answered = true
		}
		moved = moved || refusedAs(err, "MOVED")
		lost = lost || err != nil && !answered || refusedAs(err, "CLUSTERDOWN")
	}
	if moved {
		relearn(ctx, cluster)
	} else if lost {
		cluster.ReloadState(ctx)
	}
}

func nodeOf(ctx context.Context, connection redis.UniversalClient, key string) (redis.UniversalClient, error) {
	switch all := connection.(type) {
	case *redis.ClusterClient:
		return all.MasterForKey(ctx, key)
	case *several:
		shard := shardOf(key)
		if node := all.node(shard); node != nil {
			return node.Redis, nil
		}
		return nil, fmt.Errorf("shard %d: %w", shard, errNoNode)
	}
	return connection, nil
}

// once returns a view of a connection without retries, limited by the context. The view shares the pool, which follows
// failovers.
func once(node redis.UniversalClient) redis.UniversalClient {
	client, is := node.(*redis.Client)
	if !is {
		return node
	}
	given := client.Options()
	own := client.WithTimeout(given.ReadTimeout)
	own.Options().WriteTimeout, own.Options().MaxRetries = given.WriteTimeout, 0
	own.Options().ContextTimeoutEnabled = true
	return own
}

// relearn updates the slot map: of all go-redis calls, only ForEachMaster waits for the answer.
func relearn(ctx context.Context, cluster *redis.ClusterClient) {
	_ = cluster.ForEachMaster(ctx, func(context.Context, *redis.Client) error { return nil })
}

func refusedAs(err error, code string) bool {
	return err != nil && strings.HasPrefix(err.Error(), code)
}
