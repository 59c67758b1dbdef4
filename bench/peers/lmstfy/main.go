// The rows of compare.py for lmstfy: lmstfy REDIS_PORT ROW COUNT IDS BYTES SERVER. It starts the server and speaks its HTTP API.
// Its messages have no ids of the producer's own, and its delays are whole seconds.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	callers = 64
	// The most that its call for many takes.
	bulk = 64
)

type bench struct {
	http  *http.Client
	queue string
	token string
	count int
	bytes int
}

type job struct {
	ID   string `json:"job_id"`
	Data []byte `json:"data"`
}

type order struct {
	Order int    `json:"order"`
	Text  string `json:"text"`
	DueMs int64  `json:"due,omitempty"`
}

func main() {
	count, err := strconv.Atoi(os.Args[3])
	check(err)
	bytes, err := strconv.Atoi(os.Args[5])
	check(err)
	b, stop := start(os.Args[1], os.Args[6])
	b.count, b.bytes = count, bytes
	rows := map[string]func() map[string]float64{
		"put_bulk":   func() map[string]float64 { return map[string]float64{"put_bulk": b.put(b.fillInBulk)} },
		"put_single": func() map[string]float64 { return map[string]float64{"put_single": b.put(b.fillOneByOne)} },
		"memory":     b.memory, "storm": b.storm, "lateness": b.lateness, "take": b.take,
	}
	figures := rows[os.Args[2]]()
	stop()
	check(json.NewEncoder(os.Stdout).Encode(figures))
}

// start starts the server on this Redis and asks it for a token.
func start(redisPort, server string) (*bench, func()) {
	folder, err := os.MkdirTemp("", "delayq-lmstfy-")
	check(err)
	port, admin := freePort(), freePort()
	config := fmt.Sprintf(
		"Host = \"127.0.0.1\"\nPort = %d\nAdminHost = \"127.0.0.1\"\nAdminPort = %d\nLogLevel = \"error\"\nEnableAccessLog = false\n"+
			"[Accounts]\nbench = \"bench\"\n[AdminRedis]\nAddr = \"127.0.0.1:%s\"\nDB = 1\n[Pool]\n[Pool.default]\nAddr = \"127.0.0.1:%s\"\n",
		port, admin, redisPort, redisPort)
	path := filepath.Join(folder, "lmstfy.toml")
	check(os.WriteFile(path, []byte(config), 0o600))
	process := exec.Command(server, "-c", path)
	process.Stderr = os.Stderr
	check(process.Start())
	b := &bench{
		http:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2 * callers}},
		queue: fmt.Sprintf("http://127.0.0.1:%d/api/bench/orders", port),
	}
	tokens := fmt.Sprintf("http://bench:bench@127.0.0.1:%d/token/bench?description=bench", admin)
	for deadline := time.Now().Add(10 * time.Second); b.token == ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			log.Fatal("lmstfy gave no token in 10 s")
		}
		answer, err := b.http.Post(tokens, "", nil)
		if err != nil {
			continue
		}
		var given struct {
			Token string `json:"token"`
		}
		check(json.NewDecoder(answer.Body).Decode(&given))
		check(answer.Body.Close())
		b.token = given.Token
	}
	return b, func() {
		check(process.Process.Kill())
		_ = process.Wait()
		check(os.RemoveAll(folder))
	}
}

func freePort() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// call sends one request; a status that is neither wanted nor 404 ends the program.
func (b *bench) call(method, path string, body []byte, wanted int) ([]byte, bool) {
	request, err := http.NewRequest(method, b.queue+path, bytes.NewReader(body))
	check(err)
	request.Header.Set("X-Token", b.token)
	answer, err := b.http.Do(request)
	check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(err)
	if answer.StatusCode != wanted && answer.StatusCode != http.StatusNotFound {
		log.Fatalf("lmstfy answered %s to %s %s: %s", answer.Status, method, path, text)
	}
	return text, answer.StatusCode == wanted
}

func (b *bench) body(n int, dueMs int64) []byte {
	text, err := json.Marshal(order{n, strings.Repeat("x", b.bytes-22-len(strconv.Itoa(n))), dueMs})
	check(err)
	return text
}

func (b *bench) each(step int, work func(n int)) {
	var all sync.WaitGroup
	var next atomic.Int64
	for range callers {
		all.Go(func() {
			for n := int(next.Add(int64(step))) - step; n < b.count; n = int(next.Add(int64(step))) - step {
				work(n)
			}
		})
	}
	all.Wait()
}

func delay(due time.Time) string {
	return "delay=" + strconv.Itoa(max(0, int(time.Until(due).Round(time.Second).Seconds()))) + "&tries=2&ttl=0"
}

func (b *bench) fillOneByOne(due func(n int) time.Time) {
	b.each(1, func(n int) {
		b.call("PUT", "?"+delay(due(n)), b.body(n, due(n).UnixMilli()), http.StatusCreated)
	})
}

// fillInBulk puts messages of one due time.
func (b *bench) fillInBulk(due func(n int) time.Time) {
	b.each(bulk, func(first int) {
		var jobs []json.RawMessage
		for n := first; n < min(first+bulk, b.count); n++ {
			jobs = append(jobs, b.body(n, 0))
		}
		text, err := json.Marshal(jobs)
		check(err)
		b.call("PUT", "/bulk?"+delay(due(first)), text, http.StatusCreated)
	})
}

func (b *bench) put(fill func(func(int) time.Time)) float64 {
	start := time.Now()
	fill(func(int) time.Time { return start.Add(time.Hour) })
	return float64(b.count) / time.Since(start).Seconds()
}

// memory fills; bytes are counted by who asks.
func (b *bench) memory() map[string]float64 {
	start := time.Now().Add(time.Hour)
	b.fillOneByOne(func(n int) time.Time { return start.Add(time.Duration(n) * 10 * time.Millisecond) })
	return map[string]float64{}
}

func (b *bench) storm() map[string]float64 {
	due := time.Now().Add(10 * time.Second)
	b.fillInBulk(func(int) time.Time { return due })
	time.Sleep(time.Until(due))
	for b.size() < b.count {
		time.Sleep(2 * time.Millisecond)
	}
	return map[string]float64{"storm": time.Since(due).Seconds()}
}

func (b *bench) size() int {
	text, _ := b.call("GET", "/size", nil, http.StatusOK)
	var answer struct {
		Size int `json:"size"`
	}
	check(json.Unmarshal(text, &answer))
	return answer.Size
}

func (b *bench) lateness() map[string]float64 {
	start := time.Now().Add(8 * time.Second)
	dues := make([]time.Time, b.count)
	for n := range dues {
		dues[n] = start.Add(time.Duration(rand.Intn(b.count)) * time.Millisecond)
	}
	b.fillOneByOne(func(n int) time.Time { return dues[n] })
	type taken struct {
		at   time.Time
		data []byte
	}
	came := make(chan taken, 2*b.count)
	b.work(func(data []byte) { came <- taken{time.Now(), data} })
	all, orders, early := make([]float64, b.count), make([][]byte, b.count), 0.0
	for n := range all {
		one := <-came
		orders[n] = one.data
		all[n] = float64(one.at.Sub(time.UnixMilli(orderOf(one.data).DueMs)).Microseconds()) / 1000
		if all[n] < 0 {
			early++
		}
	}
	slices.Sort(all)
	at := func(part float64) float64 { return all[min(b.count-1, int(float64(b.count)*part))] }
	return map[string]float64{"p50": at(0.5), "p99": at(0.99), "max": at(1), "early": early, "distinct": distinct(orders)}
}

func (b *bench) take() map[string]float64 {
	b.fillInBulk(func(int) time.Time { return time.Now() })
	came := make(chan []byte, 2*b.count)
	start := time.Now()
	b.work(func(data []byte) { came <- data })
	rate := float64(b.count) / time.Since(start).Seconds()
	orders := make([][]byte, b.count)
	for n := range orders {
		orders[n] = <-came
	}
	return map[string]float64{"take": rate, "distinct": distinct(orders)}
}

func orderOf(data []byte) (got order) {
	check(json.Unmarshal(data, &got))
	return got
}

// distinct counts the orders.
func distinct(all [][]byte) float64 {
	orders := make(map[int]bool, len(all))
	for _, data := range all {
		orders[orderOf(data).Order] = true
	}
	return float64(len(orders))
}

// work takes and acks all messages by 64 workers.
func (b *bench) work(handle func(data []byte)) {
	var done atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for int(done.Load()) < b.count {
				text, found := b.call("GET", "?timeout=1&ttr=60", nil, http.StatusOK)
				if !found {
					continue
				}
				var got job
				check(json.Unmarshal(text, &got))
				handle(got.Data)
				b.call("DELETE", "/job/"+got.ID, nil, http.StatusNoContent)
				done.Add(1)
			}
		})
	}
	all.Wait()
}

func check(err error) {
	if err != nil {
		log.Fatal(fmt.Errorf("lmstfy: %w", err))
	}
}
