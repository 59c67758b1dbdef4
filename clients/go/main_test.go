// Real servers and helpers of all tests.

package delayq

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var folder, socket string

// TestMain starts a private redis-server on a unix socket in a temporary folder, and ends the server with the tests.
func TestMain(m *testing.M) {
	if namespace := os.Getenv("DELAYQ_TEST_PUMP"); namespace != "" {
		pumpInAProcess(namespace)
	}
	folder = must(os.MkdirTemp("", "delayq-go-"))
	socket = filepath.Join(folder, "s")
	server := start("redis-server", "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", "--appendonly", "no")
	probe := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	answers(probe)
	probe.Close()
	code := m.Run()
	kill(server)
	for _, group := range groups {
		group.end()
	}
	os.RemoveAll(folder)
	os.Exit(code)
}

func start(name string, args ...string) *exec.Cmd {
	server := exec.Command(name, args...)
	if err := server.Start(); err != nil {
		panic(err)
	}
	return server
}

func kill(server *exec.Cmd) {
	_ = server.Process.Kill()
	_ = server.Wait()
}

// answers waits until a Redis answers.
func answers(connection redis.UniversalClient) {
	for connection.Ping(context.Background()).Err() != nil {
	}
}

func connect(t *testing.T) *redis.Client {
	t.Helper()
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// deployment creates a deployment, with a client that is closed with the test.
func deployment(t *testing.T, connection redis.UniversalClient, namespace string, shards int) *Client {
	t.Helper()
	client := must(New(connection, namespace))
	t.Cleanup(client.Close)
	for shard := 0; shard < shards; shard++ {
		keys := client.keys(shard)
		word, node := client.layoutWord(1, shard, ""), must(nodeOf(context.Background(), connection, keys[0]))
		if made := must(must(assemble(packed, "init")).Eval(context.Background(), node, keys, word, shard, shards).Result()); made != "created" {
			t.Fatal(made)
		}
	}
	return client
}

// timed creates a deployment of 16 shards with a real timer.
func timed(t *testing.T, at, namespace string) *Client {
	t.Helper()
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: at})
	t.Cleanup(func() { _ = connection.Close() })
	client := deployment(t, connection, namespace, 16)
	startTimer(t, at, namespace, 16)
	return client
}

// startTimer starts a real timer.
func startTimer(t *testing.T, at, namespace string, shards int) *exec.Cmd {
	t.Helper()
	config := filepath.Join(t.TempDir(), "timer.toml")
	sections := fmt.Sprintf("[deployment]\nnamespace = %q\nshards = %d\n[redis]\nurl = \"unix://%s\"\n[etcd]\nenabled = false\n[admin]\nlisten = \"127.0.0.1:0\"\n", namespace, shards, at)
	if err := os.WriteFile(config, []byte(sections), 0o600); err != nil {
		t.Fatal(err)
	}
	program, is := os.LookupEnv("DELAYQ_TIMER")
	if !is {
		program = "../../target/debug/delayq-timer"
	}
	timer := start(program, config)
	t.Cleanup(func() { kill(timer) })
	return timer
}

// ownServer starts a redis-server that a test may freeze, kill and restart; data survives a restart.
func ownServer(t *testing.T) (at string, server func() *exec.Cmd, restart func()) {
	t.Helper()
	own := t.TempDir()
	at = filepath.Join(must(os.MkdirTemp(folder, "own")), "s")
	var running *exec.Cmd
	restart = func() {
		running = start("redis-server", "--port", "0", "--unixsocket", at, "--dir", own, "--save", "", "--appendonly", "yes",
			"--appendfsync", "no")
		probe := redis.NewClient(&redis.Options{Network: "unix", Addr: at})
		answers(probe)
		probe.Close()
	}
	restart()
	t.Cleanup(func() {
		_ = running.Process.Signal(syscall.SIGCONT)
		kill(running)
	})
	return at, func() *exec.Cmd { return running }, restart
}

func twoNodes(t *testing.T) []Node {
	nodes := []Node{{Name: "a", Shards: "0,2,4-4095"}, {Name: "b", Shards: "1,3"}}
	for n := range nodes {
		at, _, _ := ownServer(t)
		connection := redis.NewClient(&redis.Options{Network: "unix", Addr: at})
		t.Cleanup(func() { _ = connection.Close() })
		nodes[n].Redis = connection
	}
	return nodes
}

// redisGroup is a master with replicas and sentinels, the nodes of a cluster, or a master with a replica, of redis-server or of
// another program (tests/src/bin/redis-group.rs).
type redisGroup struct {
	url     string
	servers *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Scanner
}

// groups are the running groups by kind, shared by all tests.
var groups = map[string]*redisGroup{}

func groupOf(t *testing.T, what ...string) *redisGroup {
	t.Helper()
	kind := strings.Join(what, " ")
	if groups[kind] == nil {
		groups[kind] = startGroup(t, what...)
	}
	return groups[kind]
}

func startGroup(t *testing.T, what ...string) *redisGroup {
	t.Helper()
	program, is := os.LookupEnv("DELAYQ_REDIS_GROUP")
	if !is {
		program = "../../target/debug/redis-group"
	}
	servers := exec.Command(program, what...)
	input, output := must(servers.StdinPipe()), must(servers.StdoutPipe())
	servers.Stderr = os.Stderr
	if err := servers.Start(); err != nil {
		t.Fatal(err)
	}
	group := &redisGroup{servers: servers, input: input, output: bufio.NewScanner(output)}
	group.output.Scan()
	group.url = group.output.Text()
	return group
}

func (g *redisGroup) end() {
	g.input.Close()
	_ = g.servers.Wait()
}

// does kills, freezes, thaws or moves the master of a key, or the replica.
func (g *redisGroup) does(what, key string) {
	fmt.Fprintln(g.input, what, key)
	if !g.output.Scan() || g.output.Text() != "done" {
		panic("it could not " + what)
	}
}

func (g *redisGroup) connect(t *testing.T, change func(*redis.UniversalOptions)) redis.UniversalClient {
	t.Helper()
	options := must(ParseURL(g.url))
	if change != nil {
		change(options)
	}
	connection := Connect(options)
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// proxy forwards between client and server; after silence, open connections stay open without answers.
func proxy(t *testing.T, to string) (at string, silence func()) {
	t.Helper()
	at = filepath.Join(must(os.MkdirTemp(folder, "proxy")), "s")
	listener := must(net.Listen("unix", at))
	t.Cleanup(func() { listener.Close() })
	var generation atomic.Int32
	pass := func(from, into net.Conn, born int32) {
		for bytes := make([]byte, 1<<16); ; {
			n, err := from.Read(bytes)
			if err != nil || generation.Load() != born {
				return // without closing anything
			}
			_, _ = into.Write(bytes[:n])
		}
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server := must(net.Dial("unix", to))
			t.Cleanup(func() { client.Close(); server.Close() })
			go pass(client, server, generation.Load())
			go pass(server, client, generation.Load())
		}
	}()
	return at, func() { generation.Add(1) }
}

// commandsDuring returns the names of the commands that reach Redis meanwhile, without commands of scripts.
func commandsDuring(t *testing.T, connection *redis.Client, work func()) (seen []string) {
	t.Helper()
	monitor := must(net.Dial("unix", connection.Options().Addr))
	defer monitor.Close()
	fmt.Fprint(monitor, "MONITOR\r\n")
	lines := bufio.NewScanner(monitor)
	lines.Buffer(nil, 1<<24)
	lines.Scan() // OK
	work()
	must(connection.Echo(context.Background(), "the end").Result())
	for lines.Scan() && !strings.Contains(lines.Text(), "the end") {
		_, command, _ := strings.Cut(lines.Text(), "] \"")
		if !strings.Contains(lines.Text(), " lua] ") {
			name, _, _ := strings.Cut(command, "\"")
			seen = append(seen, strings.ToLower(name))
		}
	}
	return seen
}

func vectors(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "tests", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// within receives a value, and fails the test after 20 s.
func within[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case one := <-from:
		return one
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not come", what)
		panic("unreachable")
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
