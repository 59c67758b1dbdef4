// Durability: writes that are answered only after replicas or disk confirm.

package delayq

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// pairs start a master with a replica, of each available server: without WAITAOF, and with WAITAOF.
func pairs(t *testing.T, test func(t *testing.T, group *redisGroup, hasWaitAOF bool)) {
	for name, program := range map[string]string{"redis": "", "valkey": valkeyServer()} {
		t.Run(name, func(t *testing.T) {
			what := []string{"replica"}
			if name == "valkey" {
				if program == "" {
					t.Skip("no valkey-server on the PATH and no DELAYQ_TEST_VALKEY")
				}
				what = append(what, program)
			}
			group := groupOf(t, what...)
			info := must(group.connect(t, nil).Info(context.Background(), "server").Result())
			version := regexp.MustCompile(`redis_version:(\d+)\.(\d+)`).FindStringSubmatch(info)
			test(t, group, atoi(version[1])*100+atoi(version[2]) >= 702)
		})
	}
}

func valkeyServer() string {
	if path := os.Getenv("DELAYQ_TEST_VALKEY"); path != "" {
		return path
	}
	path, _ := exec.LookPath("valkey-server")
	return path
}

func TestEveryStepOfWritesThatAreWaitedForGetsTheAnswerThatAllClientsGet(t *testing.T) {
	for _, kind := range []string{"sentinel", "cluster"} {
		t.Run("of a "+kind, func(t *testing.T) {
			group := groupOf(t, kind)
			connection := group.connect(t, func(options *redis.UniversalOptions) { options.ReadTimeout = time.Minute })
			for _, scenario := range waitedFor(t) {
				if scenario.Groups {
					scenario.carryOut(t, group, connection, "d-groups")
				}
			}
		})
	}
	pairs(t, func(t *testing.T, group *redisGroup, hasWaitAOF bool) {
		connection := group.connect(t, func(options *redis.UniversalOptions) { options.ReadTimeout = time.Minute })
		for number, scenario := range waitedFor(t) {
			t.Run(scenario.Name, func(t *testing.T) {
				if scenario.HasWaitAOF != nil && *scenario.HasWaitAOF != hasWaitAOF {
					t.Skip("for other servers")
				}
				scenario.carryOut(t, group, connection, fmt.Sprint("d", number))
			})
		}
	})
}

// waitedForScenario is one scenario of tests/vectors/durability.json.
type waitedForScenario struct {
	Name       string
	Shards     int
	HasWaitAOF *bool `json:"has_waitaof"`
	Groups     bool
	Steps      []step
}

func waitedFor(t *testing.T) []waitedForScenario {
	var suite struct{ Scenarios []waitedForScenario }
	vectors(t, "durability.json", &suite)
	return suite.Scenarios
}

func (s waitedForScenario) carryOut(t *testing.T, group *redisGroup, connection redis.UniversalClient, namespace string) {
	if s.Shards == 0 {
		s.Shards = 1
	}
	patient := deployment(t, connection, namespace, s.Shards)
	impatient := must(New(connection, namespace))
	t.Cleanup(impatient.Close)
	patient.Timeout, impatient.Timeout, impatient.ConfirmTimeout = time.Minute, time.Minute, 200*time.Millisecond
	r := run{t: t, client: patient, redis: connection, namespace: namespace, bound: map[string]any{},
		group: group, patient: patient, impatient: impatient}
	for i, step := range s.Steps {
		r.carryOut(step, fmt.Sprintf("step %d (%s)", i+1, step.Op))
	}
}

func TestAFrozenReplicaHoldsUpOnlyThoseWhoWaitForIt(t *testing.T) {
	pairs(t, func(t *testing.T, group *redisGroup, _ bool) {
		ctx := context.Background()
		connection := group.connect(t, func(options *redis.UniversalOptions) { options.ReadTimeout = 10 * time.Minute })
		client := deployment(t, connection, "held", 1)
		client.Timeout = 10 * time.Minute
		policy := must(client.Topic("orders").SetPolicy(ctx, Policy{Durability: Set("replica:1")}))
		if *policy.Durability != "replica:1" {
			t.Fatal(policy)
		}
		must(client.Put(ctx, Message{Topic: "orders"}))
		group.does("freeze", "")
		waiting := make(chan Outcome, 1)
		go func() { waiting <- must(client.Put(ctx, Message{Topic: "orders", Due: After(time.Hour)})) }()
		for !strings.Contains(must(connection.ClientList(ctx).Result()), "cmd=wait ") {
		}
		must(client.Put(ctx, Message{Topic: "mails"}))
		select {
		case put := <-waiting:
			t.Error(put)
		default:
		}
		group.does("thaw", "")
		if put := within(t, "the put", waiting); put.Word != Stored {
			t.Fatal(put)
		}
	})
}

func TestWhatWaitsLeavesHalfOfASmallPoolToOthers(t *testing.T) {
	for size, turns := range map[int]int{1: 1, 2: 1, 7: 3, 16: maxWaiting, 100: maxWaiting} {
		connection := redis.NewClient(&redis.Options{PoolSize: size})
		if got := turnsOf(connection); got != turns {
			t.Error(size, got)
		}
		connection.Close()
	}
}
