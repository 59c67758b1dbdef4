"""Several independent Redises that keep a deployment together."""

import asyncio
import re
import tempfile
import time
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from zlib import crc32

import pytest
import redis
import redis.asyncio
from conftest import vectors
from deployment import Deployment
from redis.client import NEVER_DECODE
from servers import LOGGED, RedisGroup, RedisServer
from test_conformance import Run, settled
from test_servers import Handled, put_all, put_while

from delayq import AsyncClient, Client, Incomplete, InvalidArgument, Message, Node, ScriptError, connect, connect_async
from delayq.scripts import script

SCENARIOS = vectors("conformance.json")["scenarios"]
SHARDS = {"a": "0,2,4-4095", "b": "1,3"}
both = pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["blocking", "asynchronous"])


class Several(Run):
    """A scenario on several Redises: each command goes to that of its shard."""

    def __init__(self, client, namespace, nodes):
        super().__init__(client, namespace)
        self.nodes = nodes

    def node(self, shard):
        return self.nodes[shard in (1, 3)]

    async def redis(self, *args, at=None):
        key = at or next((arg for arg in args if str(arg).startswith("{")), None)
        if key is None:
            return [await settled(node.redis.execute_command(*args)) for node in self.nodes]
        node = self.node(int(re.search(r":(\d+)}", key)[1]))
        if args[0] == "HSET" and args[-2] == "layout":
            args = (*args[:-1], f"{args[-1]}@{node.name}")
        return await settled(node.redis.execute_command(*args, **{NEVER_DECODE: []}))

    async def script(self, verb, shard, args, layout=1):
        base = f"{{{self.namespace}:{shard}}}:"
        word = f"{layout}@{self.node(int(shard)).name}"
        reply = await self.redis("EVAL", script(verb)[0], 2, f"{base}meta", f"{base}never", word, *args)
        return [reply[0].partition(b"@")[0], *reply[1:]] if verb == "layout" else reply


@contextmanager
def two_servers():
    with tempfile.TemporaryDirectory(prefix="dq-a-") as one, tempfile.TemporaryDirectory(prefix="dq-b-") as other:
        with RedisServer(one, *LOGGED) as a, RedisServer(other) as b:
            yield a, b


@pytest.fixture(scope="module")
def servers():
    with two_servers() as both_servers:
        yield both_servers


def nodes_of(kind, servers, shards=SHARDS):
    made = redis.Redis if kind is Client else redis.asyncio.Redis
    return [Node(name, made(unix_socket_path=server.socket), of)
            for (name, of), server in zip(shards.items(), servers, strict=True)]


def driven(kind, servers, namespace, work, shards=SHARDS):
    """Has work done by a client of either kind, which is given the nodes too."""

    async def run():
        nodes = nodes_of(kind, servers, shards)
        client = kind(nodes, namespace)
        await work(client, nodes)
        await settled(client.close())
        for node in nodes:
            await settled(node.redis.close() if kind is Client else node.redis.aclose())

    asyncio.run(run())


@both
@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=lambda number: SCENARIOS[number]["name"])
def test_conformance(kind, number, servers):
    name = f"{kind.__name__}-{number}"
    driven(kind, servers, name, lambda client, nodes: Several(client, name, nodes).scenario(SCENARIOS[number]))


@pytest.mark.parametrize(("shards", "why"), [
    ([], "no node is given"),
    ([("a b", "0")], "node 'a b' is not 1 to 32 bytes of the form"),
    ([("a", "0"), ("a", "1")], "two nodes have the name a"),
    ([("a", "0-1"), ("b", "1")], "shard 1 has two nodes: a and b"),
    ([("a", "0,2")], "shard 1 has no node"),
    ([("a", "3-1")], "'3-1' is not a list of shards"),
    ([("a", "")], "no node is given"),
    ([("a", "0"), ("b", "")], None),
    ([("a", "0-4096")], "'0-4096' is not a list of shards"),
])  # fmt: skip
def test_a_wrong_list_of_nodes_is_refused_by_name(shards, why, connection):
    with pytest.raises(InvalidArgument, match=re.escape(why)) if why else nullcontext():
        Client([Node(name, connection, of) for name, of in shards])


async def created(client, nodes, shards):
    run = Several(client, client.namespace, nodes)
    for shard in range(shards):
        await run.script("init", shard, [shard, shards])


@both
@pytest.mark.parametrize(("change", "why"), [
    (lambda a, b: [Node("a", b.redis, a.shards), Node("b", a.redis, b.shards)], "DQUNINITIALISED .*(node a)"),
    (lambda a, b: [a._replace(name="x"), b._replace(name="y")], "recorded on node a, but this client has it on node x"),
    (lambda a, b: a.redis, "recorded on node a, but this client has it on one Redis without a node's name"),
], ids=["exchanged", "renamed", "one"])  # fmt: skip
def test_a_call_that_a_wrong_map_sends_to_another_node_is_refused_by_name(kind, change, why, servers):
    async def work(client, nodes):
        await created(client, nodes, 4)
        wrong = kind(change(*nodes), client.namespace)
        with pytest.raises(ScriptError, match=why):
            await settled(wrong.put(Message("orders", b"x", id="order-0")))
        await settled(wrong.close())

    driven(kind, servers, f"wrong-{kind.__name__}-{len(why)}", work)


def ids(name, is_even, count):
    """Returns ids of messages in the even or the odd shards of four."""
    every = (f"{name}-{n}" for n in range(1000))
    return [id for id in every if (crc32(id.encode()) % 2 == 0) == is_even][:count]


@both
def test_a_node_that_is_away_stops_only_its_shards(kind):
    async def work(client, nodes):
        await created(client, nodes, 4)
        held, lost = ids("held", True, 1), ids("lost", True, 1)
        others = ids("other", False, 20)
        await settled(client.put(Message("orders", b"x", id=held[0])))
        servers[0].kill()
        fresh = kind(nodes, client.namespace)  # one that begins meanwhile
        handled = Handled(fresh)
        await settled(handled.worker.start())
        with pytest.raises(Incomplete) as fault:
            await settled(client.put_many([Message("orders", b"x", id=id) for id in lost + others]))
        assert [outcome.word for outcome in fault.value.outcomes] == ["unanswered"] + ["ready"] * 20
        await handled.has(others)
        await settled(client.put(Message("mails", b"x", id=others[0])))
        (found,) = await settled(client.reserve(["mails"]))
        await settled(client.put(Message("mails", b"x", id=others[1])))
        (found,) = await settled(client.reserve(["mails"], wait=timedelta(seconds=60)))
        servers[0].start()
        await handled.has(held)
        await settled(handled.worker.stop())
        await settled(fresh.close())

    with two_servers() as servers:
        driven(kind, servers, "away", work, {"a": "0,2", "b": "1,3"})


@both
def test_a_node_that_is_silent_delays_no_pump_of_another(kind):
    async def work(client, nodes):
        await created(client, nodes, 4)
        handled, soon = Handled(client, pump=True), timedelta(milliseconds=50)
        await settled(handled.worker.start())
        held, others = ids("held", True, 5), ids("other", False, 5)
        for id in held + others:
            await settled(client.put(Message("orders", b"x", id=id, after=soon)))
        await handled.has(held + others)
        servers[0].freeze()
        later, began_s = ids("later", False, 5), time.monotonic()
        for id in later:
            await settled(client.put(Message("orders", b"x", id=id, after=soon)))
        await handled.has(later)
        assert time.monotonic() - began_s < 4  # less than the deadline of a call
        servers[0].thaw()
        await settled(client.put(Message("orders", b"x", id=ids("again", True, 1)[0], after=soon)))
        await handled.has(ids("again", True, 1))
        await settled(handled.worker.stop())

    with two_servers() as servers:
        driven(kind, servers, "silent", work, {"a": "0,2", "b": "1,3"})


@both
def test_a_shard_whose_node_is_not_given_fails_by_name_and_the_others_are_served(kind, servers):
    async def work(client, nodes):
        await created(client, nodes, 5)
        fewer = kind([nodes[0]._replace(shards="0,2"), nodes[1]], client.namespace)
        messages = [Message("orders", b"x", id=f"order-{n}") for n in range(50)]
        with pytest.raises(Incomplete, match="of 0 to 3: add the node") as fault:
            await settled(fewer.put_many(messages))
        assert {outcome.shard for outcome in fault.value.outcomes if outcome.accepted} == {0, 1, 2, 3}
        assert await settled(fewer.reserve(["orders"], 4, wait=timedelta(seconds=60)))
        await settled(fewer.close())

    driven(kind, servers, f"fewer-{kind.__name__}", work)


@both
def test_a_node_may_be_the_master_that_sentinels_name(kind, servers):
    sentinel = RedisGroup("sentinel")  # whose master does not come back

    async def work(client, nodes):
        by_name = (connect if kind is Client else connect_async)(sentinel.url, socket_timeout=1)
        nodes = [Node("a", by_name, "0,2"), nodes[1]]
        several = kind(nodes, client.namespace)
        await created(several, nodes, 4)
        await put_all(several, "before", 20)
        await asyncio.to_thread(sentinel.does, "kill", f"{{{client.namespace}:0}}:meta")
        await put_all(several, "after", 20)
        assert (await settled(several.topic("orders").count())).accepted == 40
        await settled(several.close())
        await settled(by_name.close() if kind is Client else by_name.aclose())

    driven(kind, servers, f"named-{kind.__name__}", work)
    sentinel.end()


@both
def test_a_shard_that_has_moved_is_called_and_listened_to_at_its_new_node(kind, servers):
    async def work(client, nodes):
        await created(client, nodes, 2)
        handled = Handled(client)
        await settled(handled.worker.start())
        await handled.has(await put_all(client, "before", 10))
        meta = f"{{{client.namespace}:0}}:meta"
        await settled(nodes[0].redis.hset(meta, "layout", "1>b:7"))
        keys = [meta, meta.replace("meta", "never")]
        await settled(nodes[1].redis.eval(script("init")[0], 2, *keys, "1@b", 0, 2))
        await handled.has(await put_all(client, "after", 10))
        await settled(handled.worker.stop())

    driven(kind, servers, f"moved-{kind.__name__}", work, {"a": "0", "b": "1"})


@both
def test_nothing_is_lost_or_comes_twice_while_delayq_moves_half_of_the_shards_to_a_new_node(kind):
    group = RedisGroup("nodes")

    async def run():
        made = [(connect if kind is Client else connect_async)(url) for url in group.url.split()]
        client = kind([Node("a", made[0], "0-7"), Node("b", made[1], "")])
        handled = Handled(client)
        await settled(handled.worker.start())
        ids = await put_all(client, "before")
        ids += await put_while(client, "meanwhile", lambda: group.does("shards", "4-7"))
        ids += await put_all(client, "after")
        await handled.has(ids)
        await settled(handled.worker.stop())
        assert sorted(handled.ids) == sorted(ids)
        assert (await settled(client.topic("orders").count())).delivered == len(ids)
        assert await settled(made[1].hget("{dq:7}:meta", "layout")) == b"1@b"
        await settled(client.close())
        for one in made:
            await settled(one.close() if kind is Client else one.aclose())

    asyncio.run(run())
    group.end()


@both
def test_a_shard_that_has_moved_to_a_node_that_is_not_given_is_refused_by_name(kind, servers):
    async def work(client, nodes):
        await created(client, nodes, 2)
        await settled(nodes[0].redis.hset(f"{{{client.namespace}:0}}:meta", "layout", "1>c"))
        with pytest.raises(ScriptError, match="shard 0 has moved to node c, which is not among those given"):
            await settled(client.topic("orders").count())

    driven(kind, servers, f"gone-{kind.__name__}", work, {"a": "0", "b": "1"})


def test_a_shard_of_another_deployment_is_refused_by_name(connection):
    deployment = Deployment(connection, 2, "foreign")
    for shard in (0, 1):
        connection.hset(deployment.key(shard), "identity", "0a" * 16)
    with Client(connection, "foreign") as client:
        assert client.topic("orders").count().delayed == 0
        connection.hset(deployment.key(1), mapping={"identity": "0b" * 16, "layout": 2, "counts": "2,4"})
        why = "shard 1 is of deployment 0b0b0b0b, and this client serves deployment 0a0a0a0a"
        with pytest.raises(ScriptError, match=why):
            client.topic("orders").count()
