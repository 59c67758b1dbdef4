package delayq

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// What an envelope has beside its head, in this order.
const flagHash, flagExpires, flagBackoff, flagGroup, flagHeaders, flagZstd = 1, 2, 4, 8, 16, 32

var errMalformed = errors.New("malformed envelope")

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

// read reads the envelope, of which docs/protocol.md has the bytes, and says whether its payload is compressed.
func (d *Delivery) read(stored string) (compressed bool, err error) {
	if stored != "" && stored[0] > 1 {
		return false, fmt.Errorf("an envelope of format %d, newer than this client knows (1)", stored[0])
	}
	rest := bytes.NewBufferString(stored)
	take := func(n int) []byte {
		if n > rest.Len() {
			err = errMalformed
		}
		return rest.Next(n)
	}
	number := func(n int) (value int) {
		for _, digit := range take(n) {
			value = value<<8 | int(digit)
		}
		return value
	}
	text := func(size int) string {
		field := take(number(size))
		if !utf8.Valid(field) {
			err = errMalformed
		}
		return string(field)
	}
	take(2)
	flags, _, due, _ := number(2), take(4), number(8), take(8)
	d.Due, d.Number = time.UnixMilli(int64(due)), uint32(number(4))+1
	d.Attempt, d.MaxAttempts = uint16(number(2)), uint16(number(2))
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
		err = first(err, checkName("group", d.Group))
	}
	if flags&flagHeaders > 0 {
		size := number(2)
		for end := rest.Len() - size; rest.Len() > end && err == nil; {
			d.Headers = append(d.Headers, Header{text(1), text(2)})
		}
	}
	d.Payload = rest.Bytes()
	return flags&flagZstd > 0, err
}

// restore decompresses the payload, by these dictionaries.
func (d *Delivery) restore(dictionaries [][]byte) error {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPayloadBytes),
		zstd.WithDecoderDicts(dictionaries...))
	if err != nil {
		return err
	}
	defer decoder.Close()
	d.Payload, err = decoder.DecodeAll(d.Payload, nil)
	return err
}
