package delayq

import (
	"strconv"
	"strings"
	"time"
)

// ScriptError says that a script refused the whole call, and did nothing. Its code is DQUNINITIALISED, DQLAYOUT, DQTYPE or
// DQARG.
type ScriptError struct{ Code, Detail string }

func (e ScriptError) Error() string { return e.Code + " " + e.Detail }

// Outcome is what became of one message: a word, and what belongs to it. The README lists the words.
type Outcome struct {
	Word string
	// Time is when it is due; of what is over, when it ended; of a lease, its end: on Redis's clock.
	Time time.Time
	// Old is when it was due before.
	Old time.Time
	// State is the state that the answer names.
	State string
	// Why it was refused or failed.
	Why string
	// Doomed says that a cancel came while it was leased: it will not be tried again.
	Doomed bool
}

// Put is what became of a put, and what finds the message again.
type Put struct {
	ID      string
	Shard   int
	Outcome Outcome
}

// Accepted says whether the message is kept, by this put or an earlier one.
func (p Put) Accepted() bool {
	return p.Outcome.Word == "stored" || p.Outcome.Word == "ready" || p.Outcome.Word == "exists"
}

func parseOutcome(text string) (outcome Outcome) {
	word, rest, _ := strings.Cut(text, " ")
	outcome.Word = word
	if word == "refused" || word == "failed" {
		outcome.Why = rest
		return outcome
	}
	var times []time.Time
	for _, one := range strings.Fields(text) {
		if ms, err := strconv.ParseInt(one, 10, 64); err == nil {
			times = append(times, time.UnixMilli(ms))
		} else {
			outcome.State = one // the last word; the first one alone is none
		}
	}
	if outcome.State == word {
		outcome.State = ""
	}
	if len(times) > 0 {
		outcome.Time = times[len(times)-1]
	}
	if len(times) == 2 {
		outcome.Old = times[0]
	}
	if outcome.Doomed = word == "cancelled" && len(times) > 0; outcome.Doomed || len(times) > 0 && text == rest+word {
		outcome.Word = "extended"
	}
	return outcome
}
