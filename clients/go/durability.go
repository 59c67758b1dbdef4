// Durability: writes that are answered only after replicas or disk confirm.
//
// A script refuses a call that does not wait as the topic requires, before any write. The refusal teaches the client the
// durability, which is cached for some seconds; the first call after that does not wait, and asks again.

package delayq

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// How long a learned durability is cached.
	believed = 10 * time.Second
	// Maximum attempts of a call whose durability is still unknown.
	maxRounds = 4
	// Maximum waiting pipelines of a client, each on a pool connection.
	maxWaiting = 8
	// Key of the durabilities of all topics, for changes of groups.
	everyTopic = ""
)

// UnconfirmedError reports that too few replicas, or no disk, confirmed a write in time: the fate of the write is unknown.
// Repeat the call unchanged; a repeat of a finished write is confirmed, too.
type UnconfirmedError struct {
	// Durability is the missing confirmation, such as "replica:1".
	Durability string
	Why        string
}

func (e UnconfirmedError) Error() string {
	return "not confirmed with the topic's durability " + e.Durability + ": " + e.Why
}

// durabilities caches the required confirmations by topic, such as "disk replica:1".
type durabilities struct {
	mu    sync.Mutex
	known map[string]asked
	turns chan struct{}
}

type asked struct {
	waits string
	until time.Time
}

// waits returns the required confirmations; "" if none are known.
func (d *durabilities) waits(topic string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, is := d.known[topic]
	if is && time.Now().After(known.until) {
		delete(d.known, topic)
		return ""
	}
	return known.waits
}

func (d *durabilities) of(verb string, one *item) string {
	if !writes[verb] {
		return ""
	}
	return d.waits(one.topic)
}

// learn reports whether a call was refused for its durability, and caches the durability.
func (d *durabilities) learn(topic string, err error) bool {
	refusal, is := err.(ScriptError)
	if !is || refusal.Code != "DQDURABILITY" {
		return false
	}
	word, _, _ := strings.Cut(refusal.Detail, " ")
	words := []string{word}
	if topic == everyTopic {
		for _, known := range strings.Fields(d.waits(topic)) {
			if known != word {
				words = append(words, known)
			}
		}
	}
	sort.Strings(words)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known = map[string]asked{}
	}
	d.known[topic] = asked{strings.Join(words, " "), time.Now().Add(believed)}
	return true
}

func (d *durabilities) enter(ctx context.Context) (leave func(), err error) {
	select {
	case d.turns <- struct{}{}:
		return func() { <-d.turns }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%d pipelines already wait, and none ended in time: %w", cap(d.turns), ctx.Err())
	}
}

// turnsOf keeps half of the pool for calls that wait for nothing.
func turnsOf(connection redis.UniversalClient) int {
	size := 2 * maxWaiting
	switch client := connection.(type) {
	case *redis.Client:
		size = client.Options().PoolSize
	case *redis.ClusterClient:
		size = client.Options().PoolSize
	case *several:
		for _, node := range client.nodes {
			if of := node.Redis.Options().PoolSize; of < size {
				size = of
			}
		}
	}
	switch {
	case size < 2:
		return 1
	case size < 2*maxWaiting:
		return size / 2
	}
	return maxWaiting
}

// confirming is sent at the end of a pipeline, on the same connection: newer servers count from the last write of a connection.
type confirming struct {
	waits      string
	within     time.Duration
	replicas   int
	disk, wait *redis.Cmd
}

// confirm appends WAIT and WAITAOF to a pipeline, for at most half of the remaining deadline, which leaves time for one resend.
// Redis runs both in sequence.
func (c *Client) confirm(ctx context.Context, pipe redis.Pipeliner, node redis.UniversalClient, waits string) *confirming {
	one := &confirming{waits: waits, within: c.Timeout / 2}
	if until, is := ctx.Deadline(); is {
		one.within = time.Until(until) / 2
	}
	if half := c.deadline(node) / 2; half < one.within {
		one.within = half
	}
	if c.ConfirmTimeout > 0 && c.ConfirmTimeout < one.within {
		one.within = c.ConfirmTimeout
	}
	words := strings.Fields(waits)
	for _, word := range words {
		if _, count, is := strings.Cut(word, ":"); is && atoi(count) > one.replicas {
			one.replicas = atoi(count)
		}
	}
	isDisk := contains(words, "disk")
	if isDisk && one.replicas > 0 {
		one.within /= 2
	}
	if one.within < time.Millisecond { // Redis takes 0 for ever
		one.within = time.Millisecond
	}
	if isDisk {
		one.disk = pipe.Do(ctx, "WAITAOF", 1, 0, one.within.Milliseconds())
	}
	if one.replicas > 0 {
		one.wait = pipe.Do(ctx, "WAIT", one.replicas, one.within.Milliseconds())
	}
	return one
}

// err returns the missing confirmations; nil if all arrived.
func (c *confirming) err() error {
	var whys []string
	within := c.within.Round(time.Millisecond)
	if c.disk != nil {
		if counts, err := c.disk.Slice(); err != nil {
			whys = append(whys, "WAITAOF: "+err.Error())
		} else if counts[0].(int64) < 1 {
			whys = append(whys, fmt.Sprintf("no confirmation from the master's disk within %v", within))
		}
	}
	if c.wait != nil {
		if count, err := c.wait.Int(); err != nil {
			whys = append(whys, "WAIT: "+err.Error())
		} else if count < c.replicas {
			whys = append(whys, fmt.Sprintf("%d of %d replicas confirmed within %v", count, c.replicas, within))
		}
	}
	if len(whys) == 0 {
		return nil
	}
	return UnconfirmedError{c.waits, strings.Join(whys, "; ")}
}
