"""What a reserve does with messages that cannot be read."""

import pytest
import redis

from delayq import Client
from delayq.scripts import script

GOOD = bytes([1, 1]) + bytes(30)
#: A generated id, of whose name the group is no part.
BROKEN = bytes([1] * 16)
UNREADABLE = {
    "malformed group": bytes([1, 1, 0, 8]) + bytes(28) + bytes([1, 7]),
    "group that is no text": bytes([1, 1, 0, 8]) + bytes(28) + bytes([1, 0xFF]),
    "no zstd frame": bytes([1, 1, 0, 32]) + bytes(28) + b"plain text",
    "a frame that would be larger than any payload": bytes([1, 1, 0, 32]) + bytes(28)
    + bytes.fromhex("28b52ffda000000040") + bytes(8),
    "a dictionary that is not there": bytes([1, 1, 0, 32]) + bytes(28) + bytes.fromhex("28b52ffd23010203040501000078"),
}


def call(connection, verb, *args):
    return connection.eval(script(verb)[0], 2, "{reading:0}:meta", "{reading:0}:never", 1, *args)


@pytest.fixture
def deployment(redis_socket):
    with redis.Redis(unix_socket_path=redis_socket) as connection:
        call(connection, "init", 0, 1)
        yield connection
        connection.flushdb()


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_message_that_cannot_be_read_is_buried_and_does_not_stop_its_neighbours(deployment, name):
    call(deployment, "put", "t", BROKEN, "1", "", UNREADABLE[name], "whole", "1", "", GOOD)
    assert [delivery.id for delivery in Client(deployment, "reading").reserve(["t"], 10)] == ["whole"]
    counted = call(deployment, "count", "t", 0)
    assert (counted[3], counted[4], counted[5]) == (0, 1, 1)


def test_without_the_package_compressed_messages_are_given_back_and_refused_by_name(deployment, monkeypatch):
    call(deployment, "put", "t", "coded", "1", "", UNREADABLE["no zstd frame"])
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(ImportError, match="zstandard"):
        Client(deployment, "reading").reserve(["t"])
    assert call(deployment, "count", "t", 0)[1] == 1
