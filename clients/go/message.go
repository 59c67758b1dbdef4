// A message: as its producer hands it over, as it is stored, and as a reserve hands it out.

package delayq

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// How much a message may have.
const maxPayloadBytes, maxHeaderBytes = 1024 * 1024, 16 * 1024

// Due is a due time, on Redis's clock: At, After or By make one. The zero value is now.
type Due struct{ said, expected string }

// At is a time.
func At(due time.Time) Due { return Due{said: strconv.FormatInt(due.UnixMilli(), 10)} }

// After is a delay from now.
func After(delay time.Duration) Due { return Due{said: fmt.Sprintf("+%d", delay.Milliseconds())} }

// By moves a message by a difference to the time at which it is expected, so that a repeat moves nothing
// twice.
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
	// ID is the producer's own. Without one it is generated; a put may be repeated only under one that was
	// given.
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
	// FirstTried is, for a repeat of a put whose fate is unknown, when it was first tried, on this host's
	// clock.
	FirstTried time.Time
}

// Header is one of a message's headers. A name may come more than once.
type Header struct{ Name, Value string }

// Backoff is how long a message rests before it is tried again: Fixed, Exponential or List make one, of
// delays from 1 ms to 49 days.
type Backoff struct {
	spec string
	err  error
}

// Fixed is the same delay before each try.
func Fixed(delay time.Duration) Backoff { return backoff(1, delay) }

// Exponential is twice as long before each try; the first is no longer than the longest.
func Exponential(first, longest time.Duration) Backoff { return backoff(2, first, longest) }

// List is a delay for each try, 1 to 32, of which the last repeats.
func List(delays ...time.Duration) Backoff { return backoff(3, delays...) }

func backoff(kind int64, delays ...time.Duration) Backoff {
	made, fits := Backoff{spec: number(1, kind)}, len(delays) > 0 && len(delays) <= 32
	for _, delay := range delays {
		fits = fits && delay >= time.Millisecond && delay.Milliseconds() < 1<<32
		made.spec += number(4, delay.Milliseconds())
	}
	if !fits || kind == 2 && delays[0] > delays[1] {
		made.err = InvalidMessage(fmt.Sprint("no back-off: ", delays))
	}
	return made
}

// item is what a put says of a message: it goes to its group's shard or to its id's, or an id is generated
// for this shard.
func (m *Message) item(counts []int, shard int, ahead time.Duration, mostPayloadBytes int) *item {
	places, id := []int{shard}, m.ID
	if m.Group != "" {
		places = placesOf(m.Group, counts)
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
		options += fmt.Sprintf(" tried=%d", m.FirstTried.Add(ahead).UnixMilli())
	}
	return options
}

// envelope is what a put sends (docs/protocol.md has the bytes); scripts fill in state, gen, due, at and the
// counts.
func (m *Message) envelope(ownID bool, mostPayloadBytes int) (string, error) {
	block, legible, err := "", true, m.Backoff.err
	for _, header := range m.Headers {
		err = first(err, checkName("header name", header.Name))
		block += sized(1, header.Name) + sized(2, header.Value)
		legible = legible && utf8.ValidString(header.Value)
	}
	if !legible || len(block) > maxHeaderBytes {
		err = InvalidMessage("at most 16 KiB of headers, in UTF-8")
	}
	if len(m.Payload) > mostPayloadBytes || len(m.Payload) > maxPayloadBytes {
		err = InvalidMessage(fmt.Sprintf("at most %d bytes of payload", mostPayloadBytes))
	}
	flags, fields := int64(0), ""
	add := func(flag int64, has bool, field string) {
		if has {
			flags, fields = flags|flag, fields+field
		}
	}
	add(flagHash, ownID, m.contentHash())
	add(flagExpires, !m.Expires.IsZero(), number(8, m.Expires.UnixMilli()))
	add(flagBackoff, m.Backoff.spec != "", sized(1, m.Backoff.spec))
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

// What an envelope has beside its head, in this order.
const flagHash, flagExpires, flagBackoff, flagGroup, flagHeaders, flagZstd = 1, 2, 4, 8, 16, 32

// Receipt is the right to settle one delivery of one message.
type Receipt struct {
	Shard int
	Raw   string
}

// id is that of its message.
func (r Receipt) id() string {
	_, rest, _ := strings.Cut(r.Raw, ":")
	return idText(rest[:len(rest)-4])
}

// Delivery is a message under lease. Its Attempt and Number count this one; times are on Redis's clock.
type Delivery struct {
	Receipt                       Receipt
	Topic, ID, Group              string
	Payload                       []byte
	Headers                       []Header
	Due, Ready, LeaseEnd, Expires time.Time
	// Attempt is what the maximum counts, Number how often the message was ever handed out.
	Attempt, MaxAttempts uint16
	Number               uint32
}

// read reads the envelope (docs/protocol.md has the bytes), and says whether its payload is compressed.
func (d *Delivery) read(stored string) (compressed bool, err error) {
	if stored != "" && stored[0] > 1 {
		return false, InvalidMessage(fmt.Sprintf("an envelope of the newer format %d", stored[0]))
	}
	rest, at, legible := bytes.NewBufferString(stored), 0, true
	take := func(size int) []byte {
		at += size // of what is cut short, less is taken
		return rest.Next(size)
	}
	number := func(size int) int { return int(new(big.Int).SetBytes(take(size)).Int64()) }
	text := func(size int) string {
		field := string(take(number(size)))
		legible = legible && utf8.ValidString(field)
		return field
	}
	flags := number(4) & 0xffff
	take(4)
	d.Due = time.UnixMilli(int64(number(8)))
	take(8)
	d.Number, d.Attempt, d.MaxAttempts = uint32(number(4))+1, uint16(number(2)), uint16(number(2))
	if d.Attempt < 65535 {
		d.Attempt++
	}
	if flags&flagHash > 0 {
		take(8)
	}
	if flags&flagExpires > 0 {
		d.Expires = time.UnixMilli(int64(number(8)))
	}
	if flags&flagBackoff > 0 {
		take(number(1))
	}
	if flags&flagGroup > 0 {
		d.Group = text(1)
		err = checkName("group", d.Group)
	}
	if flags&flagHeaders > 0 {
		size := number(2)
		for end := at + size; at < end; {
			d.Headers = append(d.Headers, Header{text(1), text(2)})
		}
	}
	if at > len(stored) || !legible {
		err = InvalidMessage("malformed envelope")
	}
	d.Payload = rest.Bytes()
	return flags&flagZstd > 0, err
}
