// Connections to a Redis Cluster and by a Sentinel, used as they are given.

package delayq

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func freePort() int {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// startOn starts a redis-server on a free port.
func startOn(t *testing.T, settings ...string) (port int, server *exec.Cmd) {
	t.Helper()
	port = freePort()
	own := []string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", ""}
	if strings.HasPrefix(settings[0], "/") { // a configuration comes first
		own, settings = append(settings[:1:1], own...), settings[1:]
	}
	server = start("redis-server", append(own, settings...)...)
	t.Cleanup(func() { kill(server) })
	answers(plain(t, port))
	return port, server
}

func plain(t *testing.T, port int) *redis.Client {
	connection := redis.NewClient(&redis.Options{Addr: fmt.Sprint("127.0.0.1:", port)})
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// handsOver puts by a client, and works on what that stores, in turn.
func handsOver(t *testing.T, client *Client, ids []string, before func(id string)) {
	t.Helper()
	worker := work(t, client, "orders", nothing)
	for _, id := range ids {
		before(id)
		for stored := false; !stored; {
			put, err := client.Put(context.Background(), Message{Topic: "orders", ID: id})
			stored = err == nil && put.Accepted()
		}
		if one := within(t, id, worker.handed); one.ID != id {
			t.Fatal(one)
		}
	}
	if err := worker.close(t); err != nil {
		t.Fatal(err)
	}
}

func TestARedisClusterServesEveryShardAndItsWakeUpsAreHeardOnEveryNode(t *testing.T) {
	ctx, ranges := context.Background(), [][2]int{{0, 5460}, {5461, 10922}, {10923, 16383}}
	var nodes []*redis.Client
	for i := range ranges {
		bus := freePort()
		port, _ := startOn(t, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(bus))
		nodes = append(nodes, plain(t, port))
		must(nodes[i].ClusterAddSlotsRange(ctx, ranges[i][0], ranges[i][1]).Result())
		must(nodes[0].Do(ctx, "CLUSTER", "MEET", "127.0.0.1", port, bus).Result())
	}
	for _, node := range nodes {
		for len(must(node.ClusterSlots(ctx).Result())) < 3 || !strings.Contains(must(node.ClusterInfo(ctx).Result()), "cluster_state:ok") {
		}
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes[0].Options().Addr}})
	defer cluster.Close()
	var ids []string
	for n := 0; n < 24; n++ {
		ids = append(ids, fmt.Sprint("order-", n))
	}
	client := deployment(t, cluster, "fleet", 8)
	client.pollInterval = time.Minute // a poll would come too late
	handsOver(t, client, ids, func(string) {})
}

func TestAFailoverBySentinelIsFollowed(t *testing.T) {
	port, master := startOn(t, "--appendonly", "no")
	replicaPort, _ := startOn(t, "--replicaof", fmt.Sprint("127.0.0.1 ", port))
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	watched := fmt.Sprintf("sentinel monitor m 127.0.0.1 %d 1\nsentinel down-after-milliseconds m 300\n", port)
	if err := os.WriteFile(config, []byte(watched), 0o600); err != nil {
		t.Fatal(err)
	}
	sentinelPort, _ := startOn(t, config, "--sentinel")
	ctx, sentinel, replica := context.Background(), plain(t, sentinelPort), plain(t, replicaPort)
	for !strings.Contains(fmt.Sprint(must(sentinel.Do(ctx, "SENTINEL", "REPLICAS", "m").Result())), fmt.Sprint("127.0.0.1:", replicaPort)) {
	}
	for !strings.Contains(must(replica.Info(ctx, "replication").Result()), "master_link_status:up") {
	}
	connection := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{sentinel.Options().Addr}})
	defer connection.Close()
	client := deployment(t, connection, "fleet", 2)
	must(connection.Wait(ctx, 1, 0).Result())
	handsOver(t, client, []string{"before", "after"}, func(id string) {
		if id == "after" {
			kill(master)
		}
	})
}
