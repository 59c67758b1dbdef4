package delayq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
)

func deployment(t *testing.T, namespace string, shards int) *Client {
	t.Helper()
	client := must(New(connect(t), Options{Namespace: namespace, Shards: shards}))
	for shard := range shards {
		must(client.send(context.Background(), []call{{"init", shard, []any{shard, shards}}}))
	}
	return client
}

func TestMoreThanOneCallTakesGoesInSeveralAnsweredInOrder(t *testing.T) {
	ctx, client, due := context.Background(), deployment(t, "many", 2), int64(1)
	var messages []Message
	for n := range 2500 {
		id := must(OwnID(fmt.Sprintf("m%d", n)))
		message := Message{Topic: fmt.Sprintf("t%d", n%2), ID: id, Payload: bytes.Repeat([]byte("x"), 4096), DueMs: &due}
		messages = append(messages, message)
	}
	for n, put := range must(client.PutMany(ctx, messages)) {
		if put.ID != messages[n].ID || put.Answer.Word != "ready" {
			t.Fatalf("message %d: %+v", n, put)
		}
	}
	var receipts []Receipt
	for {
		found := must(client.Reserve(ctx, Reserve{Topics: []string{"t0", "t1"}, Most: 500}))
		if len(found.Deliveries) == 0 {
			break
		}
		for _, delivery := range found.Deliveries {
			receipts = append(receipts, delivery.Receipt)
		}
	}
	if len(receipts) != 2500 {
		t.Fatalf("%d deliveries", len(receipts))
	}
	answers := must(client.Ack(ctx, append(receipts, Receipt{0, "1:none0000"})...))
	for n, answer := range answers {
		if (answer.Word == "delivered") != (n < 2500) {
			t.Fatalf("receipt %d: %+v", n, answer)
		}
	}
}

func TestAMessageThatCannotBeReadDoesNotStopItsNeighbours(t *testing.T) {
	ctx, client, due := context.Background(), deployment(t, "broken", 1), int64(1)
	envelope := append(append([]byte{1, 1, 0, 16}, make([]byte, 28)...), 0, 9, 1)
	must(client.send(ctx, []call{{"put", 0, []any{"t", "broken", "1", "", envelope}}}))
	must(client.Put(ctx, Message{Topic: "t", ID: must(OwnID("whole")), DueMs: &due}))
	found := must(client.Reserve(ctx, Reserve{Topics: []string{"t"}, Most: 10}))
	if len(found.Deliveries) != 1 || len(found.Broken) != 1 || !errors.Is(found.Broken[0].Err, ErrMalformed) {
		t.Fatalf("got %+v", found)
	}
	if answers := must(client.Bury(ctx, []Receipt{found.Broken[0].Receipt}, "x")); answers[0].Word != "buried" {
		t.Fatalf("got %+v", answers)
	}
}
