// Messages of several dates.

package delayq

import (
	"strings"
	"testing"
	"time"
)

func TestASeriesHasTheSameIDsEverywhereAndIsAGroup(t *testing.T) {
	var file struct {
		Series []struct {
			Name, ID, Group string
			DueMs           []int64 `json:"due_ms"`
			IDs             []string
		}
		Refused []struct {
			Name, Why string
			ID, Group string
			Dates     int
		}
	}
	vectors(t, "series.json", &file)
	for _, c := range file.Series {
		dues := make([]Due, len(c.DueMs))
		for n, at := range c.DueMs {
			dues[n] = At(time.UnixMilli(at))
		}
		messages, err := Series(Message{Topic: "t", ID: c.ID}, dues...)
		if err != nil || len(messages) != len(c.IDs) {
			t.Fatalf("%s: %v, %v", c.Name, messages, err)
		}
		for n, one := range messages {
			if one.ID != c.IDs[n] || one.Group != c.Group || one.Due != dues[n] {
				t.Errorf("%s: %v", c.Name, one)
			}
		}
	}
	for _, c := range file.Refused {
		dues := make([]Due, c.Dates)
		if _, err := Series(Message{Topic: "t", ID: c.ID, Group: c.Group}, dues...); err == nil || !strings.Contains(err.Error(), c.Why) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
