// Topics whose writes are answered only once replicas or a disk have them.
//
// A call that does not wait as its topic asks is refused before anything is written. So a client learns of it by being
// refused, and believes it for some seconds; the first call after that does not wait, and asks again.

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
	// believed is how long it is believed what a topic asks.
	believed = 10 * time.Second
	// maxRounds are the most times that a call is sent again that was refused for not waiting as its topic asks.
	maxRounds = 4
	// maxWaiting are the most pipelines of a client that wait at once, each on a connection of the pool.
	maxWaiting = 8
	// everyTopic stands for all topics: what changes a group waits for what each of them asks.
	everyTopic = ""
)

// writes are the verbs that wait as their topic asks, and groupWrites those that wait for every topic of the shard.
var writes = map[string]bool{"put": true, "cancel": true, "reschedule": true}
var groupWrites = map[string]bool{"cancel_group": true, "shift_group": true}

// UnconfirmedError says that fewer replicas than the topic asks for, or not the disk, confirmed a write in time: its fate is
// unknown. Repeat it in the same way; a repeat that finds everything done is confirmed, too.
type UnconfirmedError struct {
	// Durability is what was waited for, such as "replica:1".
	Durability string
	Why        string
}

func (e UnconfirmedError) Error() string {
	return e.Durability + " is asked for, and not confirmed: " + e.Why
}

// durabilities are what is known of topics: the words to wait for, such as "disk replica:1".
type durabilities struct {
	mu    sync.Mutex
	known map[string]asked
	// turns are taken by pipelines that wait.
	turns chan struct{}
}

type asked struct {
	waits string
	until time.Time
}

// waits is what to wait for; nothing where nothing is known.
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

// of is what an item waits for.
func (d *durabilities) of(verb string, one *item) string {
	if !writes[verb] {
		return ""
	}
	return d.waits(one.topic)
}

// learn says whether a call was refused for not waiting. What the topic asks is known then.
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

// enter waits for a turn to wait.
func (d *durabilities) enter(ctx context.Context) (leave func(), err error) {
	select {
	case d.turns <- struct{}{}:
		return func() { <-d.turns }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%d pipelines wait already, and none was through in time: %w", cap(d.turns), ctx.Err())
	}
}

// turnsOf leave half of a pool to those who wait for nothing.
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

// confirming is what goes behind the calls of one pipeline, and so on their connection: newer servers count from its last
// write.
type confirming struct {
	waits    string
	within   time.Duration
	replicas int
	// disk and wait are nil where they are not waited for.
	disk, wait *redis.Cmd
}

// confirm adds the commands that wait to a pipeline, for at most half of what is left of its deadline: it may have to be sent
// once more. Redis waits for one after the other.
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

// err is why the calls are not confirmed; nil where all of it is.
func (c *confirming) err() error {
	var whys []string
	within := c.within.Round(time.Millisecond)
	if c.disk != nil {
		if counts, err := c.disk.Slice(); err != nil {
			whys = append(whys, "WAITAOF: "+err.Error())
		} else if counts[0].(int64) < 1 {
			whys = append(whys, fmt.Sprintf("the master's disk did not confirm within %v", within))
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
