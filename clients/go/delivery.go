package delayq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

const (
	flagHash = 1 << iota
	flagExpires
	flagBackoff
	flagGroup
	flagHeaders
	flagZstd
)

var errMalformed = errors.New("malformed envelope")

// Receipt is the right to settle one delivery of one message.
type Receipt struct {
	Shard int
	Raw   string
}

// Delivery is a message under lease. Its Attempt and Number count this one; times are on Redis's clock.
type Delivery struct {
	Receipt  Receipt
	Topic    string
	ID       string
	Payload  []byte
	Headers  []Header
	Group    string
	Due      time.Time
	Ready    time.Time
	LeaseEnd time.Time
	Expires  time.Time
	// Attempt is what the maximum counts, Number how often the message was ever handed out.
	Attempt, MaxAttempts uint16
	Number               uint32
}

// read reads the envelope, of which docs/protocol.md has the bytes, and says whether its payload is compressed.
func (d *Delivery) read(stored string) (compressed bool, err error) {
	if stored != "" && stored[0] > 1 {
		return false, fmt.Errorf("an envelope of format %d, newer than this client knows (1)", stored[0])
	}
	take := func(n int) string {
		if n > len(stored) {
			err, stored = errMalformed, ""
			return strings.Repeat("\x00", n)
		}
		field := stored[:n]
		stored = stored[n:]
		return field
	}
	number := func(n int) int { return int(binary.BigEndian.Uint64([]byte(strings.Repeat("\x00", 8-n) + take(n)))) }
	text := func(size int) string {
		field := take(number(size))
		if !utf8.ValidString(field) {
			err = errMalformed
		}
		return field
	}
	take(2)
	flags, _, due, _ := number(2), take(4), number(8), take(8)
	d.Due, d.Number = time.UnixMilli(int64(due)), uint32(number(4))+1
	if d.Attempt = uint16(number(2)); d.Attempt < 65535 {
		d.Attempt++
	}
	d.MaxAttempts = uint16(number(2))
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
		if d.Group = text(1); checkName("group", d.Group) != nil {
			err = errMalformed
		}
	}
	if flags&flagHeaders > 0 {
		size := number(2)
		for end := len(stored) - size; len(stored) > end && err == nil; {
			d.Headers = append(d.Headers, Header{text(1), text(2)})
		}
	}
	d.Payload = []byte(stored)
	return flags&flagZstd > 0, err
}

// restore decompresses the payload; dictionary finds one by its id.
func (d *Delivery) restore(dictionary func(id uint32) ([]byte, error)) error {
	var head zstd.Header
	if err := head.Decode(d.Payload); err != nil {
		return err
	}
	options := []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayloadBytes)}
	if head.DictionaryID > 0 {
		found, err := dictionary(head.DictionaryID)
		if err != nil {
			return err
		}
		options = append(options, zstd.WithDecoderDicts(found))
	}
	decoder, err := zstd.NewReader(nil, options...)
	if err != nil {
		return err
	}
	defer decoder.Close()
	d.Payload, err = decoder.DecodeAll(d.Payload, nil)
	return err
}

// leased is what a reserve says of one message under lease: its ready time, its receipt, its envelope (which is not read here).
func leased(shard int, topic string, leaseEndMs int64, said []any) *Delivery {
	raw := said[1].(string)
	_, id, _ := strings.Cut(raw[:len(raw)-4], ":")
	return &Delivery{Receipt: Receipt{shard, raw}, Topic: topic, ID: idText(id), Ready: time.UnixMicro(said[0].(int64)),
		LeaseEnd: time.UnixMilli(leaseEndMs)}
}
