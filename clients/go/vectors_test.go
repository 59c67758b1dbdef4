package delayq

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strconv"
	"testing"
	"testing/fstest"
)

type backoffSaid struct {
	Kind     string   `json:"kind"`
	DelaysMs []uint32 `json:"delays_ms"`
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

type envelopeSaid struct {
	messageSaid
	State    string  `json:"state"`
	Gen      uint32  `json:"gen"`
	DueMs    int64   `json:"due_ms"`
	AtMs     int64   `json:"at_ms"`
	Delivery uint32  `json:"delivery"`
	Attempt  uint16  `json:"attempt"`
	Doomed   bool    `json:"doomed"`
	Zstd     bool    `json:"zstd"`
	Hash     *string `json:"hash"`
	Reason   *string `json:"reason"`
}

func (b *backoffSaid) backoff() *Backoff {
	if b == nil {
		return nil
	}
	return &Backoff{b.Kind, b.DelaysMs}
}

func headersOf(said [][2]string) []Header {
	var headers []Header
	for _, pair := range said {
		headers = append(headers, Header{pair[0], pair[1]})
	}
	return headers
}

func (e envelopeSaid) envelope() Envelope {
	envelope := Envelope{State: e.State, Gen: e.Gen, DueMs: e.DueMs, AtMs: e.AtMs, Delivery: e.Delivery, Attempt: e.Attempt,
		MaxAttempts: e.MaxAttempts, Doomed: e.Doomed, Zstd: e.Zstd, ExpiresMs: e.ExpiresMs, Backoff: e.Backoff.backoff(),
		Group: e.Group, Headers: headersOf(e.Headers), Payload: must(hex.DecodeString(e.Payload)), Reason: e.Reason}
	if e.Hash != nil {
		envelope.Hash = must(hex.DecodeString(*e.Hash))
	}
	return envelope
}

func TestAnEnvelopeIsReadAndWrittenAsItIsStored(t *testing.T) {
	var file struct {
		Valid []struct {
			Name, Hex string
			Envelope  envelopeSaid
		}
		Refused []struct{ Name, Hex, Error string }
	}
	vectors(t, "envelope.json", &file)
	for _, c := range file.Valid {
		t.Run(c.Name, func(t *testing.T) {
			envelope := c.Envelope.envelope()
			got, err := DecodeEnvelope(must(hex.DecodeString(c.Hex)))
			if got.Payload == nil {
				got.Payload = []byte{}
			}
			if err != nil || !reflect.DeepEqual(got, envelope) {
				t.Errorf("got %+v, %v, not %+v", got, err, envelope)
			}
			if stored := hex.EncodeToString(envelope.Encode()); stored != c.Hex {
				t.Errorf("wrote %s, not %s", stored, c.Hex)
			}
		})
	}
	for _, c := range file.Refused {
		t.Run(c.Name, func(t *testing.T) {
			_, err := DecodeEnvelope(must(hex.DecodeString(c.Hex)))
			if err == nil || errors.Is(err, ErrNewer) != (c.Error == "newer") {
				t.Errorf("got %v, not %s", err, c.Error)
			}
		})
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
			Headers: headersOf(c.Message.Headers), ExpiresMs: c.Message.ExpiresMs, MaxAttempts: c.Message.MaxAttempts,
			Backoff: c.Message.Backoff.backoff()}
		if hash := hex.EncodeToString(message.contentHash()); c.Hash != nil && hash != *c.Hash {
			t.Errorf("%s: hash %s, not %s", c.Name, hash, *c.Hash)
		}
		if got := hex.EncodeToString(message.envelope(must(ParseID(c.Message.ID)))); got != c.Envelope {
			t.Errorf("%s: envelope %s, not %s", c.Name, got, c.Envelope)
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
		Refused map[string][]string
	}
	vectors(t, "names.json", &file)
	for _, c := range file.CRC32 {
		for shards, shard := range c.Shards {
			if got := shardOfName(c.Name, must(strconv.Atoi(shards))); got != shard {
				t.Errorf("%q of %s shards: %d, not %d", c.Name, shards, got, shard)
			}
		}
	}
	for _, c := range file.IDs {
		id := must(ParseID(c.Text))
		if hex.EncodeToString([]byte(id.raw)) != c.Hex || id.String() != c.Text || id.Generated() != (c.Shard != nil) {
			t.Errorf("%s is %x, %s", c.Text, id.raw, id)
		}
		if c.Shard != nil && id.Shard("", 4096) != *c.Shard {
			t.Errorf("%s is in shard %d", c.Text, id.Shard("", 4096))
		}
	}
	checks := map[string]func(string) error{
		"id":        func(text string) error { _, err := ParseID(text); return err },
		"group":     func(text string) error { return checkPrintable("group", text) },
		"topic":     func(text string) error { return checkForm("topic", text, topicForm) },
		"namespace": func(text string) error { return checkForm("namespace", text, namespaceForm) },
	}
	for what, names := range file.Refused {
		for _, name := range names {
			if checks[what](name) == nil {
				t.Errorf("%s %q is taken", what, name)
			}
		}
	}
}

func TestAGeneratedIDCarriesItsShard(t *testing.T) {
	for _, shard := range []int{0, 1, 255, 4095} {
		id := generateID(shard, 1763697600123)
		if id.Shard("", 4096) != shard || must(ParseID(id.String())) != id {
			t.Errorf("%s is in shard %d, not %d", id, id.Shard("", 4096), shard)
		}
	}
}

func TestAScriptIsPutTogetherAsEverywhere(t *testing.T) {
	var file struct {
		Verb, Source, SHA1 string
		Files              map[string]string
	}
	vectors(t, "assembly.json", &file)
	folder := fstest.MapFS{}
	for name, text := range file.Files {
		folder[name+".lua"] = &fstest.MapFile{Data: []byte(text)}
	}
	got := must(assemble(folder, file.Verb))
	if got.source != file.Source || got.sha != file.SHA1 {
		t.Errorf("got %q (%s)", got.source, got.sha)
	}
}
