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
	// FirstTried says, of a repeat of a put whose fate is unknown, when it was first tried, on this host's clock.
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

func (b Backoff) encode() (string, error) {
	kind, known := backoffs[b.Kind]
	fits := known && len(b.Delays) >= kind[1] && len(b.Delays) <= kind[2] && (kind[0] != 2 || b.Delays[0] <= b.Delays[1])
	spec := number(1, int64(kind[0]))
	for _, delay := range b.Delays {
		fits = fits && delay >= time.Millisecond && delay.Milliseconds() < 1<<32
		spec += number(4, delay.Milliseconds())
	}
	if !fits {
		return "", InvalidMessage("a back-off is 1 ms to 49 days, the first no longer than the longest; a list has 1 to 32")
	}
	return sized(1, spec), nil
}

// item is what a put says of a message: it goes to its group's shard or to its id's, or a generated id is made for `turn`.
func (m *Message) item(known *layout, turn int, ahead time.Duration, mostPayloadBytes int) (item, error) {
	places, id := []int{turn}, m.ID
	if m.Group != "" {
		places = placesOf(m.Group, known.counts)
	}
	if id == "" {
		id = generateID(places[0])
	}
	one, err := named(m.Topic, id, m.Group)
	own := !generated(one.args[0])
	if err == nil && m.Group != "" && !own && !contains(places, placesOf(one.args[0], nil)[0]) {
		err = InvalidMessage(id + " was generated for another shard than its group's")
	}
	envelope, fault := m.envelope(own, mostPayloadBytes)
	one.args = append(one.args, m.due(), m.options(ahead), envelope)
	return one, first(err, fault)
}

// due is what a put says of the due time.
func (m *Message) due() string {
	if m.Due.IsZero() {
		return After(m.After).due
	}
	return At(m.Due).due
}

// options is what a put says of a replace and of a repeat; Redis's clock is ahead of this host's by so much.
func (m *Message) options(ahead time.Duration) (options string) {
	if m.Replace {
		options = "replace"
	}
	if !m.FirstTried.IsZero() {
		options += fmt.Sprintf(" tried=%d", m.FirstTried.UnixMilli())
	}
	if m.Replace && !m.FirstTried.IsZero() {
		options += fmt.Sprintf(" again=%d", m.FirstTried.Add(ahead).UnixMilli())
	}
	return options
}

// envelope is what a put sends: scripts fill in state, gen, due, at, delivery and attempt. docs/protocol.md has the bytes.
func (m *Message) envelope(ownID bool, mostPayloadBytes int) (string, error) {
	backoff, err := m.Backoff.encode()
	block, flags, fields := "", int64(0), ""
	for _, header := range m.Headers {
		err = first(err, checkName("header name", header.Name))
		block += sized(1, header.Name) + sized(2, header.Value)
	}
	if len(block) > maxHeaderBytes || len(m.Payload) > mostPayloadBytes || len(m.Payload) > maxPayloadBytes {
		err = InvalidMessage(fmt.Sprintf("at most %d bytes of headers, and %d of payload", maxHeaderBytes, mostPayloadBytes))
	}
	add := func(flag int64, has bool, field string) {
		if has {
			flags, fields = flags|flag, fields+field
		}
	}
	add(flagHash, ownID, m.contentHash())
	add(flagExpires, !m.Expires.IsZero(), number(8, m.Expires.UnixMilli()))
	add(flagBackoff, m.Backoff.Kind != "", backoff)
	add(flagGroup, m.Group != "", sized(1, m.Group))
	add(flagHeaders, len(m.Headers) > 0, sized(2, block))
	head := "\x01\x01" + number(2, flags) + string(make([]byte, 26)) + number(2, int64(m.MaxAttempts))
	return head + fields + string(m.Payload), err
}

// contentHash tells the repeat of a put from another message with the same id; the due time is left out.
func (m *Message) contentHash() string {
	fields := sized(4, m.Topic) + sized(4, m.Group)
	for _, header := range m.Headers {
		fields += sized(4, header.Name) + sized(4, header.Value)
	}
	hash := sha256.Sum256([]byte(fields + sized(4, string(m.Payload))))
	return string(hash[:8])
}

func number(size int, n int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(n))[8-size:])
}

// sized is a field behind its length.
func sized(size int, field string) string { return number(size, int64(len(field))) + field }
