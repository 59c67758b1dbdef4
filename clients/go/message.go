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

var kinds = []struct {
	name        string
	least, most int
}{{"fixed", 1, 1}, {"exponential", 2, 2}, {"list", 1, 32}}

func (b Backoff) encode() (string, error) {
	for n, kind := range kinds {
		if fits := len(b.Delays) >= kind.least && len(b.Delays) <= kind.most; b.Kind == kind.name && fits {
			spec := number(1, int64(n+1))
			for _, delay := range b.Delays {
				fits = fits && delay >= time.Millisecond && delay.Milliseconds() < 1<<32
				spec += number(4, delay.Milliseconds())
			}
			if fits && (kind.least != 2 || b.Delays[0] <= b.Delays[1]) {
				return spec, nil
			}
		}
	}
	return "", InvalidMessage("a back-off is 1 ms to 49 days, the first no longer than the longest; a list has 1 to 32")
}

// envelope is what a put sends: scripts fill in state, gen, due, at, delivery and attempt. docs/protocol.md has the bytes.
func (m *Message) envelope(ownID bool, mostPayloadBytes int) (string, error) {
	var block string
	var faults []error
	for _, header := range m.Headers {
		faults = append(faults, checkName("header name", header.Name))
		block += short(header.Name) + number(2, int64(len(header.Value))) + header.Value
	}
	var backoff string
	var err error
	if m.Backoff.Kind != "" {
		backoff, err = m.Backoff.encode()
	}
	if len(block) > maxHeaderBytes || len(m.Payload) > mostPayloadBytes {
		err = InvalidMessage(fmt.Sprintf("at most %d bytes of headers, and %d of payload", maxHeaderBytes, mostPayloadBytes))
	}
	for _, fault := range append(faults, err) {
		if fault != nil {
			return "", fault
		}
	}
	var fields string
	var flags int64
	for n, field := range []struct {
		has  bool
		text string
	}{ // each by its flag: 1, 2, 4, 8, 16
		{ownID, m.contentHash()},
		{!m.Expires.IsZero(), number(8, m.Expires.UnixMilli())},
		{backoff != "", short(backoff)},
		{m.Group != "", short(m.Group)},
		{len(m.Headers) > 0, number(2, int64(len(block))) + block},
	} {
		if field.has {
			fields, flags = fields+field.text, flags|1<<n
		}
	}
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
