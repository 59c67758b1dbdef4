// Names of messages, topics, groups and namespaces, and the places that they say.

package delayq

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"regexp"
	"sort"
	"strings"
	"time"
	"unicode/utf8"
)

// InvalidMessage is a message, or a name, that breaks a limit. Nothing was sent.
type InvalidMessage string

func (e InvalidMessage) Error() string { return string(e) }

var forms = map[string]*regexp.Regexp{
	"id":           regexp.MustCompile(`^\P{Cc}+$`),
	"group":        regexp.MustCompile(`^\P{Cc}+$`),
	"topic":        regexp.MustCompile(`^[A-Za-z0-9._/-]+$`),
	"namespace":    regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`),
	"header name":  regexp.MustCompile(`^[!-~]{1,255}$`),
	"generated id": regexp.MustCompile(`(?i)^~[01][\da-f]{7}-[\da-f]{4}-7[\da-f]{3}(-[\da-f]{4}){2}[\da-f]{8}$`),
}

// checkName checks a name by its form. It has 128 bytes at most, where the form does not say how many.
func checkName(what, text string) error {
	long := len(text) > 128 && what != "header name"
	if long || !utf8.ValidString(text) || !forms[what].MatchString(text) {
		return InvalidMessage(fmt.Sprintf("%.40q is not a valid %s", text, what))
	}
	return nil
}

// first is the first error of two.
func first(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// generateID makes a UUIDv7 that carries its shard in the 12 bits behind the version. The time orders ids, no
// more.
func generateID(shard int) string {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw[8:]); err != nil {
		panic("the system has no randomness: " + err.Error())
	}
	binary.BigEndian.PutUint64(raw, uint64(time.Now().UnixMilli())&(1<<45-1)<<16|0x7000|uint64(shard))
	raw[8] = 0x80 | raw[8]&0x3f
	return idText(string(raw))
}

// separator stands between an own id and its group.
const separator = "\x1f"

// storedID gives the name of a message in keys and calls: its id, of an own one in a group with a separator and the
// group behind it.
func storedID(id, group string) (string, error) {
	raw, err := idBytes(id)
	if group == "" {
		return raw, err
	}
	err = first(err, checkName("group", group))
	if generated(raw) {
		return raw, err
	}
	return raw + separator + group, err
}

// idAndGroup gives what such a name says. That of a generated id names no group.
func idAndGroup(stored string) (id, group string) {
	if generated(stored) {
		return idText(stored), ""
	}
	raw, group, _ := strings.Cut(stored, separator)
	return idText(raw), group
}

// idBytes gives the bytes of an id: 16 of a generated one, or those of an own one, whose first ~ is doubled as text.
func idBytes(text string) (string, error) {
	if own := strings.TrimPrefix(text, "~"); own == text || strings.HasPrefix(own, "~") {
		return own, checkName("id", own)
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(text[1:], "-", ""))
	return string(raw), first(checkName("generated id", text), err)
}

// idText gives the same as text: ~ and a UUID; of an own id itself, with one more ~ where it begins with one.
func idText(raw string) string {
	if generated(raw) {
		return fmt.Sprintf("~%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
	}
	if strings.HasPrefix(raw, "~") {
		return "~" + raw
	}
	return raw
}

func generated(raw string) bool { return len(raw) == 16 && raw[0] < 0x20 }

// placesOf gives the shards where something may be: where its name (its id, or group) belongs, then where it
// belonged before the deployment grew.
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

// sortedKeys are the keys of a map in order.
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
