// Names of messages, topics, groups and namespaces, and the shards of names.

package delayq

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/url"
	"regexp"
	"sort"
	"strings"
	"time"
	"unicode/utf8"
)

// InvalidMessage reports an invalid message or name. Nothing was sent.
type InvalidMessage string

func (e InvalidMessage) Error() string { return string(e) }

// checkName checks a name against the form of the kind.
func checkName(what, text string) error {
	form := nameForms[what]
	if len(text) > form.maxBytes || !utf8.ValidString(text) || !form.characters.MatchString(text) {
		return InvalidMessage(fmt.Sprintf("%.40q is not a valid %s", text, what))
	}
	return nil
}

func first(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// generateID returns a UUIDv7 with the shard in the 12 bits after the version. The time only orders ids.
func generateID(shard int) string {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw[8:]); err != nil {
		panic("cannot read random bytes from the system: " + err.Error())
	}
	binary.BigEndian.PutUint64(raw, uint64(time.Now().UnixMilli())&(1<<45-1)<<16|0x7000|uint64(shard))
	raw[8] = 0x80 | raw[8]&0x3f
	return idText(string(raw))
}

// separator ends an own id before a group.
const separator = "\x1f"

// storedID returns the name of a message in keys and calls: the id; for an own id in a group, followed by a separator and the
// group.
func storedID(id, group string) (string, error) {
	raw, err := idBytes(id)
	if group == "" {
		return raw, err
	}
	err = first(err, checkName("group", group))
	if generated(raw) || isOdd(id, raw) {
		return raw, err
	}
	return raw + separator + group, err
}

// idAndGroup returns id and group of a stored name. A generated id and a name outside the rules have no group.
func idAndGroup(stored string) (id, group string) {
	raw, group, has := strings.Cut(stored, separator)
	if has && !generated(stored) && isOwn(raw) && isOwn(group) {
		return idText(raw), group
	}
	return idText(stored), ""
}

// idBytes returns the bytes of an id: 16 for a generated id, the text of an own id (a leading ~ is doubled in text), or the
// bytes of an ~odd- name.
func idBytes(text string) (string, error) {
	if strings.HasPrefix(text, oddMark) {
		return oddBytes("id", text)
	}
	if own := strings.TrimPrefix(text, "~"); own == text || strings.HasPrefix(own, "~") {
		return own, checkName("id", own)
	}
	if !generatedID.MatchString(text) {
		return "", InvalidMessage(fmt.Sprintf("%.40q is not a valid generated id", text))
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(text[1:], "-", ""))
	return string(raw), err
}

// checkNewID refuses an id that a put may not create.
func checkNewID(text string) error {
	raw, err := idBytes(text)
	if err == nil && isOdd(text, raw) {
		err = InvalidMessage(fmt.Sprintf("id %.40q is outside the rules: it can be cancelled, not put", text))
	}
	return err
}

// isOdd reports whether an id is outside the rules. idBytes has checked any other.
func isOdd(text, raw string) bool {
	return strings.HasPrefix(text, oddMark) && !generated(raw) && !isOwn(raw)
}

// idText returns the text of an id: the inverse of idBytes.
func idText(raw string) string {
	switch {
	case generated(raw):
		return fmt.Sprintf("~%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
	case !isOwn(raw):
		return oddText(raw)
	case strings.HasPrefix(raw, "~"):
		return "~" + raw
	}
	return raw
}

// topicArg encodes a topic for a call: the text, or the bytes of an ~odd- name.
func topicArg(topic string) (string, error) {
	if strings.HasPrefix(topic, oddMark) {
		return oddBytes("topic", topic)
	}
	return topic, checkName("topic", topic)
}

// topicText returns the text of a stored topic, valid or not.
func topicText(raw string) string {
	if checkName("topic", raw) == nil {
		return raw
	}
	return oddText(raw)
}

// oddMark starts the text of a name outside the rules, stored by another program; the bytes follow.
const oddMark = "~odd-"

var oddForm = regexp.MustCompile(`^~odd-([^%]|%[0-9A-Fa-f]{2})*$`)

func oddText(raw string) string {
	text := oddMark
	for _, byte := range []byte(raw) {
		if strings.IndexByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/", byte) >= 0 {
			text += string(rune(byte))
		} else {
			text += fmt.Sprintf("%%%02X", byte)
		}
	}
	return text
}

func oddBytes(what, text string) (string, error) {
	raw, err := url.PathUnescape(strings.TrimPrefix(text, oddMark))
	if err != nil || !utf8.ValidString(text) || !oddForm.MatchString(text) {
		return "", InvalidMessage(fmt.Sprintf("%.40q is not an ~odd- %s: write each %% as %%25", text, what))
	}
	return raw, nil
}

// isOwn reports whether the bytes are a valid own id or group.
func isOwn(raw string) bool { return !generated(raw) && checkName("id", raw) == nil }

func generated(raw string) bool { return len(raw) == 16 && raw[0] < 0x20 }

// placesOf returns the shards of an id or group: the present shard first, then the shards of earlier layouts.
func placesOf(name string, counts []int) (places []int) {
	if generated(name) {
		return []int{int(binary.BigEndian.Uint16([]byte(name[6:8])) & 0xfff)}
	}
	for i := len(counts) - 1; i >= 0; i-- {
		if place := int(crc32.ChecksumIEEE([]byte(name)) % uint32(counts[i])); !contains(places, place) {
			places = append(places, place)
		}
	}
	return places
}

func sortedKeys[T any](all map[string]T) (keys []string) {
	for key := range all {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func contains[T comparable](places []T, place T) bool {
	for _, one := range places {
		if one == place {
			return true
		}
	}
	return false
}
