// The test vectors shared by all clients.

package delayq

import (
	"encoding/hex"
	"fmt"
	"math"
	"net"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

type backoffSaid struct {
	Kind     string  `json:"kind"`
	DelaysMs []int64 `json:"delays_ms"`
}

type messageSaid struct {
	Topic       string       `json:"topic"`
	ID          string       `json:"id"`
	Payload     string       `json:"payload"`
	Group       string       `json:"group"`
	Headers     [][2]string  `json:"headers"`
	ExpiresMs   int64        `json:"expires_ms"`
	MaxAttempts uint16       `json:"max_attempts"`
	Backoff     *backoffSaid `json:"backoff"`
}

func (b *backoffSaid) backoff() Backoff {
	if b == nil {
		return Backoff{}
	}
	var delays []time.Duration
	for _, ms := range b.DelaysMs {
		delays = append(delays, millisOf(ms))
	}
	switch b.Kind {
	case "fixed":
		return Fixed(delays[0])
	case "exponential":
		return Exponential(delays[0], delays[1])
	}
	return List(delays...)
}

func headersOf(said [][2]string) []Header {
	var headers []Header
	for _, pair := range said {
		headers = append(headers, Header{pair[0], pair[1]})
	}
	return headers
}

// Vectors of invalid back-offs, which count as missing and keep no message from a worker.
var notRefused = regexp.MustCompile(`^a (.*back-off|list of no back-offs)`)

func TestAnEnvelopeIsReadAsItIsStored(t *testing.T) {
	var file struct {
		Valid []struct {
			Name, Hex string
			Envelope  struct {
				messageSaid
				State        State  `json:"state"`
				DueMs        int64  `json:"due_ms"`
				AtMs         int64  `json:"at_ms"`
				Delivery     uint32 `json:"delivery"`
				Attempt      uint16 `json:"attempt"`
				Doomed       bool   `json:"doomed"`
				Blocks       bool   `json:"blocks"`
				Held         bool   `json:"held"`
				HasSuccessor bool   `json:"has_successor"`
				Paused       bool   `json:"paused"`
				Blocked      bool   `json:"blocked"`
				Zstd         bool   `json:"zstd"`
				Reason       string `json:"reason"`
				Hash         string `json:"hash"`
			}
		}
		Refused []struct{ Name, Hex, Error string }
	}
	vectors(t, "envelope.json", &file)
	for _, c := range file.Valid {
		said := c.Envelope
		var got Envelope
		err := got.read(string(must(hex.DecodeString(c.Hex))))
		want := Envelope{State: said.State, Due: time.UnixMilli(said.DueMs), At: time.UnixMilli(said.AtMs), Number: said.Delivery,
			Attempt: said.Attempt, MaxAttempts: said.MaxAttempts, Doomed: said.Doomed, Blocks: said.Blocks, Held: said.Held, Paused: said.Paused,
			HasSuccessor: said.HasSuccessor, Blocked: said.Blocked, Backoff: said.Backoff.backoff(),
			Group: said.Group, Headers: headersOf(said.Headers), Payload: must(hex.DecodeString(said.Payload)), Compressed: said.Zstd,
			Reason: said.Reason, ContentHash: said.Hash}
		if said.ExpiresMs != 0 {
			want.Expires = time.UnixMilli(said.ExpiresMs)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, not %+v", c.Name, got, err, want)
		}
	}
	for _, c := range file.Refused {
		if notRefused.MatchString(c.Name) {
			continue
		}
		err := new(Envelope).read(string(must(hex.DecodeString(c.Hex))))
		if err == nil || strings.Contains(err.Error(), "newer") != (c.Error == "newer") {
			t.Errorf("%s: got %v, not %s", c.Name, err, c.Error)
		}
	}
}

func TestAPutSendsWhatAllClientsSend(t *testing.T) {
	var file struct {
		Puts []struct {
			Name     string
			Message  messageSaid
			Hash     *string
			Envelope string
		}
	}
	vectors(t, "put.json", &file)
	for _, c := range file.Puts {
		message := Message{Topic: c.Message.Topic, Payload: must(hex.DecodeString(c.Message.Payload)), Group: c.Message.Group,
			Headers: headersOf(c.Message.Headers), MaxAttempts: c.Message.MaxAttempts, Backoff: c.Message.Backoff.backoff()}
		if c.Message.ExpiresMs != 0 {
			message.Expires = time.UnixMilli(c.Message.ExpiresMs)
		}
		if hash := hex.EncodeToString([]byte(message.contentHash())); c.Hash != nil && hash != *c.Hash {
			t.Errorf("%s: hash %s, not %s", c.Name, hash, *c.Hash)
		}
		got := must(message.envelope(!generated(must(idBytes(c.Message.ID))), maxPayloadBytes))
		if hex.EncodeToString([]byte(got)) != c.Envelope {
			t.Errorf("%s: envelope %x, not %s", c.Name, got, c.Envelope)
		}
	}
}

func TestNamesAndIDsAreTheSameEverywhere(t *testing.T) {
	var file struct {
		CRC32 []struct {
			Name   string
			Shards map[string]int
		}
		IDs []struct {
			Text, Hex string
			Shard     *int
		}
		StoredIDs []struct{ ID, Group, Hex string } `json:"stored_ids"`
		OddIDs    []struct{ Text, Hex string }      `json:"odd_ids"`
		OddTopics []struct{ Text, Hex string }      `json:"odd_topics"`
		Refused   map[string][]string
	}
	vectors(t, "names.json", &file)
	for _, c := range file.CRC32 {
		for shards, shard := range c.Shards {
			if got := placesOf(c.Name, []int{must(strconv.Atoi(shards))}); got[0] != shard {
				t.Errorf("%q of %s shards: %d, not %d", c.Name, shards, got, shard)
			}
		}
	}
	for _, c := range file.IDs {
		raw := must(idBytes(c.Text))
		if hex.EncodeToString([]byte(raw)) != c.Hex || idText(raw) != c.Text || generated(raw) != (c.Shard != nil) {
			t.Errorf("%s is %x, %s", c.Text, raw, idText(raw))
		}
		if c.Shard != nil && placesOf(raw, nil)[0] != *c.Shard {
			t.Errorf("%s is in shard %d", c.Text, placesOf(raw, nil))
		}
	}
	for _, c := range file.StoredIDs {
		stored := must(storedID(c.ID, c.Group))
		id, group := idAndGroup(stored)
		if hex.EncodeToString([]byte(stored)) != c.Hex || id != c.ID || group != c.Group && !generated(stored) {
			t.Errorf("%s in group %q is %x, %s in %q", c.ID, c.Group, stored, id, group)
		}
	}
	for _, c := range file.OddIDs {
		raw := string(must(hex.DecodeString(c.Hex)))
		id, group := idAndGroup(raw)
		if id != c.Text || group != "" || must(storedID(c.Text, "")) != raw || must(storedID(c.Text, "g")) != raw || checkNewID(c.Text) == nil {
			t.Errorf("%s is %s in %q", c.Text, id, group)
		}
	}
	for _, c := range file.OddTopics {
		raw := string(must(hex.DecodeString(c.Hex)))
		if topicText(raw) != c.Text || must(topicArg(c.Text)) != raw || checkName("topic", c.Text) == nil {
			t.Errorf("%s is %s", c.Text, topicText(raw))
		}
	}
	for what, names := range file.Refused {
		for _, name := range append(names, "\xff") {
			err := checkName(what, name)
			if what == "id" {
				_, err = idBytes(name)
			}
			if err == nil {
				t.Errorf("%s %q is taken", what, name)
			}
		}
	}
}

func TestAGeneratedIDCarriesItsShard(t *testing.T) {
	for _, shard := range []int{0, 1, 255, 4095} {
		id := generateID(shard)
		if raw := must(idBytes(id)); placesOf(raw, nil)[0] != shard || idText(raw) != id {
			t.Errorf("%s is in shard %d, not %d", id, placesOf(raw, nil), shard)
		}
	}
}

func TestAScriptIsPutTogetherAsEverywhere(t *testing.T) {
	var file struct {
		Verb, SHA1 string
		Files      map[string]string
	}
	vectors(t, "assembly.json", &file)
	folder := fstest.MapFS{}
	for name, text := range file.Files {
		folder["lua/"+name+".lua"] = &fstest.MapFile{Data: []byte(text)}
	}
	got := must(assemble(folder, file.Verb))
	if got.Hash() != file.SHA1 {
		t.Errorf("got %+v", got)
	}
}

func TestAURLSaysTheHostsAndTheLoginAsEverywhere(t *testing.T) {
	var cases struct {
		URLs []struct {
			URL, Kind, Username, Password, Service string
			TLS                                    bool
			Nodes                                  [][2]any
			DB                                     int
		}
		Refused []struct{ URL, Named string }
	}
	vectors(t, "urls.json", &cases)
	for _, said := range cases.URLs {
		options := must(ParseURL(said.URL))
		var nodes []string
		for _, node := range said.Nodes {
			nodes = append(nodes, net.JoinHostPort(node[0].(string), fmt.Sprint(node[1])))
		}
		same := reflect.DeepEqual(options.Addrs, nodes) && options.Username == said.Username && options.Password == said.Password
		same = same && options.MasterName == said.Service && options.DB == said.DB && (options.TLSConfig != nil) == said.TLS
		if !same || options.IsClusterMode != (said.Kind == "cluster") || options.MaxRetries != -1 {
			t.Fatal(said, options)
		}
	}
	for _, said := range cases.Refused {
		if _, err := ParseURL(said.URL); err == nil || !strings.Contains(err.Error(), said.Named) || strings.Contains(err.Error(), "ter2") {
			t.Fatal(said, err)
		}
	}
}

// owned returns a shard that was claimed, on a local clock that runs like Redis's.
func owned(claimed, redisMs float64) *shard {
	s := newShard()
	s.clock.hear(int64(redisMs*1000), redisMs, redisMs)
	s.sends("claim")
	s.own(1, claimed)
	return s
}

func TestAWorkerThatPumpsDoesNextWhatAllClientsDo(t *testing.T) {
	var said struct {
		Lock  float64 `json:"lock_ms"`
		Poll  float64 `json:"poll_ms"`
		Owned []struct {
			Name, Does string
			Now        float64  `json:"now_ms"`
			Claimed    float64  `json:"claimed_ms"`
			Pumped     float64  `json:"pumped_ms"`
			Due        *float64 `json:"next_due_ms"`
			Woken      *int64   `json:"woken_ms"`
			In         float64  `json:"in_ms"`
			More       bool
			Errors     int `json:"pump_errors"`
		}
		Claims []struct {
			Event  string
			Lock   *int64  `json:"lock_ms"`
			In     float64 `json:"claim_in_ms"`
			Random float64 `json:"random_ms"`
		}
	}
	vectors(t, "pumping.json", &said)
	if said.Lock != lockMs || said.Poll != pollAfter {
		t.Error(said.Lock, said.Poll)
	}
	for _, one := range said.Owned {
		s, due := owned(one.Claimed, one.Now), math.Inf(1)
		s.sends("pump")
		if one.Woken != nil {
			s.woken(fmt.Sprint(*one.Woken), one.Pumped)
		}
		for n := 0; n < one.Errors; n++ {
			s.fail("pump", one.Pumped)
		}
		if one.Due != nil {
			due = *one.Due
		}
		if one.Errors == 0 {
			s.answer(due, false, !one.More && due <= one.Pumped, one.Pumped)
		}
		if verb, at := s.next(one.Now); verb != one.Does || math.Max(at-one.Now, 0) != one.In {
			t.Errorf("%s: %s in %v ms", one.Name, verb, at-one.Now)
		}
	}
	const now = 100_000.0
	for _, one := range said.Claims {
		s := newShard()
		s.sends("claim")
		switch one.Event {
		case "claimed":
			s.own(1, now)
		case "owned":
			rest := watchAfter
			if one.Lock != nil {
				rest = afterLock(*one.Lock)
			}
			s.lose(now, rest)
		case "free":
			s.lose(now, watchAfter)
			s.woken("free", now)
		case "free during the claim":
			s.woken("free", now)
			s.lose(now, afterLock(5_000))
		case "fenced":
			s.own(1, now)
			s.lose(now, watchAfter)
		case "error":
			s.fail("claim", now)
		case "pumps were not answered for 10 s":
			s.own(1, now-10_000)
			s.own(1, now)
		default:
			t.Error(one.Event)
		}
		if found := s.claimAt - now; found < one.In || found > one.In+one.Random {
			t.Errorf("%s: a claim in %v ms", one.Event, found)
		}
	}
}

func TestAClockThatJumpedHoldsItsShardUntilItWasSteadyForTenSeconds(t *testing.T) {
	s := owned(0, 0)
	does := func(at float64, want string) {
		t.Helper()
		if verb, _ := s.next(at); verb != want {
			t.Fatalf("at %v: %s", at, verb)
		}
	}
	hear := func(ahead, at float64) { s.clock.hear(int64((ahead+at)*1000), at, at+1) }
	s.answer(math.Inf(1), false, false, 0)
	for _, jump := range []float64{5_000, -5_000} {
		hear(s.clock.aheadMs+jump, 1_000)
		does(1_000, "hold")
		s.answer(0, true, false, 1_000)
		for second := 1_000.0; second <= 11_000; second += 1_000 { // closely; and never a pump
			does(second, "claim")
			hear(s.clock.aheadMs, second)
		}
		hear(s.clock.aheadMs, 11_500)
		does(11_500, "hold")
		s.answer(0, false, false, 11_500)
		does(11_500, "pump")
	}
	s = owned(0, 0)
	s.answer(0, true, false, 0) // a hold of an earlier owner ends once the clock is proven
	does(9_000, "claim")
	does(10_000, "hold")
	if s.clock.hear(1_500_000, 1_000, 4_000); s.clock.isJumped {
		t.Fatal("a slow answer accused the clock")
	}
}

func TestKeysHaveTheSameFormEverywhere(t *testing.T) {
	var file struct {
		KeyForm string `json:"key_form"`
		Keys    []struct{ Name string }
	}
	vectors(t, "protocol.json", &file)
	var names []string
	for _, one := range file.Keys {
		names = append(names, one.Name)
		if got, want := keyOf("dq", 7, one.Name), strings.NewReplacer("NAMESPACE", "dq", "SHARD", "7", "NAME", one.Name).Replace(file.KeyForm); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	if want := []string{metaKey, neverKey, wakeKey, readyKey, workersKey + "TOPIC"}; !reflect.DeepEqual(names, want) {
		t.Errorf("%v, not %v", names, want)
	}
}
