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

// dueAt is when a message is due that was put with this due time, ms or "+" and a delay, at this time in µs.
func dueAt(due string, nowUs int64) time.Time {
	ms, _ := strconv.ParseInt(due, 10, 64)
	if due[0] == '+' {
		ms += nowUs / 1000
	}
	return time.UnixMilli(ms)
}

func parseOutcome(text string) Outcome {
	words := strings.Fields(text)
	outcome := Outcome{Word: words[0]}
	if outcome.Word == "refused" || outcome.Word == "failed" {
		outcome.Why = strings.TrimPrefix(text, words[0]+" ")
		return outcome
	}
	for n, word := range words {
		if ms, err := strconv.ParseInt(word, 10, 64); err == nil {
			outcome.Old, outcome.Time = outcome.Time, time.UnixMilli(ms)
		} else if n > 0 {
			outcome.State = word
		}
	}
	if outcome.Doomed = words[0] == "cancelled" && len(words) > 1; outcome.Doomed || words[0][0] <= '9' {
		outcome.Word = "extended"
	}
	return outcome
}
