// Connections to the master that sentinels elect. Each new connection checks that the Redis is a master and keeps the same
// deployment as the master before.

package delayq

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Pause between questions while calls are made: a former master that is cut off from sentinels, but not from clients, accepts
	// writes that are lost.
	askEvery = time.Second
	// Maximum shards by which a deployment is recognised; a node may have given some shards away.
	maxMarks = 8
)

// Connect connects as redis.NewUniversalClient does, except that a majority of the sentinels names the master.
func Connect(options *redis.UniversalOptions) redis.UniversalClient {
	if options.MasterName == "" {
		return redis.NewUniversalClient(options)
	}
	own := options.Simple()
	if own.DialTimeout == 0 {
		own.DialTimeout = dialTimeout
	}
	s := &sentinels{options: options, dialer: own.Dialer, greeted: own.OnConnect, open: map[*served]bool{}, marks: map[string]mark{}}
	if s.dialer == nil {
		s.dialer = redis.NewDialer(own)
	}
	own.Addr, own.Dialer, own.OnConnect, own.Limiter = options.MasterName, s.dial, s.greet, s
	return redis.NewClient(own)
}

// sentinels elect the master of a connection. As its Limiter, sentinels hear of each call before and after.
type sentinels struct {
	options *redis.UniversalOptions
	dialer  func(ctx context.Context, network, address string) (net.Conn, error)
	greeted func(ctx context.Context, connection *redis.Conn) error

	electing sync.Mutex
	// began is the time of the last election.
	began time.Time

	mu     sync.Mutex
	master string
	// elected is why the last election had no result.
	elected error
	due     time.Time
	open    map[*served]bool
	marks   map[string]mark
}

// mark is the deployment of a shard, with the master that kept the shard; empty before the first answer.
type mark struct{ identity, master string }

// Allow has the sentinels asked in the background when that is due. Without a connection and an elected master, calls fail at
// once: go-redis would dial again and again.
func (s *sentinels) Allow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.After(s.due) {
		s.due = now.Add(askEvery)
		go s.elect()
	}
	if len(s.open) == 0 {
		return s.elected
	}
	return nil
}

// ReportResult makes a question due after a lost call, and by a Redis that has become a replica.
func (s *sentinels) ReportResult(err error) {
	if _, isAnswer := err.(redis.Error); err != nil && (!isAnswer || refusedAs(err, "READONLY")) {
		s.mu.Lock()
		s.due = time.Time{}
		s.mu.Unlock()
	}
}

// served is a connection to a master.
type served struct {
	net.Conn
	master string
	by     *sentinels
}

// checked is a connection whose end go-redis notices.
type checked struct {
	*served
	syscall.Conn
}

// dial connects to the present master.
func (s *sentinels) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	master, err := s.elect()
	if err != nil {
		return nil, err
	}
	connection, err := s.dialer(ctx, network, master)
	if err != nil {
		return nil, err
	}
	one := &served{connection, master, s}
	s.mu.Lock()
	s.open[one] = true
	isFormer := master != s.master
	s.mu.Unlock()
	if isFormer {
		one.cut() // another Redis has become the master meanwhile
	}
	if raw, is := connection.(syscall.Conn); is {
		return checked{one, raw}, nil
	}
	return one, nil
}

func (c *served) Close() error {
	c.by.mu.Lock()
	delete(c.by.open, c)
	c.by.mu.Unlock()
	return c.Conn.Close()
}

// cut ends a connection without the farewell of TLS.
func (c *served) cut() {
	connection := c.Conn
	if secure, is := connection.(interface{ NetConn() net.Conn }); is {
		connection = secure.NetConn()
	}
	_ = connection.Close()
}

// recognise has new connections checked for the deployment of these shards.
func (s *sentinels) recognise(metas []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, meta := range metas {
		s.marks[meta] = s.marks[meta]
	}
}

// greet checks, before any write, that a new connection leads to a master of the same deployment.
func (s *sentinels) greet(ctx context.Context, connection *redis.Conn) error {
	pipe, found := connection.Pipeline(), map[string]*redis.SliceCmd{}
	role := pipe.Do(ctx, "role")
	s.mu.Lock()
	master := s.master // the connection to a former master has ended by then
	for meta := range s.marks {
		found[meta] = pipe.HMGet(ctx, meta, "identity")
	}
	s.mu.Unlock()
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	fault := s.compare(master, found)
	if words, _ := role.Slice(); len(words) == 0 || words[0] != "master" {
		fault = "it is a replica"
	}
	if fault != "" {
		return fmt.Errorf("cannot reach Redis at %s, the master of %s: the sentinels name this Redis, but %s", master, s.options.MasterName, fault)
	}
	if s.greeted == nil {
		return nil
	}
	return s.greeted(ctx, connection)
}

// compare notes the deployment of a master, and returns why the master is not to be followed.
func (s *sentinels) compare(master string, found map[string]*redis.SliceCmd) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for meta, answer := range found {
		identity, is := answer.Val()[0].(string)
		known := s.marks[meta]
		if !is { // an empty Redis is refused by its shards
			continue
		}
		// A deployment that was created again is at the same master.
		if known.identity != "" && known.identity != identity && known.master != master {
			return fmt.Sprintf("it keeps deployment %.8s instead of %.8s: correct the masters that the sentinels watch, or restart this process if the deployment was created again",
				identity, known.identity)
		}
		s.marks[meta] = mark{identity, master}
	}
	return ""
}

// recognise has the sentinels of each Redis follow only masters of this deployment.
func (c *Client) recognise() error {
	metas := map[*redis.Client][]string{}
	switch all := c.redis.(type) {
	case *redis.Client:
		metas[all] = []string{c.key(0, metaKey)}
	case *several:
		for n, node := range all.nodes {
			metas[node.Redis] = nil
			for shard, home := range all.homes {
				if home == n && len(metas[node.Redis]) < maxMarks {
					metas[node.Redis] = append(metas[node.Redis], c.key(shard, metaKey))
				}
			}
		}
	}
	for client, some := range metas {
		if s, is := client.Options().Limiter.(*sentinels); is {
			s.recognise(some)
		} else if client.Options().Addr == "FailoverClient" {
			return InvalidMessage("a failover client of go-redis follows the first sentinel that answers, also a foreign one: use Connect")
		}
	}
	return nil
}
