"""Reserves of unreadable messages."""

from datetime import datetime, timedelta, timezone

import pytest
import redis

from delayq import Client, Message, State
from delayq.scripts import script

GOOD = bytes([1, 1]) + bytes(30)
#: A generated id, whose stored name has no group.
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


def plant(connection, id, envelope):
    """Gives a stored message the flags and fields of another envelope, which no put accepts."""
    key = b"{reading:0}:m:1:" + id
    head = connection.get(key)[:32]
    connection.set(key, head[:2] + envelope[2:4] + head[4:] + envelope[32:])


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_message_that_cannot_be_read_is_buried_and_does_not_stop_its_neighbours(deployment, name):
    call(deployment, "put", "t", BROKEN, "1", "", GOOD, "whole", "1", "", GOOD)
    plant(deployment, BROKEN, UNREADABLE[name])
    assert [delivery.id for delivery in Client(deployment, "reading").reserve(["t"], 10)] == ["whole"]
    counted = call(deployment, "count", "t", 0)
    assert (counted[3], counted[4], counted[5]) == (0, 1, 1)


def test_without_the_package_compressed_messages_are_given_back_and_refused_by_name(deployment, monkeypatch):
    call(deployment, "put", "t", "coded", "1", "", UNREADABLE["no zstd frame"])
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(ImportError, match="zstandard"):
        Client(deployment, "reading").reserve(["t"])
    assert call(deployment, "count", "t", 0)[1] == 1


#: Renames a topic and, in each place where the message is, an id to names that no put accepts.
ODD = """
local base, from, to = '{reading:0}:', ARGV[1], ARGV[2]
local no = redis.call('HGET', base .. 'meta', 'topic:t')
redis.call('RENAME', base .. 'm:' .. no .. ':' .. from, base .. 'm:' .. no .. ':' .. to)
for _, key in ipairs(redis.call('KEYS', base .. '*')) do
  if redis.call('TYPE', key).ok == 'zset' then
    for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
      local first, last = string.find(member, from, 1, true)
      if first then
        local score = redis.call('ZSCORE', key, member)
        redis.call('ZREM', key, member)
        redis.call('ZADD', key, score, string.sub(member, 1, first - 1) .. to .. string.sub(member, last + 1))
      end
    end
  end
end
redis.call('HDEL', base .. 'meta', 'topic:t')
redis.call('HSET', base .. 'meta', 'topic:my orders', no)
redis.call('HSET', base .. 't:' .. no, 'name', 'my orders')
"""


def test_a_topic_or_id_outside_the_rules_hides_no_other_and_is_removed_by_the_name_that_is_shown(deployment):
    client = Client(deployment, "reading")
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    client.put_many([Message("t", b"x", id=id, group="g", at=later) for id in ("odd-id", "whole")])
    client.put_many([Message("t", b"x", id=id) for id in ("odd-dead", "dead")])
    client.bury([one.receipt for one in client.reserve(["t"], 2)], "why")
    deployment.eval(ODD, 0, b"odd-id\x1fg", b"od\xff\nd")
    orders = client.topic("~odd-my%20orders")
    assert {one.id for one in orders.list()} == {"~odd-od%FF%0Ad", "whole"}
    assert {one.id for one in orders.list("dead")} == {"odd-dead", "dead"}
    assert {(one.topic, one.id) for one in client.group("g").list()} == {
        ("~odd-my%20orders", "~odd-od%FF%0Ad"), ("~odd-my%20orders", "whole"),
    }
    assert client.get("~odd-my%20orders", "~odd-od%FF%0Ad").state is State.DELAYED
    assert client.cancel("~odd-my%20orders", "~odd-od%FF%0Ad").accepted
    assert (orders.purge("dead"), orders.purge("delayed"), orders.count().delayed) == (2, 1, 0)


def test_a_count_tells_of_keys_that_it_cannot_read(deployment):
    client = Client(deployment, "reading")
    client.put(Message("t", b"x", at=datetime.now(timezone.utc) + timedelta(hours=1)))
    deployment.set("{reading:0}:d:1", "no set")
    found = client.topic("t").count()
    assert (found.unreadable, found.delayed, found.accepted, found.dead) == (1, 1, 1, 0)
