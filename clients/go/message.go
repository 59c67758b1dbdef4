package delayq

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"
)

// How much a message may have.
const maxPayloadBytes, maxHeaderBytes = 1024 * 1024, 16 * 1024

// Due is a due time, on Redis's clock: At, After or By make one. The zero value is now.
type Due struct{ said, expected string }

// At is a time.
func At(due time.Time) Due { return Due{said: strconv.FormatInt(due.UnixMilli(), 10)} }

// After is a delay from now.
func After(delay time.Duration) Due { return Due{said: fmt.Sprintf("+%d", delay.Milliseconds())} }

// By moves a message by a difference to the time that it is expected to be due at, so that a repeat moves nothing twice.
func By(difference time.Duration, expected time.Time) Due {
	return Due{said: fmt.Sprintf("by %+d", difference.Milliseconds())}.IfDue(expected)
}

// IfDue moves a message only where it is due then until now.
func (d Due) IfDue(expected time.Time) Due { return Due{d.said, At(expected).said} }

func (d Due) text() string {
	if d.said == "" {
		return "+0"
	}
	return d.said
}

// Message is a message to be delivered at its due time.
type Message struct {
	Topic   string
	Payload []byte
	// ID is the producer's own. Without one it is generated; a put may be repeated only under an id that was given.
	ID  string
	Due Due
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

// Backoff is how long a message rests before it is tried again: Fixed, Exponential or List make one.
type Backoff struct {
	kind   int64
	delays []time.Duration
}

// Fixed is the same delay before each try.
func Fixed(delay time.Duration) Backoff { return Backoff{1, []time.Duration{delay}} }

// Exponential is twice as long before each try.
func Exponential(first, longest time.Duration) Backoff {
	return Backoff{2, []time.Duration{first, longest}}
}

// List is a delay for each try, 1 to 32, of which the last repeats.
func List(delays ...time.Duration) Backoff { return Backoff{3, delays} }

func (b Backoff) encode() (spec string, err error) {
	fits := b.kind == 0 || len(b.delays) > 0 && len(b.delays) <= 32 && (b.kind != 2 || b.delays[0] <= b.delays[1])
	spec = number(1, b.kind)
	for _, delay := range b.delays {
		fits = fits && delay >= time.Millisecond && delay.Milliseconds() < 1<<32
		spec += number(4, delay.Milliseconds())
	}
	if !fits {
		err = InvalidMessage("a back-off is 1 ms to 49 days, the first no longer than the longest; a list has 1 to 32")
	}
	return spec, err
}

// item is what a put says of a message: it goes to its group's shard or to its id's, or a generated id is made for `turn`.
func (m *Message) item(known *layout, turn int, ahead time.Duration, mostPayloadBytes int) *item {
	places, id := []int{turn}, m.ID
	if m.Group != "" {
		places = placesOf(m.Group, known.counts)
	}
	if id == "" {
		id = generateID(places[0])
	}
	one := named(m.Topic, id, m.Group)
	if generated(one.name) && m.Group != "" && !contains(places, placesOf(one.name, nil)[0]) {
		one.err = InvalidMessage(id + " was generated for another shard than its group's")
	}
	envelope, err := m.envelope(!generated(one.name), mostPayloadBytes)
	one.args, one.bytes = append(one.args, m.Due.text(), m.options(ahead), envelope), len(envelope)
	one.err = first(one.err, err)
	return one
}

// options is what a put says of a replace and of a repeat; Redis's clock is ahead of this host's by so much.
func (m *Message) options(ahead time.Duration) (options string) {
	if m.Replace {
		options = "replace"
	}
	if !m.FirstTried.IsZero() {
		options += fmt.Sprintf(" tried=%[1]d again=%[1]d", m.FirstTried.Add(ahead).UnixMilli())
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
	add(flagBackoff, m.Backoff.kind != 0, sized(1, backoff))
	add(flagGroup, m.Group != "", sized(1, m.Group))
	add(flagHeaders, block != "", sized(2, block))
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
