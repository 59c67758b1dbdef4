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
	// ID and Shard find the message again.
	ID    string
	Shard int
	// Time is when it is due; of what is over, when it ended; of a lease, its end: on Redis's clock. Old is when it was
	// due before.
	Time, Old time.Time
	// State is the state that the answer names.
	State string
	// Why it was refused or failed.
	Why string
	// Doomed says that a cancel came while it was leased: it will not be tried again.
	Doomed bool
}

// Accepted says, of a put, whether the message is kept, by this one or an earlier one.
func (o Outcome) Accepted() bool {
	return o.Word == "stored" || o.Word == "ready" || o.Word == "exists"
}

// parse reads what a script answers for one message.
func (o *Outcome) parse(text string) {
	words := strings.Fields(text)
	if o.Word = words[0]; o.Word == "refused" || o.Word == "failed" {
		o.Why = strings.TrimPrefix(text, o.Word+" ")
		return
	}
	for n, word := range words {
		if ms, err := strconv.ParseInt(word, 10, 64); err == nil {
			o.Old, o.Time = o.Time, time.UnixMilli(ms)
		} else if n > 0 {
			o.State = word
		}
	}
	if o.Doomed = o.Word == "cancelled" && len(words) > 1; o.Doomed || o.Word[0] <= '9' {
		o.Word = "extended"
	}
}
