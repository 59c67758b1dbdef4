package delayq

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxTimeMs       = 1<<53 - 1
	maxHeaderBytes  = 16 * 1024
	maxPayloadBytes = 1024 * 1024
)

var headerForm = regexp.MustCompile(`^[!-~]{1,255}$`)

// Message is a message to be delivered at its due time: at DueMs, or AfterMs from the put where that is nil, both on
// Redis's clock.
type Message struct {
	Topic   string
	Payload []byte
	// ID is the producer's own (OwnID), or one that was generated before. Without it one is generated.
	ID      MessageID
	DueMs   *int64
	AfterMs int64
	// Group is empty for none.
	Group   string
	Headers []Header
	// ExpiresMs is 0 for never, or for what the topic says.
	ExpiresMs int64
	// MaxAttempts is 0 for what the topic says.
	MaxAttempts uint16
	Backoff     *Backoff
	// Replace takes the place of a message with the same id, unless that one is leased.
	Replace bool
	// FirstTriedMs says, of a repeat of a put whose fate is unknown, when it was first tried, ms since the epoch.
	FirstTriedMs int64
}

// check refuses what no deployment takes, before anything is sent.
func (m *Message) check(mostPayloadBytes int) error {
	if err := checkForm("topic", m.Topic, topicForm); err != nil {
		return err
	}
	if m.Group != "" {
		if err := checkPrintable("group", m.Group); err != nil {
			return err
		}
	}
	size := 0
	for _, header := range m.Headers {
		size += len(header.Name) + len(header.Value) + 3
		if !headerForm.MatchString(header.Name) || !utf8.ValidString(header.Value) {
			return InvalidMessage(fmt.Sprintf("header %.40q is not 1 to 255 printable ASCII characters with a text", header.Name))
		}
	}
	switch {
	case len(m.Payload) > mostPayloadBytes:
		return InvalidMessage(fmt.Sprintf("the payload has %d bytes; at most %d are allowed", len(m.Payload), mostPayloadBytes))
	case size > maxHeaderBytes:
		return InvalidMessage(fmt.Sprintf("the headers have %d bytes; at most %d are allowed", size, maxHeaderBytes))
	case m.DueMs != nil && (*m.DueMs < 1 || *m.DueMs > maxTimeMs):
		return InvalidMessage(fmt.Sprintf("the due time %d ms is not between 1 and 2^53 - 1", *m.DueMs))
	case m.AfterMs < 0 || m.ExpiresMs < 0:
		return InvalidMessage("a delay and an expiry are not negative")
	case m.DueMs != nil && m.ExpiresMs != 0 && m.ExpiresMs <= *m.DueMs:
		return InvalidMessage(fmt.Sprintf("it expires at %d ms, not after its due time %d ms", m.ExpiresMs, *m.DueMs))
	case m.Backoff != nil && !m.Backoff.valid():
		return InvalidMessage("a back-off is 1 ms to 49 days, the first no longer than the longest; a list has 1 to 32")
	}
	return nil
}

func (b *Backoff) valid() bool {
	for _, ms := range b.DelaysMs {
		if ms == 0 {
			return false
		}
	}
	switch b.Kind {
	case "fixed":
		return len(b.DelaysMs) == 1
	case "exponential":
		return len(b.DelaysMs) == 2 && b.DelaysMs[0] <= b.DelaysMs[1]
	case "list":
		return len(b.DelaysMs) >= 1 && len(b.DelaysMs) <= 32
	}
	return false
}

// contentHash tells the repeat of a put from another message with the same id; the due time is left out.
func (m *Message) contentHash() []byte {
	hash := sha256.New()
	field := func(text string) {
		hash.Write(binary.BigEndian.AppendUint32(nil, uint32(len(text))))
		hash.Write([]byte(text))
	}
	field(m.Topic)
	field(m.Group)
	for _, header := range m.Headers {
		field(header.Name)
		field(header.Value)
	}
	field(string(m.Payload))
	return hash.Sum(nil)[:8]
}

// envelope is what a put sends: scripts fill in state, gen, due, at, delivery and attempt.
func (m *Message) envelope(id MessageID) []byte {
	e := Envelope{State: "delayed", MaxAttempts: m.MaxAttempts, ExpiresMs: m.ExpiresMs, Backoff: m.Backoff,
		Group: m.Group, Headers: m.Headers, Payload: m.Payload}
	if !id.Generated() {
		e.Hash = m.contentHash()
	}
	return e.Encode()
}

func (m *Message) due() string {
	if m.DueMs == nil {
		return "+" + strconv.FormatInt(m.AfterMs, 10)
	}
	return strconv.FormatInt(*m.DueMs, 10)
}

func (m *Message) options() string {
	var words []string
	if m.Replace {
		words = append(words, "replace")
	}
	if m.FirstTriedMs != 0 {
		words = append(words, fmt.Sprintf("tried=%d", m.FirstTriedMs))
	}
	return strings.Join(words, " ")
}
