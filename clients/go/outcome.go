// What scripts answer.

package delayq

import (
	"strconv"
	"strings"
	"time"
)

// The words of outcomes, and the states of messages; the README says which verb answers which.
const (
	Stored         = "stored"
	Ready          = "ready"
	Exists         = "exists"
	Conflict       = "conflict"
	Stale          = "stale"
	Refused        = "refused"
	Delayed        = "delayed"
	Leased         = "leased"
	Dead           = "dead"
	NotDead        = "not-dead"
	Finished       = "finished"
	Unknown        = "unknown"
	Changed        = "changed"
	Failed         = "failed"
	Extended       = "extended"
	Delivered      = "delivered"
	Cancelled      = "cancelled"
	Expired        = "expired"
	ExpiredMessage = "expired-message"
	Buried         = "buried"
	Purged         = "purged"
	// Unanswered stands for no answer: the call may have been carried out unless the error is a ScriptError.
	Unanswered = "unanswered"
)

// Word is what became of a message: one of the constants of this package.
type Word string

// State is one of Delayed, Ready, Leased and Dead, or, of what is over and remembered, of Delivered, Cancelled,
// Expired and Purged.
type State string

var states = []State{Delayed, Ready, Leased, Dead, Delivered, Cancelled, Expired, Purged}

// ScriptError says that a script refused the whole call, and did nothing. Its code is DQUNINITIALISED,
// DQLAYOUT, DQDURABILITY, DQTYPE or DQARG.
type ScriptError struct{ Code, Detail string }

func (e ScriptError) Error() string { return e.Code + " " + e.Detail }

// Outcome is what became of one message: a word, and what belongs to it.
type Outcome struct {
	Word Word
	// ID and Shard find the message again.
	ID    string
	Shard int
	// Time is when it is due; of what is over, when it ended; of a lease, its end: on Redis's clock. Old is
	// when it was due before.
	Time, Old time.Time
	// State is the state that the answer names; "malformed" or "newer" where the id is taken by bytes that cannot
	// be read.
	State State
	// Why it was refused or failed.
	Why string
	// Doomed says that a cancel came while it was leased: it will not be tried again.
	Doomed bool
}

// Accepted says whether what was asked for holds: a put is kept, by this call or an earlier one; a cancel is done, now or
// before; a message has its new due time; a delivery is settled, or its lease extended; a dead letter lives again.
func (o Outcome) Accepted() bool {
	switch o.Word {
	case Stored, Ready, Delayed, Cancelled, Extended, Delivered, Buried, ExpiredMessage:
		return true
	case Exists: // and nobody gets what an earlier put stored where that was cancelled, has expired or was purged
		return o.State != Cancelled && o.State != Expired && o.State != Purged
	}
	return false
}

// parse reads what a script answers for one message.
func (o *Outcome) parse(text string) {
	words := strings.Fields(strings.Replace(text, "not dead", NotDead, 1))
	if o.Word = Word(words[0]); o.Word == Refused || o.Word == Failed {
		o.Why = strings.TrimPrefix(text, words[0]+" ")
		return
	}
	for n, word := range words {
		if ms, err := strconv.ParseInt(word, 10, 64); err == nil {
			o.Old, o.Time = o.Time, time.UnixMilli(ms)
		} else if n > 0 {
			o.State = State(word)
		}
	}
	if o.Doomed = o.Word == Cancelled && len(words) > 1; o.Doomed || o.Word[0] <= '9' {
		o.Word = Extended
	}
}
