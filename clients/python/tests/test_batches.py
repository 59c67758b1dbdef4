"""Many messages at a time, and those that cannot be read."""

import pytest
import redis

from delayq import Client, Message, Receipt
from delayq.core import Call


@pytest.fixture
def deployment(redis_socket):
    with redis.Redis(unix_socket_path=redis_socket) as connection:

        def create(namespace, shards):
            client = Client(connection, namespace, shards)
            client.send([Call("init", shard, [shard, shards]) for shard in range(shards)])
            return client

        yield create


def test_more_than_one_call_takes_goes_in_several_answered_in_order(deployment):
    client = deployment("many", 2)
    puts = client.put_many([Message(f"t{n % 2}", b"x" * 4096, f"m{n}", at_ms=1) for n in range(2500)])
    assert [(str(put.id), put.answer.word) for put in puts] == [(f"m{n}", "ready") for n in range(2500)]
    receipts = []
    while found := client.reserve(["t0", "t1"], 500).deliveries:
        receipts += [delivery.receipt for delivery in found]
    assert len(receipts) == 2500
    answers = client.ack([*receipts, Receipt(0, b"1:none0000")])
    assert [answer.word for answer in answers] == ["delivered"] * 2500 + ["expired"]


def test_a_message_that_cannot_be_read_does_not_stop_its_neighbours(deployment):
    client = deployment("broken", 1)
    envelope = bytes([1, 1, 0, 16]) + bytes(28) + bytes([0, 9, 1])
    client.send([Call("put", 0, ["t", "broken", "1", "", envelope])])
    client.put(Message("t", b"x", "whole", at_ms=1))
    reserved = client.reserve(["t"], 10)
    assert [str(delivery.id) for delivery in reserved.deliveries] == ["whole"]
    [(receipt, why)] = reserved.broken
    assert "malformed" in why and client.bury([receipt], why)[0].word == "buried"
