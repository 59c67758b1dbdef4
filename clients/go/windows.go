// Due times that are spread evenly by id, with the same result in every client.

package delayq

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"time"
)

var (
	windowText = regexp.MustCompile(`(?s)^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d) (.*)$`)
	zoneText   = regexp.MustCompile(`^[A-Za-z][\w+-]*(/[\w+-]+)*$`)
)

const (
	daySeconds = 86_400
	// A zone skips one day at most; a window occurs on the next.
	daysAhead = 4
)

type window struct {
	start, end int64
	zone       *time.Location
}

// Jitter returns a delay from 0 up to longest, the same for each repeat with this id. After refuses a negative one.
func Jitter(id string, longest time.Duration) time.Duration {
	if longest <= 0 {
		return longest
	}
	return time.Duration(offsetMs(id, wholeMillis(longest))) * time.Millisecond
}

// Between returns the first time, from earliest on, at which an id's turn comes in a daily window.
//
// A window is "09:00-10:00 Europe/Berlin"; one whose end is before its start crosses midnight. Each id has its own offset in
// the window, so many ids are spread evenly, and a repeat before that time returns the same time. A window that lies in the
// hour that the clocks skip does not occur that day. A program for machines without time zones imports time/tzdata.
func Between(text, id string, earliest time.Time) (time.Time, error) {
	window, err := readWindow(text)
	if err = first(first(err, checkText("an id", id)), checkTime("an earliest time", earliest)); err != nil {
		return time.Time{}, err
	}
	from := earliest.Unix()
	today := (from + window.offset(from)) / daySeconds
	for day := today - 1; day <= today+daysAhead; day++ {
		opens, closes := window.on(day)
		if opens >= closes {
			continue
		}
		due := time.UnixMilli(opens*1000 + offsetMs(id, (closes-opens)*1000)).UTC()
		if !due.Before(earliest) {
			return due, nil
		}
	}
	return time.Time{}, InvalidMessage(fmt.Sprintf("no window %.60q opens after %v", text, earliest.UTC()))
}

func readWindow(text string) (window, error) {
	parts := windowText.FindStringSubmatch(text)
	if parts == nil {
		return window{}, InvalidMessage(fmt.Sprintf("%.60q is not a window: write HH:MM-HH:MM ZONE, as 09:00-10:00 Europe/Berlin", text))
	}
	seconds := func(n int) int64 {
		hours, _ := strconv.ParseInt(parts[n], 10, 64)
		minutes, _ := strconv.ParseInt(parts[n+1], 10, 64)
		return 60 * (60*hours + minutes)
	}
	read := window{start: seconds(1), end: seconds(3)}
	if read.start == read.end {
		return window{}, InvalidMessage(fmt.Sprintf("the window %.60q is empty: its end is its start", text))
	}
	zone, err := time.LoadLocation(parts[5])
	// Go takes this name for the zone of the machine.
	if err != nil || parts[5] == "Local" || !zoneText.MatchString(parts[5]) {
		return window{}, InvalidMessage(fmt.Sprintf("unknown time zone %.60q in a window; a machine without zones needs time/tzdata", parts[5]))
	}
	read.zone = zone
	return read, nil
}

// on returns both ends of the window that begins on a day, in seconds since the epoch.
func (w window) on(day int64) (opens, closes int64) {
	last := day
	if w.end < w.start {
		last++
	}
	opens, again := w.instants(day*daySeconds + w.start)
	closes, _ = w.instants(last*daySeconds + w.end)
	if again < closes {
		return again, closes
	}
	return opens, closes
}

// instants returns the first and the last instant at which the zone's clock shows a time; the end of the gap for a skipped time.
func (w window) instants(wall int64) (firstShown, lastShown int64) {
	before, after := wall-daySeconds, wall+daySeconds
	low, high := w.offset(before), w.offset(after)
	if low > high {
		low, high = high, low
	}
	isHigh, isLow := w.offset(wall-high) == high, w.offset(wall-low) == low
	switch {
	case isHigh && isLow:
		return wall - high, wall - low
	case isHigh:
		return wall - high, wall - high
	case isLow:
		return wall - low, wall - low
	}
	for after-before > 1 {
		if middle := (before + after) / 2; w.offset(middle) == w.offset(before) {
			before = middle
		} else {
			after = middle
		}
	}
	return after, after
}

func (w window) offset(second int64) int64 {
	_, offset := time.Unix(second, 0).In(w.zone).Zone()
	return int64(offset)
}

func offsetMs(id string, span int64) int64 {
	digest := sha256.Sum256([]byte(id))
	offset, _ := bits.Mul64(uint64(span), binary.BigEndian.Uint64(digest[:]))
	return int64(offset)
}
