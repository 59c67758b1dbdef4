// Groups, topics, dead letters and policies.

package delayq

import (
	"context"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"
)

func idsOf(t *testing.T, list func(visit func(*StoredMessage) error) error) (ids []string) {
	t.Helper()
	err := list(func(one *StoredMessage) error {
		ids = append(ids, one.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestAGroupIsListedByDueTimeMovedAndCancelledAsAWhole(t *testing.T) {
	client, ctx, at := deployment(t, connect(t), "groups", 4), context.Background(), time.UnixMilli(4_102_444_800_000)
	group := client.Group("user-5")
	for _, n := range []int{3, 1, 2} {
		due := At(at.Add(time.Duration(n) * time.Second))
		must(client.Put(ctx, Message{Topic: fmt.Sprint("t", n), ID: fmt.Sprint("m-", n), Due: due, Group: "user-5"}))
	}
	list := func(visit func(*StoredMessage) error) error { return group.List(ctx, visit) }
	if ids := idsOf(t, list); !reflect.DeepEqual(ids, []string{"m-1", "m-2", "m-3"}) {
		t.Fatal(ids)
	}
	first, again := must(group.Shift(ctx, time.Minute, "once")), must(group.Shift(ctx, time.Minute, "once"))
	if first != (GroupShifted{Moved: 3}) || again != (GroupShifted{}) {
		t.Fatal(first, again)
	}
	if one := must(client.Get(ctx, "t1", "m-1", "user-5")); !one.Due.Equal(at.Add(61 * time.Second)) {
		t.Fatal(one)
	}
	if cancelled := must(group.Cancel(ctx)); cancelled != (GroupCancelled{Cancelled: 3}) {
		t.Fatal(cancelled)
	}
	if ids := idsOf(t, list); len(ids) > 0 {
		t.Fatal(ids)
	}
	if one := must(client.Get(ctx, "t1", "m-1", "user-5")); one.State != Cancelled {
		t.Fatal(one)
	}
}

func TestAGroupIsListedMovedAndCancelledInOneTopicAndKeepsTheOthers(t *testing.T) {
	client, ctx, at := deployment(t, connect(t), "of-topic", 4), context.Background(), time.UnixMilli(4_102_444_800_000)
	for _, topic := range []string{"orders", "reminders"} {
		must(client.Put(ctx, Message{Topic: topic, ID: topic, Due: At(at), Group: "user-5"}))
	}
	group := client.Group("user-5")
	orders, reminders := group.OfTopic("orders"), group.OfTopic("reminders")
	list := func(group Group) []string {
		return idsOf(t, func(visit func(*StoredMessage) error) error { return group.List(ctx, visit) })
	}
	if ids := list(orders); !reflect.DeepEqual(ids, []string{"orders"}) {
		t.Fatal(ids)
	}
	moved, cancelled := must(reminders.Shift(ctx, time.Minute, "")), must(orders.Cancel(ctx))
	if moved != (GroupShifted{Moved: 1}) || cancelled != (GroupCancelled{Cancelled: 1}) {
		t.Fatal(moved, cancelled)
	}
	if ids := list(group); !reflect.DeepEqual(ids, []string{"reminders"}) {
		t.Fatal(ids)
	}
	if one := must(client.Get(ctx, "reminders", "reminders", "user-5")); !one.Due.Equal(at.Add(time.Minute)) {
		t.Fatal(one)
	}
	if nothing := must(group.OfTopic("nobody").Cancel(ctx)); nothing != (GroupCancelled{}) {
		t.Fatal(nothing)
	}
}

func TestASecondShiftOfAGroupAtOnceIsRefused(t *testing.T) {
	client, ctx := deployment(t, connect(t), "busy", 4), context.Background()
	var shard int
	for n := 0; n < 3; n++ {
		shard = must(client.Put(ctx, Message{Topic: "t", Due: After(time.Hour), Group: "busy"})).Shard
	}
	if reply := must(client.one(ctx, "shift_group", shard, "busy", "", "other", 5, 1)); reply[0] != "more" {
		t.Fatal(reply)
	}
	if _, err := client.Group("busy").Shift(ctx, time.Second, ""); err != ErrGroupBusy {
		t.Fatal(err)
	}
}

func TestATopicIsCountedAndListedOverAllShardsInMoreThanOnePage(t *testing.T) {
	client, ctx, due := deployment(t, connect(t), "listed", 4), context.Background(), time.UnixMilli(time.Now().UnixMilli()).Add(time.Minute)
	var messages []Message
	for n := 0; n < 2500; n++ {
		messages = append(messages, Message{Topic: "t", ID: fmt.Sprint("m-", n), Due: At(due.Add(time.Duration(n) * time.Millisecond))})
	}
	must(client.PutMany(ctx, append(messages, Message{Topic: "t", ID: "now"})))
	topic := client.Topic("t")
	if now := must(topic.Count(ctx)); now != (Numbers{Delayed: 2500, Ready: 1, Accepted: 2501, NextDue: due}) {
		t.Fatal(now)
	}
	ids := func(state State, span Range) []string {
		ids := idsOf(t, func(visit func(*StoredMessage) error) error { return topic.List(ctx, state, span, visit) })
		sort.Strings(ids)
		return ids
	}
	if all := ids(Delayed, Range{}); len(all) != 2500 {
		t.Fatal(len(all))
	}
	if some := ids(Delayed, Range{From: due.Add(10 * time.Millisecond), To: due.Add(12 * time.Millisecond)}); !reflect.DeepEqual(some, []string{"m-10", "m-11", "m-12"}) {
		t.Fatal(some)
	}
	if ready := ids(Ready, Range{}); !reflect.DeepEqual(ready, []string{"now"}) {
		t.Fatal(ready)
	}
	purged, kept, err := topic.Purge(ctx, Delayed, Range{To: due.Add(999 * time.Millisecond)})
	if left := must(topic.Count(ctx)).Delayed; purged != 1000 || kept != 0 || err != nil || left != 1500 {
		t.Fatal(purged, kept, err, left)
	}
}

func TestATopicOrAGroupIsPromotedUpToATimeAndNoMessageTwice(t *testing.T) {
	client, ctx, due := deployment(t, connect(t), "promoted", 4), context.Background(), time.UnixMilli(time.Now().UnixMilli()).Add(time.Minute)
	messages := make([]Message, 500)
	for n := range messages {
		messages[n] = Message{Topic: "t", ID: fmt.Sprint("m-", n), Due: At(due.Add(time.Duration(n) * time.Millisecond)), Group: []string{"even", "odd"}[n%2]}
	}
	must(client.PutMany(ctx, messages))
	until := func(n int) Range { return Range{To: due.Add(time.Duration(n) * time.Millisecond)} }
	if promoted, kept, err := client.Group("odd").Promote(ctx, until(99)); promoted != 50 || kept != 0 || err != nil {
		t.Fatal(promoted, kept, err)
	}
	for _, wanted := range []int64{250, 0} {
		if promoted, kept, err := client.Topic("t").Promote(ctx, until(299)); promoted != wanted || kept != 0 || err != nil {
			t.Fatal(promoted, kept, err)
		}
	}
	if now := must(client.Topic("t").Count(ctx)); now.Delayed != 200 || now.Ready != 300 {
		t.Fatal(now)
	}
}

func TestDeadLettersAreListedWithTheirReasonsReplayedAndPurged(t *testing.T) {
	client, ctx := deployment(t, connect(t), "dead", 4), context.Background()
	topic := client.Topic("t")
	for _, id := range []string{"a", "b", "c", "d"} {
		must(client.Put(ctx, Message{Topic: "t", ID: id}))
	}
	bury := func(count int) {
		for n := 0; n < count; n++ {
			must(must(client.Reserve(ctx, Reserve{Topics: []string{"t"}}))[0].Bury(ctx, "no such user"))
		}
	}
	bury(4)
	err := topic.List(ctx, Dead, Range{}, func(letter *StoredMessage) error {
		if letter.Reason != "no such user" {
			t.Error(letter)
		}
		return nil
	})
	outcomes := must(topic.Replay(ctx, 0, "", "a", "never put"))
	if err != nil || outcomes[0].Word != Ready || outcomes[1].Word != Unknown || outcomes[1].ID != "never put" {
		t.Fatal(err, outcomes)
	}
	if again := must(topic.Replay(ctx, 0, "", "a")); again[0].Word != NotDead || again[0].State != Ready {
		t.Fatal(again)
	}
	replayed, kept, err := topic.ReplayAll(ctx, time.Minute, Range{})
	if now := must(topic.Count(ctx)); replayed != 3 || kept != 0 || err != nil || now.Delayed != 3 {
		t.Fatal(replayed, kept, err, now)
	}
	bury(1)
	if purged, kept, err := topic.Purge(ctx, Dead, Range{}); purged != 1 || kept != 0 || err != nil {
		t.Fatal(purged, kept, err)
	}
}

func TestAMessageThatCannotBeReadKeepsNoOtherFromBeingListed(t *testing.T) {
	client, ctx := deployment(t, connect(t), "unread", 1), context.Background()
	// The stored name of a generated id has no group.
	id, whole := strings.Repeat("\x01", 16), "\x01\x01"+strings.Repeat("\x00", 30)
	broken := "\x01\x01\x00\x08" + strings.Repeat("\x00", 28) + "\x01\x07"
	must(client.one(ctx, "put", 0, "t", id, "+60000", "", whole, "whole", "+60000", "", whole))
	plant(t, client.redis, "unread", id, broken)
	unreadable := map[string]bool{}
	err := client.Topic("t").List(ctx, Delayed, Range{}, func(one *StoredMessage) error {
		unreadable[one.ID] = one.Unreadable != nil
		return nil
	})
	if err != nil || !reflect.DeepEqual(unreadable, map[string]bool{idText(id): true, "whole": false}) {
		t.Fatal(err, unreadable)
	}
}

func TestOneGroupIsPausedWhileTheOthersGoOn(t *testing.T) {
	client, ctx := deployment(t, connect(t), "calm", 4), context.Background()
	topic := client.Topic("t")
	for i := 0; i < 2; i++ {
		if err := topic.PauseGroup(ctx, "a"); err != nil {
			t.Fatal(err)
		}
	}
	if paused := must(topic.PausedGroups(ctx)); len(paused) != 1 || paused[0].Group != "a" || time.Since(paused[0].Since).Abs() > time.Hour {
		t.Fatal(paused)
	}
	for n, group := range []string{"a", "a", "b"} {
		must(client.Put(ctx, Message{Topic: "t", ID: fmt.Sprint("m", n), Payload: []byte("x"), Group: group}))
	}
	reserved := func() (ids []string) {
		for _, delivery := range must(client.Reserve(ctx, Reserve{Topics: []string{"t"}, Max: 10})) {
			ids = append(ids, delivery.ID)
		}
		return ids
	}
	if ids := reserved(); !reflect.DeepEqual(ids, []string{"m2"}) {
		t.Fatal(ids)
	}
	err := topic.List(ctx, Ready, Range{}, func(one *StoredMessage) error {
		if !one.Held || !one.Paused {
			t.Error(one)
		}
		return nil
	})
	if err := first(err, topic.ResumeGroup(ctx, "a")); err != nil {
		t.Fatal(err)
	}
	if ids, paused := reserved(), must(topic.PausedGroups(ctx)); !reflect.DeepEqual(ids, []string{"m0", "m1"}) || len(paused) > 0 {
		t.Fatal(ids, paused)
	}
	if err := topic.PauseGroup(ctx, ""); err == nil {
		t.Fatal("a group has a name")
	}
}

func TestAPolicyIsChangedFieldByFieldInEveryShard(t *testing.T) {
	client, ctx := deployment(t, connect(t), "policed", 4), context.Background()
	topic, rises := client.Topic("t"), Exponential(time.Second, 9*time.Second)
	must(topic.SetPolicy(ctx, Policy{MaxAttempts: Set(uint16(3)), Lease: Set(time.Minute), Rate: Set(8.0), Backoff: &rises}))
	got := must(topic.SetPolicy(ctx, Policy{Paused: Set(true)}, SettingLease))
	if want := (Policy{MaxAttempts: Set(uint16(3)), Rate: Set(8.0), Backoff: &rises, Paused: Set(true)}); !reflect.DeepEqual(got, want) {
		t.Fatal(got, want)
	}
	if shown := fmt.Sprint(must(client.one(ctx, "describe", 3, "t"))); !strings.Contains(shown, "rate 2.0") {
		t.Fatal(shown)
	}
	got = must(topic.SetPolicy(ctx, Policy{Paused: Set(false)}, SettingRate))
	if want := (Policy{MaxAttempts: Set(uint16(3)), Backoff: &rises}); !reflect.DeepEqual(got, want) {
		t.Fatal(got, want)
	}
	kept := must(topic.SetPolicy(ctx, Policy{History: Set(uint32(500)), HistoryFor: Set(24 * time.Hour)}))
	if *kept.History != 500 || *kept.HistoryFor != 24*time.Hour {
		t.Fatal(*kept.History, *kept.HistoryFor)
	}
	if rises.String() != "exponential 1s 9s" {
		t.Fatal(rises)
	}
}
