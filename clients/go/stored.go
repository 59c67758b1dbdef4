// Stored messages.

package delayq

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"
	"unicode/utf8"
)

// Envelope is the content of a stored message; times are on the Redis clock. A finished message keeps only the fields before
// Expires.
type Envelope struct {
	State State
	Due   time.Time
	// At is the time of the last change of state; for a leased message, the end of the lease.
	At time.Time
	// Number counts all deliveries, Attempt the deliveries that MaxAttempts limits.
	Number               uint32
	Attempt, MaxAttempts uint16
	// Doomed means cancelled while leased: the message will not be retried.
	Doomed bool
	// Blocks means failed, while its topic lets a failed message block its group: the others of its group wait for it.
	Blocks bool
	// Held means ready, but waiting for others of its group, or because its group is paused or blocked.
	Held bool
	// HasSuccessor means leased, and a throttled put waits behind it, which takes its place when the lease ends.
	HasSuccessor bool
	// Paused means ready, and its group is paused.
	Paused bool
	// Blocked means ready, and a failed message blocks its group.
	Blocked bool
	// ContentHash is for Message.ExpectedContent: 16 hex digits, of a message with an own id.
	ContentHash string
	Expires     time.Time
	Backoff     Backoff
	Group       string
	Headers     []Header
	Payload     []byte
	// Compressed means that Payload is a zstd frame that could not be decompressed.
	Compressed bool
	// Reason explains the death of a dead letter.
	Reason string
}

// StoredMessage is a stored message, or the record of a finished message.
type StoredMessage struct {
	Topic, ID string
	Shard     int
	Envelope
	// Unreadable is the fault of an invalid envelope, of which only the head is set.
	Unreadable error
}

// storedMessage decodes a message. An invalid envelope is reported, so that a listing continues.
func storedMessage(shard int, topic, name, stored string) *StoredMessage {
	one := &StoredMessage{Topic: topic, Shard: shard}
	one.ID, one.Group = idAndGroup(name)
	one.Unreadable = one.read(stored)
	return one
}

// read decodes an envelope, as specified in docs/protocol.md.
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
	if unknown := flags &^ knownFlags; unknown > 0 {
		return InvalidMessage(fmt.Sprintf("an envelope with newer flags (%#x): upgrade delayq here first", unknown))
	}
	if flags&flagHash > 0 {
		e.ContentHash = hex.EncodeToString(take(8))
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
	if flags&flagLifetime > 0 {
		take(8)
	}
	if flags&flagFirst > 0 {
		take(8)
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

// readHead reads the bytes common to all formats, and returns the flags.
func (e *Envelope) readHead(head []byte) (flags int) {
	if len(head) < 32 || head[1] < 1 || int(head[1]) > len(states) {
		return 0
	}
	ms := func(at int) time.Time { return time.UnixMilli(int64(binary.BigEndian.Uint64(head[at:]))) }
	flags = int(binary.BigEndian.Uint16(head[2:]))
	e.State, e.Doomed = states[head[1]-1], flags&flagDoomed > 0
	waits := flags&flagHeld > 0
	e.Held, e.HasSuccessor = waits && e.State != Leased, waits && e.State == Leased
	e.Paused, e.Blocks, e.Blocked = flags&flagPaused > 0, flags&flagBlocks > 0, flags&flagBlocked > 0
	e.Due, e.At, e.Number = ms(8), ms(16), binary.BigEndian.Uint32(head[24:])
	e.Attempt, e.MaxAttempts = binary.BigEndian.Uint16(head[28:]), binary.BigEndian.Uint16(head[30:])
	return flags
}

// cutReason splits the reason from the end of the payload; false if the envelope is too short.
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
