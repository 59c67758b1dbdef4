// Several independent Redises that keep a deployment together: each shard has one of them.

package delayq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Node is one of several Redises, and the shards that it keeps.
type Node struct {
	// Name is what it is called; each of its shards records it, and refuses calls that are meant for another node.
	Name string
	// Redis is its connection: to a Redis, or to the master that sentinels name.
	Redis *redis.Client
	// Shards are ranges with both ends, such as "0-7,16-19"; those of a growth that is to come included. "" is none yet.
	Shards string
}

// maxShards are the most that a deployment has.
const maxShards = 4096

var errNoNode = errors.New("it has no node among those that were given: add the node that has it")

// several stands for the connection of a client. What it embeds, the first node's, is not used for shards.
type several struct {
	*redis.Client
	nodes []Node

	mu sync.RWMutex
	// homes has the node of each shard.
	homes []int
}

// NewOfNodes gives the client of a deployment that several independent Redises keep together: a node for each shard from 0
// on, as in the configuration of delayq's programs.
func NewOfNodes(nodes []Node, namespace string) (*Client, error) {
	homes, err := homesOf(nodes)
	if err != nil {
		return nil, err
	}
	return New(&several{Client: nodes[0].Redis, nodes: nodes, homes: homes}, namespace)
}

// homesOf has the node of each shard.
func homesOf(nodes []Node) (homes []int, err error) {
	known, names := map[int]int{}, map[string]bool{}
	for n, node := range nodes {
		if err = first(err, checkName("namespace", node.Name)); err != nil {
			return nil, InvalidMessage(fmt.Sprintf("%.40q is not the name of a node: 1 to 32 of A-Z a-z 0-9 - _", node.Name))
		}
		if names[node.Name] {
			return nil, InvalidMessage("two nodes are called " + node.Name)
		}
		if node.Redis == nil {
			return nil, InvalidMessage("node " + node.Name + " has no connection")
		}
		names[node.Name] = true
		shards, err := shardsOf(node.Shards)
		if err != nil {
			return nil, err
		}
		for _, shard := range shards {
			if other, is := known[shard]; is {
				return nil, InvalidMessage(fmt.Sprintf("shard %d has two nodes: %s and %s", shard, nodes[other].Name, node.Name))
			}
			known[shard] = n
		}
	}
	for shard := 0; shard < len(known); shard++ {
		home, is := known[shard]
		if !is {
			return nil, InvalidMessage(fmt.Sprintf("shard %d has no node", shard))
		}
		homes = append(homes, home)
	}
	if len(homes) == 0 {
		return nil, InvalidMessage("there is no node of any shard")
	}
	return homes, nil
}

// shardsOf reads ranges of shards.
func shardsOf(ranges string) (shards []int, err error) {
	if ranges == "" {
		return nil, nil
	}
	for _, text := range strings.Split(ranges, ",") {
		from, to, isRange := strings.Cut(text, "-")
		if !isRange {
			to = from
		}
		low, fault := strconv.ParseUint(from, 10, 12)
		high, other := strconv.ParseUint(to, 10, 12)
		if first(fault, other) != nil || low > high {
			return nil, InvalidMessage(fmt.Sprintf("%.40q are no shards: ranges of 0 to %d with both ends, such as 0-7,16-19", ranges, maxShards-1))
		}
		for shard := low; shard <= high; shard++ {
			shards = append(shards, int(shard))
		}
	}
	return shards, nil
}

// node is that of a shard; nil where it has none.
func (s *several) node(shard int) *Node {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if shard >= len(s.homes) {
		return nil
	}
	return &s.nodes[s.homes[shard]]
}

// move notes that a shard has moved to another node; false where that is not known.
func (s *several) move(shard int, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, node := range s.nodes {
		if node.Name == name && shard < len(s.homes) {
			s.homes[shard] = n
			return true
		}
	}
	return false
}

// firstShards has a shard of each node.
func (s *several) firstShards() (shards []int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	seen := map[int]bool{}
	for shard, home := range s.homes {
		if !seen[home] {
			seen[home], shards = true, append(shards, shard)
		}
	}
	return shards
}

// layoutWord is the first argument of a call: the layout that its caller knows, the node that it is meant for, and what it
// waits for.
func (c *Client) layoutWord(layout, shard int, waits string) string {
	word := strconv.Itoa(layout)
	if node := c.nodeName(shard); node != "" {
		word += "@" + node
	}
	return strings.TrimSpace(word + " " + waits)
}

// checkNode refuses the map of the nodes where a shard records another one, in its layout, than it was found at.
func (c *Client) checkNode(shard int, layout string) error {
	_, recorded, _ := strings.Cut(layout, "@")
	if at := c.nodeName(shard); recorded != "" && at != recorded {
		keeper := func(node string) string {
			if node == "" {
				return "one Redis without a node's name"
			}
			return "node " + node
		}
		return ScriptError{"DQLAYOUT", fmt.Sprintf("shard %d is recorded as kept by %s, and this client has it at %s: correct its nodes",
			shard, keeper(recorded), keeper(at))}
	}
	return nil
}

// errMoving says that a shard is not served yet by the node that it moves to.
var errMoving = errors.New("does not serve it yet")

// followMove has a shard that has moved to another node called and listened to there.
func (c *Client) followMove(shard int, to string) error {
	if c.nodeName(shard) == to {
		return fmt.Errorf("shard %d is moving to node %s, which %w", shard, to, errMoving)
	}
	several, is := c.redis.(*several)
	if !is || !several.move(shard, to) {
		return ScriptError{"DQLAYOUT", fmt.Sprintf("shard %d has moved to node %s, which is not among those given: add it", shard, to)}
	}
	c.waiters.listenAgain()
	return nil
}

// nodeName is what calls to a shard say behind the layout, "" where one Redis or a Redis Cluster keeps the deployment.
func (c *Client) nodeName(shard int) string {
	if several, is := c.redis.(*several); is {
		if node := several.node(shard); node != nil {
			return node.Name
		}
	}
	return ""
}
