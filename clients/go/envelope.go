package delayq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The format of envelopes; docs/protocol.md has it byte by byte.
const (
	format    = 1
	headBytes = 32
)

const (
	flagHash = 1 << iota
	flagExpires
	flagBackoff
	flagGroup
	flagHeaders
	flagZstd
	flagDoomed
	flagReason
)

var (
	states = []string{"delayed", "ready", "leased", "dead", "delivered", "cancelled", "expired", "purged"}
	kinds  = []string{"fixed", "exponential", "list"}
)

// ErrNewer says that an envelope is of a later format: upgrade this client first.
var ErrNewer = errors.New("an envelope of a newer format than this client knows")

// ErrMalformed says that bytes are no envelope.
var ErrMalformed = errors.New("malformed envelope")

// Backoff is how long a message rests before it is tried again: "fixed" with one delay, "exponential" with the first
// and the longest, "list" with one a try.
type Backoff struct {
	Kind     string
	DelaysMs []uint32
}

// Header is one of a message's headers. A name may come more than once.
type Header struct{ Name, Value string }

// Envelope is a stored message, or the marker of one that is over. Times are ms since the epoch, on Redis's clock.
type Envelope struct {
	State string
	Gen   uint32
	DueMs int64
	// AtMs is when it came into its state; for a leased one, when the lease ends.
	AtMs        int64
	Delivery    uint32
	Attempt     uint16
	MaxAttempts uint16
	Doomed      bool
	// Zstd says that the payload is a zstd frame.
	Zstd bool
	Hash []byte
	// ExpiresMs is 0 where it never expires.
	ExpiresMs int64
	Backoff   *Backoff
	// Group is empty where it has none.
	Group   string
	Headers []Header
	Payload []byte
	Reason  *string
}

// Encode gives the stored form.
func (e Envelope) Encode() []byte {
	var flags uint16
	var fields []byte
	add := func(has bool, flag uint16, field []byte) {
		if has {
			flags |= flag
			fields = append(fields, field...)
		}
	}
	add(e.Hash != nil, flagHash, e.Hash)
	add(e.ExpiresMs != 0, flagExpires, binary.BigEndian.AppendUint64(nil, uint64(e.ExpiresMs)))
	add(e.Backoff != nil, flagBackoff, short(string(e.Backoff.encode())))
	add(e.Group != "", flagGroup, short(e.Group))
	var block []byte
	for _, header := range e.Headers {
		block = append(append(block, short(header.Name)...), long(header.Value)...)
	}
	add(len(e.Headers) > 0, flagHeaders, long(string(block)))
	add(e.Zstd, flagZstd, nil)
	add(e.Doomed, flagDoomed, nil)
	add(true, 0, e.Payload)
	if e.Reason != nil {
		add(true, flagReason, binary.BigEndian.AppendUint16([]byte(*e.Reason), uint16(len(*e.Reason))))
	}
	head := []byte{format, byte(slices.Index(states, e.State) + 1)}
	head = binary.BigEndian.AppendUint16(head, flags)
	head = binary.BigEndian.AppendUint32(head, e.Gen)
	head = binary.BigEndian.AppendUint64(head, uint64(e.DueMs))
	head = binary.BigEndian.AppendUint64(head, uint64(e.AtMs))
	head = binary.BigEndian.AppendUint32(head, e.Delivery)
	head = binary.BigEndian.AppendUint16(head, e.Attempt)
	head = binary.BigEndian.AppendUint16(head, e.MaxAttempts)
	return append(head, fields...)
}

func (b *Backoff) encode() []byte {
	if b == nil {
		return nil
	}
	spec := []byte{byte(slices.Index(kinds, b.Kind) + 1)}
	for _, ms := range b.DelaysMs {
		spec = binary.BigEndian.AppendUint32(spec, ms)
	}
	return spec
}

func short(field string) []byte { return append([]byte{byte(len(field))}, field...) }

func long(field string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(field))), field...)
}

// reader takes fields from the front; after the first fault it gives nothing but zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(why string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, why)
	}
	r.rest = nil
}

func (r *reader) take(n int) []byte {
	if len(r.rest) < n {
		r.fail("cut short")
		return make([]byte, n)
	}
	field := r.rest[:n]
	r.rest = r.rest[n:]
	return field
}

func (r *reader) u16() uint16   { return binary.BigEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32   { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reader) time() int64   { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) short() []byte { return r.take(int(r.take(1)[0])) }
func (r *reader) long() []byte  { return r.take(int(r.u16())) }

func (r *reader) text(field []byte) string {
	if !utf8.Valid(field) {
		r.fail("text that is not UTF-8")
	}
	return string(field)
}

func (r *reader) backoff() *Backoff {
	spec := r.short()
	count := (len(spec) - 1) / 4
	if len(spec) < 5 || (len(spec)-1)%4 != 0 || spec[0] < 1 || spec[0] > 3 || spec[0] < 3 && count != int(spec[0]) {
		r.fail("back-off")
		return nil
	}
	backoff := &Backoff{Kind: kinds[spec[0]-1]}
	for at := 1; at < len(spec); at += 4 {
		backoff.DelaysMs = append(backoff.DelaysMs, binary.BigEndian.Uint32(spec[at:]))
	}
	return backoff
}

func (r *reader) group() string {
	group := string(r.short())
	if checkPrintable("group", group) != nil {
		r.fail("group")
	}
	return group
}

func (r *reader) headers() []Header {
	block := reader{rest: r.long()}
	var headers []Header
	for len(block.rest) > 0 {
		headers = append(headers, Header{block.text(block.short()), block.text(block.long())})
	}
	if block.err != nil {
		r.fail("headers")
	}
	return headers
}

// reason stands at the very end, its length behind it.
func (r *reader) reason() *string {
	end := len(r.rest) - 2
	if end < 0 || end < int(binary.BigEndian.Uint16(r.rest[end:])) {
		r.fail("cut short")
		return nil
	}
	at := end - int(binary.BigEndian.Uint16(r.rest[end:]))
	reason := strings.ToValidUTF8(string(r.rest[at:end]), "\ufffd")
	r.rest = r.rest[:at]
	return &reason
}

// DecodeEnvelope reads the stored form. It fails with ErrNewer or ErrMalformed.
func DecodeEnvelope(stored []byte) (Envelope, error) {
	if len(stored) > 0 && stored[0] > format {
		return Envelope{}, fmt.Errorf("%w: %d", ErrNewer, stored[0])
	}
	if len(stored) < headBytes {
		return Envelope{}, fmt.Errorf("%w: cut short", ErrMalformed)
	}
	r := &reader{rest: stored[1:]}
	state := r.take(1)[0]
	if state < 1 || int(state) > len(states) {
		return Envelope{}, fmt.Errorf("%w: no such state", ErrMalformed)
	}
	flags := r.u16()
	e := Envelope{State: states[state-1], Gen: r.u32(), DueMs: r.time(), AtMs: r.time(), Delivery: r.u32(),
		Attempt: r.u16(), MaxAttempts: r.u16(), Doomed: flags&flagDoomed > 0, Zstd: flags&flagZstd > 0}
	if flags&flagHash > 0 {
		e.Hash = r.take(8)
	}
	if state > 4 { // of what is over, only the hash is left
		return e, r.err
	}
	if flags&flagExpires > 0 {
		e.ExpiresMs = r.time()
	}
	if flags&flagBackoff > 0 {
		e.Backoff = r.backoff()
	}
	if flags&flagGroup > 0 {
		e.Group = r.group()
	}
	if flags&flagHeaders > 0 {
		e.Headers = r.headers()
	}
	if flags&flagReason > 0 {
		e.Reason = r.reason()
	}
	e.Payload = r.rest
	return e, r.err
}
