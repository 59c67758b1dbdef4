// The master that sentinels elect: sentinels that are silent, foreign, or name another master.

package delayq

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

var identities = []string{strings.Repeat("0a", 16), strings.Repeat("0b", 16)}

func freePort() string {
	probe := must(net.Listen("tcp", "127.0.0.1:0"))
	defer probe.Close()
	_, port, _ := net.SplitHostPort(probe.Addr().String())
	return port
}

// sentinel names a Redis as the master.
type sentinel struct {
	*redis.SentinelClient
	address string
	process *exec.Cmd
}

func startSentinel(t *testing.T, master string, epoch int) *sentinel {
	t.Helper()
	config, port := filepath.Join(t.TempDir(), "sentinel.conf"), freePort()
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 %s 1\nsentinel config-epoch mymaster %d\n", port, master, epoch)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &sentinel{address: "127.0.0.1:" + port, process: start("redis-server", config, "--sentinel")}
	s.SentinelClient = redis.NewSentinelClient(&redis.Options{Addr: s.address})
	t.Cleanup(func() { s.Close(); kill(s.process) })
	for s.Ping(context.Background()).Err() != nil {
	}
	return s
}

// watch has the sentinel watch another Redis under the same name.
func (s *sentinel) watch(port string) {
	must(s.Remove(context.Background(), "mymaster").Result())
	must(s.Monitor(context.Background(), "mymaster", "127.0.0.1", port, "1").Result())
}

func (s *sentinel) signal(signal os.Signal) {
	_ = s.process.Process.Signal(signal)
}

// fleet is two Redises, each with a deployment of the same name, and three sentinels that name the first.
type fleet struct {
	ports     []string
	redises   []*redis.Client
	sentinels []*sentinel
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{}
	for n := range identities {
		port := freePort()
		server := start("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", "")
		own := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		t.Cleanup(func() { own.Close(); kill(server) })
		answers(own)
		client := deployment(t, own, "fleet", 4)
		for shard := 0; shard < 4; shard++ {
			must(must(assemble(packed, "identify")).Eval(context.Background(), own, client.keys(shard), 1, identities[n]).Result())
		}
		f.ports, f.redises = append(f.ports, port), append(f.redises, own)
	}
	for range [3]int{} {
		f.sentinels = append(f.sentinels, startSentinel(t, f.ports[0], 0))
	}
	return f
}

// client connects by sentinels.
func (f *fleet) client(t *testing.T, service string) *Client {
	t.Helper()
	var addresses []string
	for _, one := range f.sentinels {
		addresses = append(addresses, one.address)
	}
	connection := Connect(must(ParseURL("redis+sentinel://" + strings.Join(addresses, ",") + "/" + service)))
	client := must(New(connection, "fleet"))
	t.Cleanup(func() { client.Close(); connection.Close() })
	return client
}

// drop ends the connections to the first Redis.
func (f *fleet) drop() {
	must(f.redises[0].ClientKillByFilter(context.Background(), "TYPE", "normal", "SKIPME", "yes").Result())
}

// isUntouched fails the test if the second Redis has got a message.
func (f *fleet) isUntouched(t *testing.T) {
	t.Helper()
	if keys := must(f.redises[1].Keys(context.Background(), "*:m:*").Result()); len(keys) > 0 {
		t.Fatal(keys)
	}
}

// refused puts until the error of a put contains each text.
func refused(t *testing.T, client *Client, texts ...string) {
	t.Helper()
	var err error
	for ends := time.Now().Add(20 * time.Second); time.Now().Before(ends); time.Sleep(5 * time.Millisecond) {
		_, err = client.Put(context.Background(), Message{Topic: "orders", ID: fmt.Sprint("refused-", time.Now().UnixNano())})
		missing := err == nil
		for _, text := range texts {
			missing = missing || !strings.Contains(err.Error(), text)
		}
		if !missing {
			return
		}
	}
	t.Fatal(err)
}

func TestOneForeignSentinelWithAHigherEpochOverrulesNobodyAndAFailoverGoesOnWithoutIt(t *testing.T) {
	f, group := startFleet(t), startGroup(t, "sentinel")
	t.Cleanup(group.end)
	foreign := startSentinel(t, f.ports[1], 9)
	options := must(ParseURL(group.url))
	options.Addrs = append([]string{foreign.address}, options.Addrs[:2]...)
	connection := Connect(options)
	t.Cleanup(func() { connection.Close() })
	client := deployment(t, connection, "fleet", 4)
	putAll(t, client, "before", 10)
	must(connection.ClientKillByFilter(context.Background(), "TYPE", "normal", "SKIPME", "no").Result())
	putAll(t, client, "again", 10)
	putWhile(t, client, "meanwhile", func() { group.does("kill", client.key(0, "meta")) })
	putAll(t, client, "after", 10)
	f.isUntouched(t)
}

func TestAMasterOfAnotherDeploymentIsNotFollowedEvenIfMostSentinelsNameIt(t *testing.T) {
	f := startFleet(t)
	client := f.client(t, "mymaster")
	putAll(t, client, "before", 4)
	for _, one := range f.sentinels[1:] {
		one.watch(f.ports[1])
	}
	refused(t, client, "127.0.0.1:"+f.ports[1]+", the master of mymaster: the sentinels name this Redis, but it keeps deployment 0b0b0b0b instead of 0a0a0a0a: correct")
	for _, one := range f.sentinels[1:] {
		one.watch(f.ports[0])
	}
	putAll(t, client, "after", 4)
	f.isUntouched(t)
}

func TestANodeOfAnotherDeploymentIsNotFollowedEvenIfMostSentinelsNameIt(t *testing.T) {
	f := startFleet(t)
	own := f.client(t, "mymaster").redis.(*redis.Client)
	for shard := 0; shard < 4; shard++ {
		must(f.redises[0].HSet(context.Background(), fmt.Sprintf("{fleet:%d}:meta", shard), "layout", "1@a").Result())
	}
	client := must(NewOfNodes([]Node{{"a", own, "0-3"}, {"b", connect(t), ""}}, "fleet"))
	t.Cleanup(client.Close)
	putAll(t, client, "before", 4)
	for _, one := range f.sentinels[1:] {
		one.watch(f.ports[1])
	}
	refused(t, client, "it keeps deployment 0b0b0b0b instead of 0a0a0a0a")
	f.isUntouched(t)
}

func TestADeploymentThatWasCreatedAgainAtTheSameMasterIsFollowed(t *testing.T) {
	f := startFleet(t)
	client := f.client(t, "mymaster")
	putAll(t, client, "before", 4)
	for shard := 0; shard < 4; shard++ {
		must(f.redises[0].HSet(context.Background(), client.key(shard, "meta"), "identity", identities[1]).Result())
	}
	f.drop()
	putAll(t, client, "after", 4)
}

func TestAReplicaThatTheSentinelsNameIsNotWrittenTo(t *testing.T) {
	f := startFleet(t)
	must(f.redises[0].SlaveOf(context.Background(), "127.0.0.1", f.ports[1]).Result())
	refused(t, f.client(t, "mymaster"), "the sentinels name this Redis, but it is a replica")
	f.isUntouched(t)
}

func TestEachSentinelIsNamedWithItsAnswerWhenMostDoNotNameOneMaster(t *testing.T) {
	f := startFleet(t)
	client := f.client(t, "mymaster")
	f.sentinels[1].watch(f.ports[1])
	kill(f.sentinels[2].process)
	refused(t, client, "cannot reach Redis: the sentinels do not agree on the master of mymaster: ",
		"sentinel "+f.sentinels[0].address+" names 127.0.0.1:"+f.ports[0]+" by epoch 0; ",
		"sentinel "+f.sentinels[1].address+" names 127.0.0.1:"+f.ports[1]+" by epoch 0; ",
		"sentinel "+f.sentinels[2].address+": dial tcp "+f.sentinels[2].address+": connect: connection refused")
	f.sentinels[1].watch(f.ports[0])
	putAll(t, client, "after", 4)
	f.isUntouched(t)
}

func TestSilentSentinelsAreNamedWhenNoSentinelAnswersAndAConnectedClientNeedsNone(t *testing.T) {
	f := startFleet(t)
	client := f.client(t, "mymaster")
	putAll(t, client, "connected", 1)
	for _, one := range f.sentinels {
		one.signal(syscall.SIGSTOP)
	}
	if _, err := client.Put(context.Background(), Message{Topic: "orders", ID: "without"}); err != nil {
		t.Fatal(err)
	}
	f.drop()
	refused(t, client, "no sentinel names the master of mymaster", "sentinel "+f.sentinels[0].address+": no reply; ",
		"sentinel "+f.sentinels[2].address+": no reply")
	f.sentinels[2].signal(syscall.SIGCONT)
	putAll(t, client, "after", 4)
}

func TestAClientBeginsAndGoesOnWithTheOneSentinelThatAnswers(t *testing.T) {
	f := startFleet(t)
	for _, one := range f.sentinels[:2] {
		one.signal(syscall.SIGSTOP)
	}
	client := f.client(t, "mymaster")
	putAll(t, client, "begun", 4)
	f.drop()
	putAll(t, client, "after", 4)
}

func TestAServiceThatNoSentinelKnowsIsNamed(t *testing.T) {
	f := startFleet(t)
	refused(t, f.client(t, "another"), "no sentinel names the master of another", ": no master named another")
}

func TestAFormerMasterIsLeftAlthoughItsSuccessorIsDead(t *testing.T) {
	f := startFleet(t)
	client := f.client(t, "mymaster")
	putAll(t, client, "connected", 4)
	successor := freePort()
	for _, one := range f.sentinels[:2] {
		one.watch(successor)
	}
	refused(t, client, "dial tcp 127.0.0.1:"+successor)
}

func TestAFailoverClientOfGoRedisIsRefusedByName(t *testing.T) {
	connection := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { connection.Close() })
	_, err := New(connection, "")
	_, fault := NewOfNodes([]Node{{"a", connect(t), "0"}, {"b", connection, ""}}, "")
	for _, err := range []error{err, fault} {
		if _, is := err.(InvalidMessage); !is || !strings.Contains(err.Error(), "use Connect") {
			t.Fatal(err)
		}
	}
}
