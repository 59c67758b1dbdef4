// Due times that are spread by id, as all clients spread them.

package delayq

import (
	"strings"
	"testing"
	"time"
)

func TestAnIDHasTheSameTimeInAWindowEverywhere(t *testing.T) {
	var file struct {
		Offsets []struct {
			ID       string
			SpanMs   int64 `json:"span_ms"`
			OffsetMs int64 `json:"offset_ms"`
		}
		Windows []struct {
			Name, Window, ID string
			EarliestMs       int64 `json:"earliest_ms"`
			DueMs            int64 `json:"due_ms"`
		}
		Refused []struct{ Name, Window, Why string }
	}
	vectors(t, "windows.json", &file)
	for _, c := range file.Offsets {
		if got := offsetMs(c.ID, c.SpanMs); got != c.OffsetMs {
			t.Errorf("%q in %d ms: %d, not %d", c.ID, c.SpanMs, got, c.OffsetMs)
		}
	}
	for _, c := range file.Windows {
		due, err := Between(c.Window, c.ID, time.UnixMilli(c.EarliestMs))
		if want := time.UnixMilli(c.DueMs).UTC(); err != nil || !due.Equal(want) {
			t.Errorf("%s: %v, %v, not %v", c.Name, due, err, want)
		}
	}
	for _, c := range file.Refused {
		if _, err := Between(c.Window, "a", time.Now()); err == nil || !strings.Contains(err.Error(), c.Why) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

func TestAJitterIsTheSameForEachRepeat(t *testing.T) {
	jitter := Jitter("order-17", time.Hour)
	if jitter != Jitter("order-17", time.Hour) || jitter < 0 || jitter >= time.Hour || Jitter("order-17", 0) != 0 {
		t.Error(jitter)
	}
	if err := After(Jitter("order-17", -time.Second)).fault(); err == nil {
		t.Error("a negative jitter was taken")
	}
}
