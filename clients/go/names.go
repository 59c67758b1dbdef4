package delayq

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// InvalidMessage is a message, or a name, that breaks a limit. Nothing was sent.
type InvalidMessage string

func (e InvalidMessage) Error() string { return string(e) }

var (
	printable = regexp.MustCompile(`^[^\p{Cc}]+$`)
	forms     = map[string]*regexp.Regexp{
		"topic":       regexp.MustCompile(`^[A-Za-z0-9._/-]{1,128}$`),
		"namespace":   regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`),
		"header name": regexp.MustCompile(`^[!-~]{1,255}$`),
	}
	generatedForm = regexp.MustCompile(`(?i)^~[01][0-9a-f]{7}-[0-9a-f]{4}-7[0-9a-f]{3}(-[0-9a-f]{4}){2}[0-9a-f]{8}$`)
)

// checkName checks an id or a group (at most 128 bytes of text), a topic, a namespace, a header's name.
func checkName(what, text string) error {
	form := forms[what]
	if form == nil && len(text) <= 128 && utf8.ValidString(text) {
		form = printable
	}
	if form == nil || !form.MatchString(text) {
		return InvalidMessage(fmt.Sprintf("%.40q is no %s", text, what))
	}
	return nil
}

// first is the first error there is.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// generateID makes a UUIDv7 that carries its shard in the 12 bits behind the version. The time orders ids, nothing else.
func generateID(shard int) string {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw[8:]); err != nil {
		panic("the system has no randomness: " + err.Error())
	}
	binary.BigEndian.PutUint64(raw, uint64(time.Now().UnixMilli())&(1<<45-1)<<16|0x7000|uint64(shard))
	raw[8] = 0x80 | raw[8]&0x3f
	return idText(string(raw))
}

// idBytes gives an id as keys and scripts carry it: the bytes of an own one, the 16 of a generated one.
func idBytes(text string) (string, error) {
	if own := strings.TrimPrefix(text, "~"); own == text || strings.HasPrefix(own, "~") {
		return own, checkName("id", own)
	}
	if !generatedForm.MatchString(text) {
		return "", InvalidMessage(fmt.Sprintf("%.40q is no id: a generated one is ~ and a UUID, an own ~ is written ~~", text))
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(text[1:], "-", ""))
	return string(raw), err
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

// placesOf gives the shards where something may be: where its name (of an id, or a group) belongs, then where it belonged
// before the deployment grew.
func placesOf(name string, counts []int) []int {
	if generated(name) {
		return []int{int(binary.BigEndian.Uint16([]byte(name[6:8])) & 0xfff)}
	}
	var places []int
	for i := len(counts) - 1; i >= 0; i-- {
		if place := int(crc32.ChecksumIEEE([]byte(name)) % uint32(counts[i])); !contains(places, place) {
			places = append(places, place)
		}
	}
	return places
}

func contains(places []int, place int) bool {
	for _, one := range places {
		if one == place {
			return true
		}
	}
	return false
}
