// The same message at several dates, under one handle.

package delayq

import (
	"fmt"
	"strings"
)

const (
	// A put has as many messages at most.
	maxDues = 500
	// The ids of the messages of a series have a number behind the id of the series.
	maxSeriesID = 124
)

// Series returns a message for each due time: ID/1, ID/2 and so on, in the group ID. The group is the handle: Client.Group lists,
// moves and cancels all that is pending of the series.
func Series(message Message, dues ...Due) ([]Message, error) {
	switch id := message.ID; {
	case len(dues) < 1 || len(dues) > maxDues:
		return nil, InvalidMessage(fmt.Sprintf("a series has 1 to %d due times, not %d", maxDues, len(dues)))
	case message.Group != "":
		return nil, InvalidMessage("a series is a group of its own: leave the group out")
	case id == "" || len(id) > maxSeriesID || strings.HasPrefix(id, "~"):
		return nil, InvalidMessage(fmt.Sprintf("a series needs an id of your own, of 1 to %d bytes that do not begin with ~", maxSeriesID))
	}
	messages := make([]Message, len(dues))
	for n, due := range dues {
		one := message
		one.ID, one.Group, one.Due = fmt.Sprintf("%s/%d", message.ID, n+1), message.ID, due
		messages[n] = one
	}
	return messages, nil
}
