// The real Redis of all tests, and what they share.

package delayq

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"
)

var socket string

// TestMain starts a private redis-server on a unix socket in a temporary folder, and ends it with the tests.
func TestMain(m *testing.M) {
	os.Exit(withServer(m.Run))
}

func withServer(run func() int) int {
	folder, err := os.MkdirTemp("", "delayq-go-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	socket = filepath.Join(folder, "s")
	server := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "",
		"--appendonly", "no")
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	probe := redis.NewClient(&redis.Options{Network: "unix", Addr: socket, MaxRetries: 500, MaxRetryBackoff: 20_000_000})
	defer probe.Close()
	if err := probe.Ping(context.Background()).Err(); err != nil {
		panic(fmt.Sprintf("redis-server does not answer: %v", err))
	}
	return run()
}

func connect(t *testing.T) *redis.Client {
	t.Helper()
	connection := redis.NewClient(&redis.Options{Network: "unix", Addr: socket})
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// vectors reads a file of the vectors that all clients share.
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

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
