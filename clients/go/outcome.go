// Answers of scripts.

package delayq

import (
	"strconv"
	"strings"
	"time"
)

// Word is the result of a call for one message, one of the constants of this package.
type Word string

// State is Delayed, Ready, Leased or Dead or, for a finished message, Delivered, Cancelled, Expired or Purged.
type State string

// ScriptError reports that a script failed as a whole. It changed nothing if the code is DQUNINITIALISED, DQLAYOUT,
// DQDURABILITY or DQARG. WRONGTYPE: a key has another type, and the call may be carried out in part; a repeat is safe.
type ScriptError struct{ Code, Detail string }

func (e ScriptError) Error() string { return e.Code + " " + e.Detail }

// Outcome is the result of a call for one message: a word with details.
type Outcome struct {
	Word  Word
	ID    string
	Shard int
	// Time is the due time, the end of a finished message, or the end of a lease, on the Redis clock. Old is the previous due
	// time.
	Time, Old time.Time
	// State is the state in the answer; "malformed" or "newer" if unreadable bytes occupy the id.
	State State
	// Why explains Refused and Failed.
	Why string
	// Doomed means cancelled while leased: the message will not be retried.
	Doomed bool
}

// Accepted reports success: a put is stored, by this call or an earlier one; a message is cancelled; a message has the new due
// time; a delivery is settled or extended; a dead letter is revived.
func (o Outcome) Accepted() bool {
	return contains(accepted, o.Word) && !(o.Word == Exists && contains(lost, o.State))
}

func (o *Outcome) parse(text string) {
	words := strings.Fields(strings.Replace(text, "not dead", NotDead, 1))
	if o.Word = Word(words[0]); o.Word == Refused || o.Word == Failed {
		o.Why = strings.TrimPrefix(text, words[0]+" ")
		return
	}
	for n, word := range words {
		if word[0] <= '9' {
			ms, _ := strconv.ParseInt(word, 10, 64)
			o.Old, o.Time = o.Time, time.UnixMilli(ms)
		} else if n > 0 {
			o.State = State(word)
		}
	}
	if o.Doomed = o.Word == Cancelled && len(words) > 1; o.Doomed || o.Word[0] <= '9' {
		o.Word = Extended
	}
}

// acked turns the outcome of a put of a next message into that of the ack.
func (o Outcome) acked() Outcome {
	ack := Outcome{Word: o.Word, ID: o.ID, Shard: o.Shard, Why: o.Why}
	switch o.Word {
	case Stored, Ready, Exists:
		ack.Word = Delivered
	case Conflict:
		ack.Word, ack.Why = Failed, "the next message was not put: conflict "+string(o.State)
	case Refused:
		ack.Word, ack.Why = Failed, "the next message was not put: "+o.Why
	}
	return ack
}
