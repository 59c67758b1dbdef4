// A message of a producer, and the encoding of a put.

package delayq

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Due is a due time on the Redis clock, made by At, After or By. The zero value is now.
type Due struct {
	said, expected string
	// PastOK clears doubt; err is final.
	doubt, err error
}

// At is a point in time. Times before 2001 or after 9999 need PastOK: most are seconds or microseconds mistaken for
// milliseconds.
func At(due time.Time) Due {
	return Due{said: strconv.FormatInt(due.UnixMilli(), 10), doubt: doubtTime("a due time", due), err: checkTime("a due time", due)}
}

// PastOK accepts times before 2001 or after 9999, the due time and an expected one.
func (d Due) PastOK() Due {
	d.doubt = nil
	return d
}

func (d Due) fault() error { return first(d.err, d.doubt) }

// After is a delay from now.
func After(delay time.Duration) Due {
	return Due{said: fmt.Sprintf("+%d", wholeMillis(delay)), err: checkSpan("a delay", delay)}
}

// By moves the due time by a difference, if the message is due at the expected time: so a repeat moves nothing twice.
func By(difference time.Duration, expected time.Time) Due {
	due := Due{said: fmt.Sprintf("by %+d", difference.Milliseconds())}.IfDue(expected)
	if difference.Milliseconds() == 0 {
		due.err = first(due.err, InvalidMessage(fmt.Sprintf("a difference of %v: a millisecond at least", difference)))
	}
	return due
}

// IfDue makes the change conditional on the present due time.
func (d Due) IfDue(expected time.Time) Due {
	d.expected = strconv.FormatInt(expected.UnixMilli(), 10)
	d.err = first(d.err, checkTime("an expected time", expected))
	d.doubt = first(d.doubt, doubtTime("an expected time", expected))
	return d
}

func (d Due) text() string {
	if d.said == "" {
		return "+0"
	}
	return d.said
}

// checkTime enforces the range of the scripts: 1 to 2^53 - 1 ms since the epoch.
func checkTime(what string, at time.Time) error {
	if seconds := at.Unix(); seconds < 0 || seconds > maxTimeMs/1000 || at.UnixMilli() < 1 || at.UnixMilli() > maxTimeMs {
		return InvalidMessage(fmt.Sprintf("%s of %v is out of range: 1970 to 287396", what, at.UTC()))
	}
	return nil
}

func doubtTime(what string, at time.Time) error {
	if at.Unix() > lastMeantMs/1000 {
		return InvalidMessage(fmt.Sprintf("%s of %v: if microseconds were meant, make it by time.UnixMicro; if not, say PastOK", what, at.UTC()))
	}
	ms := at.UnixMilli()
	if ms >= firstMeantMs {
		return nil
	}
	if ms > 0 && ms*1000 >= firstMeantMs {
		return InvalidMessage(fmt.Sprintf("%s of %v, %d ms since the epoch: if seconds were meant, make it by time.Unix(%d, 0); "+
			"if not, say PastOK", what, at.UTC(), ms, ms))
	}
	return InvalidMessage(fmt.Sprintf("%s of %v: if that is meant, say PastOK", what, at.UTC()))
}

func checkSpan(what string, span time.Duration) error {
	if span < 0 {
		return InvalidMessage(fmt.Sprintf("%s of %v: at least 0", what, span))
	}
	return nil
}

// checkLease enforces the range of leases; 0 selects the topic's lease.
func checkLease(lease time.Duration) error {
	if err := checkSpan("a lease", lease); err != nil {
		return err
	}
	if lease > 24*time.Hour {
		return InvalidMessage(fmt.Sprintf("a lease of %v: at most 24h", lease))
	}
	return nil
}

func checkText(what, text string) error {
	if !utf8.ValidString(text) {
		return InvalidMessage(fmt.Sprintf("%s is not UTF-8: %.40q", what, text))
	}
	return nil
}

// wholeMillis rounds up, so that no message is early.
func wholeMillis(span time.Duration) int64 {
	ms := span.Milliseconds()
	if span%time.Millisecond > 0 {
		ms++
	}
	return ms
}

// Message is a message for delivery at a due time.
type Message struct {
	Topic   string
	Payload []byte
	// ID is the producer's own id; "" generates an id. Only a put with an own id may be repeated.
	ID  string
	Due Due
	// Group is "" for no group.
	Group   string
	Headers []Header
	// Expires is zero for no expiry, or the topic's.
	Expires time.Time
	// ExpireAfter is from the due time to the expiry, in place of Expires; a reschedule moves the expiry too. 0 for none.
	ExpireAfter time.Duration
	// MaxAttempts is 0 for the topic's limit.
	MaxAttempts uint16
	// Backoff is the zero value for the topic's back-off.
	Backoff Backoff
	// Replace replaces a message with the same id, unless the message is leased.
	Replace bool
	// Debounce replaces; a pending message is due again at the new time, but at most this long after its first put. 0 for none.
	Debounce time.Duration
	// Throttle replaces; a pending message keeps its due time, and behind a delivery or a leased message the put is due at least
	// this long after the due time of that. It needs an ID. 0 for none.
	Throttle time.Duration
	// Swallow is as Throttle, but a put that meets a pending or leased message, or a delivery in that time, is dropped: Exists.
	Swallow time.Duration
	// Only replaces; a pending message keeps its due time unless the new time is Later, or Sooner. With Content it always keeps
	// the due time: the put edits.
	Only DueRule
	// KeepContent replaces; a pending message keeps payload, headers and options.
	KeepContent bool
	// Expected replaces only a pending message that is due at this time; zero for any.
	Expected time.Time
	// ExpectedContent replaces only a pending message with this ContentHash; "" for any.
	ExpectedContent string
	// FirstTried is the local time of the first attempt, for a repeat of a put with an unknown fate.
	FirstTried time.Time
	// PastOK accepts times before 2001 or after 9999, most of which are seconds or microseconds mistaken for milliseconds.
	PastOK bool
}

// DueRule is Later, Sooner or Content.
type DueRule string

// The values of Message.Only.
const (
	Later   DueRule = "later"
	Sooner  DueRule = "sooner"
	Content DueRule = "content"
)

// Header is one header of a message. Names may repeat.
type Header struct{ Name, Value string }

// Backoff is the delay before the next attempt, 1 ms to 49 days, made by Fixed, Exponential or List.
type Backoff struct {
	spec string
	err  error
}

// Fixed repeats one delay.
func Fixed(delay time.Duration) Backoff { return backoff(1, delay) }

// Exponential doubles the delay up to the longest.
func Exponential(first, longest time.Duration) Backoff { return backoff(2, first, longest) }

// List has one delay per attempt, 1 to 32; the last delay repeats.
func List(delays ...time.Duration) Backoff { return backoff(3, delays...) }

// String formats a back-off, such as "exponential 1s 10m0s".
func (b Backoff) String() string {
	if b.spec == "" {
		return "none"
	}
	text := []string{"", "fixed", "exponential", "list"}[b.spec[0]]
	for at := 1; at < len(b.spec); at += 4 {
		text += " " + (time.Duration(binary.BigEndian.Uint32([]byte(b.spec[at:]))) * time.Millisecond).String()
	}
	return text
}

// backoffOf decodes a stored back-off; invalid bytes mean no back-off.
func backoffOf(spec string) Backoff {
	if len(spec)%4 != 1 || spec[0] < 1 || spec[0] > 3 {
		return Backoff{}
	}
	return Backoff{spec: spec}
}

func backoff(kind int64, delays ...time.Duration) Backoff {
	made, fits := Backoff{spec: number(1, kind)}, len(delays) > 0 && len(delays) <= 32
	for _, delay := range delays {
		fits = fits && delay >= time.Millisecond && delay.Milliseconds() < 1<<32
		made.spec += number(4, delay.Milliseconds())
	}
	if !fits || kind == 2 && delays[0] > delays[1] {
		made.err = InvalidMessage(fmt.Sprint("invalid back-off: ", delays))
	}
	return made
}

// item encodes a put. The message goes to the shard of the group or the id; without either, an id is generated for this shard.
func (m *Message) item(counts []int, shard int, ahead time.Duration, maxPayload int) *item {
	places, id := []int{shard}, m.ID
	if m.Group != "" {
		places = placesOf(m.Group, counts)
	}
	if id == "" {
		id = generateID(places[0])
	}
	one := named(m.Topic, id, m.Group)
	one.err = first(one.err, first(checkName("topic", m.Topic), checkNewID(id)))
	if generated(one.name) && m.Group != "" && !contains(places, placesOf(one.name, nil)[0]) {
		one.err = InvalidMessage(id + " was generated for another shard than its group's")
	}
	envelope, err := m.envelope(!generated(one.name), maxPayload)
	one.args, one.bytes = append(one.args, m.Due.text(), m.options(ahead), envelope), len(envelope)
	one.err = first(first(first(one.err, m.checkTimes()), m.checkAgain()), err)
	return one
}

func (m *Message) checkTimes() (err error) {
	if strings.HasPrefix(m.Due.said, "by") || m.Due.expected != "" {
		return InvalidMessage("a put is due At or After: By and IfDue are for a reschedule")
	}
	due := m.Due
	if m.PastOK {
		due = due.PastOK()
	}
	err = first(due.fault(), checkSpan("an expiry after the due time", m.ExpireAfter))
	if m.ExpireAfter != 0 && !m.Expires.IsZero() {
		err = first(err, InvalidMessage("Expires or ExpireAfter: a message has one expiry"))
	}
	for _, time := range [...]struct {
		what string
		at   time.Time
	}{{"an expiry", m.Expires}, {"a first try", m.FirstTried}, {"an expected due time", m.Expected}} {
		if err == nil && !time.at.IsZero() {
			err = checkTime(time.what, time.at)
			if err == nil && !m.PastOK {
				err = doubtTime(time.what, time.at)
			}
		}
	}
	return err
}

var contentHashForm = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)

// checkAgain checks the fields that treat a pending message.
func (m *Message) checkAgain() error {
	rules := 0
	for _, given := range []bool{m.Debounce != 0, m.Throttle != 0, m.Swallow != 0, m.Only != ""} {
		if given {
			rules++
		}
	}
	switch {
	case rules > 1:
		return InvalidMessage("Debounce, Throttle, Swallow or Only: a pending message has one due time")
	case (m.Throttle != 0 || m.Swallow != 0) && !m.hasOwnID():
		return InvalidMessage("Throttle and Swallow need an ID of your own: a generated one meets no earlier message")
	case m.Only != "" && m.Only != Later && m.Only != Sooner && m.Only != Content:
		return InvalidMessage(fmt.Sprintf("Only %.40q: later, sooner or content", string(m.Only)))
	case m.ExpectedContent != "" && !contentHashForm.MatchString(m.ExpectedContent):
		return InvalidMessage(fmt.Sprintf("ExpectedContent %.40q: a content hash has 16 hex digits", m.ExpectedContent))
	}
	return first(checkSpan("a debounce", m.Debounce), first(checkSpan("a throttle", m.Throttle), checkSpan("a swallow", m.Swallow)))
}

func (m *Message) hasOwnID() bool {
	raw, _ := idBytes(m.ID)
	return m.ID != "" && !generated(raw)
}

// options encodes replacement and first attempt; ahead is the lead of the Redis clock.
func (m *Message) options(ahead time.Duration) (options string) {
	expects := !m.Expected.IsZero() || m.ExpectedContent != ""
	if m.Replace || m.Debounce > 0 || m.Throttle > 0 || m.Swallow > 0 || m.Only != "" || m.KeepContent || expects {
		options = "replace"
	}
	if m.Debounce > 0 {
		options += fmt.Sprintf(" within=%d", wholeMillis(m.Debounce))
	}
	if m.Throttle > 0 {
		options += fmt.Sprintf(" throttle=%d", wholeMillis(m.Throttle))
	}
	if m.Swallow > 0 {
		options += fmt.Sprintf(" swallow=%d", wholeMillis(m.Swallow))
	}
	if m.Only != "" {
		options += " " + string(m.Only)
	}
	if m.KeepContent {
		options += " keep"
	}
	if !m.Expected.IsZero() {
		options += fmt.Sprintf(" expected=%d", m.Expected.UnixMilli())
	}
	if m.ExpectedContent != "" {
		options += " hash=" + m.ExpectedContent
	}
	if !m.FirstTried.IsZero() {
		options += fmt.Sprintf(" tried=%d", m.FirstTried.Add(ahead).UnixMilli())
	}
	return options
}

// envelope encodes a put, as specified in docs/protocol.md; scripts fill in state, gen, due, at and the counts.
func (m *Message) envelope(ownID bool, maxPayload int) (string, error) {
	block, legible, err := "", true, m.Backoff.err
	for _, header := range m.Headers {
		err = first(err, checkName("header name", header.Name))
		block += sized(1, header.Name) + sized(2, header.Value)
		legible = legible && utf8.ValidString(header.Value)
	}
	if !legible || len(block) > maxHeaderBytes {
		err = InvalidMessage("at most 16 KiB of headers, in UTF-8")
	}
	if len(m.Payload) > maxPayload || len(m.Payload) > maxPayloadBytes {
		err = InvalidMessage(fmt.Sprintf("at most %d bytes of payload", maxPayload))
	}
	flags, fields := int64(0), ""
	add := func(flag int64, has bool, field func() string) {
		if has {
			flags, fields = flags|flag, fields+field()
		}
	}
	add(flagHash, ownID, m.contentHash)
	add(flagExpires, !m.Expires.IsZero(), func() string { return number(8, m.Expires.UnixMilli()) })
	add(flagBackoff, m.Backoff.spec != "", func() string { return sized(1, m.Backoff.spec) })
	add(flagGroup, m.Group != "", func() string { return sized(1, m.Group) })
	add(flagLifetime, m.ExpireAfter != 0, func() string { return number(8, wholeMillis(m.ExpireAfter)) })
	add(flagHeaders, block != "", func() string { return sized(2, block) })
	head := "\x01\x01" + number(2, flags) + string(make([]byte, 26)) + number(2, int64(m.MaxAttempts))
	return head + fields + string(m.Payload), err
}

// contentHash distinguishes a repeat of a put from another message with the same id; the due time is left out.
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

func sized(size int, field string) string { return number(size, int64(len(field))) + field }
