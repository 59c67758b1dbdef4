// Several independent Redises that share a deployment, each with some of the shards.

package delayq

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Node is one of several Redises, with a range of shards.
type Node struct {
	// Name is recorded by every shard of the node; a shard refuses calls addressed to another node.
	Name string
	// Redis connects to a Redis, or to a master behind sentinels (Connect).
	Redis *redis.Client
	// Shards are inclusive ranges, such as "0-7,16-19", including shards of a planned growth. "" means none yet.
	Shards string
}

var errNoNode = errors.New("no node given for the shard: add the node that has it")

// several replaces the connection of a client. The embedded client, of the first node, serves no shards.
type several struct {
	*redis.Client
	nodes []Node

	mu sync.RWMutex
	// homes is the index of the node by shard.
	homes []int
}

// NewOfNodes returns the client of a deployment over several Redises, given as in the configuration of delayq's programs. Every
// shard from 0 on needs a node.
func NewOfNodes(nodes []Node, namespace string) (*Client, error) {
	homes, err := homesOf(nodes)
	if err != nil {
		return nil, err
	}
	return New(&several{Client: nodes[0].Redis, nodes: nodes, homes: homes}, namespace)
}

func homesOf(nodes []Node) (homes []int, err error) {
	known, names := map[int]int{}, map[string]bool{}
	for n, node := range nodes {
		if err = first(err, checkName("namespace", node.Name)); err != nil {
			return nil, InvalidMessage(fmt.Sprintf("%.40q is not the name of a node: 1 to 32 of A-Z a-z 0-9 - _", node.Name))
		}
		if names[node.Name] {
			return nil, InvalidMessage("two nodes have the name " + node.Name)
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
		return nil, InvalidMessage("no node is given for any shard")
	}
	return homes, nil
}

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
			return nil, InvalidMessage(fmt.Sprintf("%.40q is not a list of shards: ranges of 0 to %d with both ends, such as 0-7,16-19", ranges, maxShards-1))
		}
		for shard := low; shard <= high; shard++ {
			shards = append(shards, int(shard))
		}
	}
	return shards, nil
}

// node returns the node of a shard; nil if unknown.
func (s *several) node(shard int) *Node {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if shard >= len(s.homes) {
		return nil
	}
	return &s.nodes[s.homes[shard]]
}

// move records the new node of a shard; false if the node or shard is unknown.
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

// layoutWord returns the first argument of a call: known layout, addressed node, required confirmations.
func (c *Client) layoutWord(layout, shard int, waits string) string {
	word := strconv.Itoa(layout)
	if node := c.nodeName(shard); node != "" {
		word += "@" + node
	}
	return strings.TrimSpace(word + " " + waits)
}

// checkNode returns an error if the shard is recorded at another node than in the client's list.
func (c *Client) checkNode(shard int, layout string) error {
	_, recorded, _ := strings.Cut(layout, "@")
	if at := c.nodeName(shard); recorded != "" && at != recorded {
		keeper := func(node string) string {
			if node == "" {
				return "one Redis without a node's name"
			}
			return "node " + node
		}
		return ScriptError{"DQLAYOUT", fmt.Sprintf("shard %d is recorded on %s, but this client has it on %s: correct its nodes",
			shard, keeper(recorded), keeper(at))}
	}
	return nil
}

// errMoving reports a shard that the new node does not serve yet.
var errMoving = errors.New("does not serve it yet")

// followMove redirects calls and listening to the new node of a shard.
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

// nodeName returns the node addressed by calls to a shard; "" for one Redis or a Redis Cluster.
func (c *Client) nodeName(shard int) string {
	if several, is := c.redis.(*several); is {
		if node := several.node(shard); node != nil {
			return node.Name
		}
	}
	return ""
}
