// Messages as they are stored.

package delayq

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"time"
	"unicode/utf8"
)

// What an envelope has besides its head, in this order.
const flagHash, flagExpires, flagBackoff, flagGroup, flagHeaders, flagZstd, flagDoomed, flagReason = 1, 2, 4, 8, 16, 32, 64, 128

// Envelope is what is stored of a message; times are on Redis's clock. Of a finished one, only the head is left:
// what stands before Doomed.
type Envelope struct {
	State State
	Due   time.Time
	// At is when it came into its state; of a leased one, the end of its lease.
	At time.Time
	// Number is how often it was ever handed out, Attempt what the maximum counts.
	Number               uint32
	Attempt, MaxAttempts uint16
	// Doomed says that a cancel came while it was leased: it will not be tried again.
	Doomed  bool
	Expires time.Time
	Backoff Backoff
	Group   string
	Headers []Header
	Payload []byte
	// Compressed says that the payload is a zstd frame that could not be restored.
	Compressed bool
	// Reason is why it is dead.
	Reason string
}

// StoredMessage is a message as it is stored, or what is remembered of it.
type StoredMessage struct {
	Topic, ID string
	Shard     int
	Envelope
	// Unreadable says why a message cannot be read, of which only the head is there then.
	Unreadable error
}

// storedMessage is a message by its name in keys and calls. One that cannot be read keeps no other from being shown.
func storedMessage(shard int, topic, name, stored string) *StoredMessage {
	one := &StoredMessage{Topic: topic, Shard: shard}
	one.ID, one.Group = idAndGroup(name)
	one.Unreadable = one.read(stored)
	return one
}

// read reads an envelope, of which docs/protocol.md has the bytes.
func (e *Envelope) read(stored string) (err error) {
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
	flags := e.readHead(take(32))
	if stored != "" && stored[0] > 1 {
		return InvalidMessage(fmt.Sprintf("an envelope of the newer format %d", stored[0]))
	}
	if e.State == "" {
		return InvalidMessage("malformed envelope: its head")
	}
	if flags&flagHash > 0 {
		take(8)
	}
	if flags&flagExpires > 0 {
		e.Expires = time.UnixMilli(int64(number(8)))
	}
	if flags&flagBackoff > 0 {
		e.Backoff = backoffOf(string(take(number(1))))
	}
	if flags&flagGroup > 0 {
		e.Group = text(1)
		err = checkName("group", e.Group)
	}
	if flags&flagHeaders > 0 {
		size := number(2)
		for end := at + size; at < end; {
			e.Headers = append(e.Headers, Header{text(1), text(2)})
		}
	}
	e.Payload, e.Compressed = rest.Bytes(), flags&flagZstd > 0
	whole := at <= len(stored)
	if flags&flagReason > 0 {
		whole = e.cutReason() && whole
	}
	if !whole || !legible {
		return InvalidMessage("malformed envelope")
	}
	return err
}

// readHead reads the bytes that every format has, and gives back the flags.
func (e *Envelope) readHead(head []byte) (flags int) {
	if len(head) < 32 || head[1] < 1 || int(head[1]) > len(states) {
		return 0
	}
	ms := func(at int) time.Time { return time.UnixMilli(int64(binary.BigEndian.Uint64(head[at:]))) }
	flags = int(binary.BigEndian.Uint16(head[2:]))
	e.State, e.Doomed = states[head[1]-1], flags&flagDoomed > 0
	e.Due, e.At, e.Number = ms(8), ms(16), binary.BigEndian.Uint32(head[24:])
	e.Attempt, e.MaxAttempts = binary.BigEndian.Uint16(head[28:]), binary.BigEndian.Uint16(head[30:])
	return flags
}

// cutReason takes the reason from behind the payload; false where it is longer than what there is.
func (e *Envelope) cutReason() bool {
	end := len(e.Payload) - 2
	if end < 0 {
		return false
	}
	start := end - int(binary.BigEndian.Uint16(e.Payload[end:]))
	if start < 0 {
		return false
	}
	e.Reason, e.Payload = string(e.Payload[start:end]), e.Payload[:start]
	return true
}
