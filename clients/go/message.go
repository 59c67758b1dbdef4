package delayq

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

const (
	maxPayloadBytes = 1024 * 1024
	maxHeaderBytes  = 16 * 1024
)

// Message is a message to be delivered at its due time: Due, or After the put where that is zero, both on Redis's clock.
type Message struct {
	Topic   string
	Payload []byte
	// ID is the producer's own. Without one it is generated; a put may be repeated only under an id that was given.
	ID    string
	Due   time.Time
	After time.Duration
	// Group is empty for none.
	Group   string
	Headers []Header
	// Expires is zero for never, or for what the topic says.
	Expires time.Time
	// MaxAttempts is 0 for what the topic says.
	MaxAttempts uint16
	// Backoff is the topic's where it is the zero value.
	Backoff Backoff
	// Replace takes the place of a message with the same id, unless that one is leased.
	Replace bool
	// FirstTried says, of a repeat of a put whose fate is unknown, when it was first tried.
	FirstTried time.Time
}

// Header is one of a message's headers. A name may come more than once.
type Header struct{ Name, Value string }

// Backoff is how long a message rests before it is tried again: "fixed" with one delay, "exponential" with the first and the
// longest, "list" with one a try.
type Backoff struct {
	Kind   string
	Delays []time.Duration
}

// backoffs are the kinds: number, fewest and most delays.
var backoffs = map[string][3]int{"": {0, 0, 0}, "fixed": {1, 1, 1}, "exponential": {2, 2, 2}, "list": {3, 1, 32}}

func (b Backoff) encode() (string, bool) {
	kind, known := backoffs[b.Kind]
	fits := known && len(b.Delays) >= kind[1] && len(b.Delays) <= kind[2] && (kind[0] != 2 || b.Delays[0] <= b.Delays[1])
	spec := number(1, int64(kind[0]))
	for _, delay := range b.Delays {
		fits = fits && delay >= time.Millisecond && delay.Milliseconds() < 1<<32
		spec += number(4, delay.Milliseconds())
	}
	return short(spec), fits
}

// envelope is what a put sends: scripts fill in state, gen, due, at, delivery and attempt. docs/protocol.md has the bytes.
func (m *Message) envelope(ownID bool, mostPayloadBytes int) (string, error) {
	var block, fields string
	for _, header := range m.Headers {
		if err := checkName("header name", header.Name); err != nil {
			return "", err
		}
		block += short(header.Name) + number(2, int64(len(header.Value))) + header.Value
	}
	backoff, fits := m.Backoff.encode()
	if !fits {
		return "", InvalidMessage("a back-off is 1 ms to 49 days, the first no longer than the longest; a list has 1 to 32")
	}
	if len(block) > maxHeaderBytes || len(m.Payload) > mostPayloadBytes || len(m.Payload) > maxPayloadBytes {
		return "", InvalidMessage(fmt.Sprintf("at most %d bytes of headers, and %d of payload", maxHeaderBytes, mostPayloadBytes))
	}
	flags := int64(0)
	add := func(flag int64, has bool, field string) {
		if has {
			flags, fields = flags|flag, fields+field
		}
	}
	add(flagHash, ownID, m.contentHash())
	add(flagExpires, !m.Expires.IsZero(), number(8, m.Expires.UnixMilli()))
	add(flagBackoff, m.Backoff.Kind != "", backoff)
	add(flagGroup, m.Group != "", short(m.Group))
	add(flagHeaders, len(m.Headers) > 0, number(2, int64(len(block)))+block)
	head := "\x01\x01" + number(2, flags) + string(make([]byte, 26)) + number(2, int64(m.MaxAttempts))
	return head + fields + string(m.Payload), nil
}

// contentHash tells the repeat of a put from another message with the same id; the due time is left out.
func (m *Message) contentHash() string {
	fields := []string{m.Topic, m.Group}
	for _, header := range m.Headers {
		fields = append(fields, header.Name, header.Value)
	}
	hash := sha256.New()
	for _, field := range append(fields, string(m.Payload)) {
		hash.Write([]byte(number(4, int64(len(field))) + field))
	}
	return string(hash.Sum(nil)[:8])
}

func number(size int, n int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(n))[8-size:])
}

func short(field string) string { return number(1, int64(len(field))) + field }
