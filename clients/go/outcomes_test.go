// The table of outcomes shared by all clients.

package delayq

import (
	"context"
	"testing"
	"time"
)

func TestAnOutcomeIsWhatAllClientsSay(t *testing.T) {
	var file struct {
		Outcomes []struct {
			Verb, Answer, Word, Why string
			Accepted, Doomed        bool
			State                   State
			TimeMs                  int64 `json:"time_ms"`
			OldMs                   int64 `json:"old_ms"`
		}
	}
	vectors(t, "outcomes.json", &file)
	if len(file.Outcomes) < 50 {
		t.Fatal(len(file.Outcomes))
	}
	at := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return time.UnixMilli(ms)
	}
	for _, said := range file.Outcomes {
		var got Outcome
		got.parse(said.Answer)
		want := Outcome{Word: Word(said.Word), Time: at(said.TimeMs), Old: at(said.OldMs), State: said.State, Why: said.Why, Doomed: said.Doomed}
		if got != want || got.Accepted() != said.Accepted {
			t.Errorf("%s %s: got %+v, accepted %v", said.Verb, said.Answer, got, got.Accepted())
		}
	}
}

func TestAPutThatStoredNothingIsNotAcceptedAndACancelThatWasDoneIs(t *testing.T) {
	client, ctx := deployment(t, connect(t), "accepted", 1), context.Background()
	message := Message{Topic: "orders", ID: "go-1", Due: After(time.Minute)}
	if put := must(client.Put(ctx, message)); !put.Accepted() {
		t.Fatal(put)
	}
	if moved := must(client.Reschedule(ctx, "orders", "go-1", "", After(time.Hour))); !moved.Accepted() {
		t.Fatal(moved)
	}
	if cancelled := must(client.Cancel(ctx, "orders", "go-1", "")); !cancelled.Accepted() {
		t.Fatal(cancelled)
	}
	if again := must(client.Put(ctx, message)); again.Word != Exists || again.Accepted() {
		t.Fatal(again)
	}
}
