"""The master that Sentinels elect: Sentinels that are silent, restarted, foreign, or name another master."""

import asyncio
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from deployment import Deployment
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import RedisError
from redis.sentinel import Sentinel
from servers import RedisGroup, RedisServer, free_port
from test_servers import PATIENCE_S, SHARDS, both, driven, put_all, put_while, settled

from delayq import AsyncClient, Client, Message, connect, election, places
from delayq.errors import is_outage

IDENTITIES = ["0a" * 16, "0b" * 16]


@contextmanager
def sentinel_of(master, epoch=0):
    """A Sentinel that names this Redis."""
    with tempfile.TemporaryDirectory(prefix="delayq-py-") as folder:
        config = Path(folder) / "sentinel.conf"
        config.write_text(f"sentinel monitor mymaster 127.0.0.1 {master.port} 1\nsentinel config-epoch mymaster {epoch}\n")
        with RedisServer(folder, port=free_port(), name="sentinel", sentinel=config) as sentinel:
            yield sentinel


def url_of(*sentinels):
    return f"redis+sentinel://{','.join(f'127.0.0.1:{sentinel.port}' for sentinel in sentinels)}/mymaster"


def watches(sentinel, port):
    """Has a Sentinel watch another Redis under the same name."""
    with connect(f"redis://127.0.0.1:{sentinel.port}") as operator:
        for order in [("REMOVE",), ("MONITOR", "127.0.0.1", port, "1"), ("SET", "down-after-milliseconds", "1000")]:
            operator.execute_command("SENTINEL", order[0], "mymaster", *order[1:])


class Fleet:
    """Two Redises, each with a deployment of the same name, and three Sentinels that name the first."""

    def __init__(self, stack):
        self.redises = [stack.enter_context(self._redis()) for _ in range(2)]
        self.sentinels = [stack.enter_context(sentinel_of(self.redises[0])) for _ in range(3)]
        self.url, self.deployments = url_of(*self.sentinels), []
        for redis, identity in zip(self.redises, IDENTITIES, strict=True):
            connection = stack.enter_context(connect(f"redis://127.0.0.1:{redis.port}"))
            self.deployments.append(Deployment(connection, SHARDS, "fleet"))
            for shard in range(SHARDS):
                self.deployments[-1].call("identify", shard, identity)

    def stored(self, which):
        """The number of messages of a Redis."""
        return len(self.deployments[which].redis.keys("*:m:*"))

    def drop(self):
        """Ends the connections to the first Redis."""
        self.deployments[0].redis.client_kill_filter(_type="normal", skipme=True)

    @staticmethod
    @contextmanager
    def _redis():
        with tempfile.TemporaryDirectory(prefix="delayq-py-") as folder, RedisServer(folder, port=free_port()) as redis:
            yield redis


@pytest.fixture
def fleet():
    with ExitStack() as stack:
        yield Fleet(stack)


def election_of(client):
    return getattr(client, "_core", client)._link.place._election


async def put(client, id):
    return await settled(client.put(Message("orders", b"x", id=id)))


async def put_until(client, is_so):
    ends_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < ends_s
        await put_all(client, f"put-{time.monotonic()}", 1)
        await asyncio.sleep(0.01)


async def refused(client):
    """The error of a put that no Redis took."""
    ends_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends_s:
        try:
            await put(client, f"refused-{time.monotonic()}")
        except RedisError as fault:
            assert is_outage(fault), repr(fault)
            if "cannot reach Redis" in str(fault):
                return str(fault)
        await asyncio.sleep(0.01)
    raise AssertionError("the puts were taken")


@pytest.fixture
def own_sentinels():
    """A group of its own: that of all tests has two replicas, one for each master that another test kills."""
    group = RedisGroup("sentinel")
    yield group
    group.end()


@both
def test_one_foreign_sentinel_with_a_higher_epoch_overrules_nobody_and_a_failover_goes_on_without_it(kind, own_sentinels, fleet):
    async def work(client):
        await put_all(client, "before", 10)
        group.client_kill_filter(_type="normal", skipme=True)
        await put_all(client, "again", 10)
        await put_while(client, "meanwhile", lambda: own_sentinels.does("kill", deployment.key(0)))
        await put_all(client, "after", 10)

    first, second, _ = own_sentinels.url.partition("//")[2].partition("/")[0].split(",")
    with sentinel_of(fleet.redises[1], epoch=9) as foreign, connect(own_sentinels.url) as group:
        deployment = Deployment(group, SHARDS, f"s{time.time_ns()}")
        driven(kind, f"redis+sentinel://127.0.0.1:{foreign.port},{first},{second}/mymaster", deployment.namespace, work, socket_timeout=1)
    assert fleet.stored(1) == 0


@both
def test_a_master_of_another_deployment_is_not_followed_even_if_most_sentinels_name_it(kind, fleet):
    async def work(client):
        await put_all(client, "before", 1)
        for sentinel in fleet.sentinels[1:]:
            watches(sentinel, fleet.redises[1].port)
        why = await refused(client)
        assert f"127.0.0.1:{fleet.redises[1].port}, the master of mymaster: the sentinels name this Redis, but it keeps" in why
        assert "deployment 0b0b0b0b instead of 0a0a0a0a: correct the masters that" in why
        for sentinel in fleet.sentinels[1:]:
            watches(sentinel, fleet.redises[0].port)
        await put_all(client, "after", 1)

    driven(kind, fleet.url, "fleet", work)
    assert fleet.stored(1) == 0


@both
def test_a_deployment_that_was_created_again_at_the_same_master_is_followed(kind, fleet):
    async def work(client):
        await put_all(client, "before", 1)
        for shard in range(SHARDS):
            fleet.deployments[0].redis.hset(fleet.deployments[0].key(shard), "identity", IDENTITIES[1])
        fleet.drop()
        await put_all(client, "after", 1)

    driven(kind, fleet.url, "fleet", work)


@both
def test_a_replica_that_the_sentinels_name_is_not_written_to(kind, fleet):
    async def work(client):
        why = await refused(client)
        assert "the sentinels name this Redis, but it is a replica" in why

    fleet.deployments[0].redis.replicaof("127.0.0.1", fleet.redises[1].port)
    driven(kind, fleet.url, "fleet", work)
    assert fleet.stored(1) == 0


@both
def test_each_sentinel_is_named_with_what_it_said_when_most_do_not_name_one_master(kind, fleet):
    async def work(client):
        why = await refused(client)
        assert "the sentinels do not agree on the master of mymaster" in why
        ports = [redis.port for redis in fleet.redises]
        said = [f"names 127.0.0.1:{ports[0]} by epoch 0", f"names 127.0.0.1:{ports[1]} by epoch 0"]
        for sentinel, one in zip(fleet.sentinels, said, strict=False):
            assert f"sentinel 127.0.0.1:{sentinel.port} {one}" in why
        assert f"sentinel 127.0.0.1:{fleet.sentinels[2].port}: " in why and "onnect" in why.rpartition("sentinel")[2]
        watches(fleet.sentinels[1], ports[0])
        await put_all(client, "after", 1)

    watches(fleet.sentinels[1], fleet.redises[1].port)
    fleet.sentinels[2].kill()
    driven(kind, fleet.url, "fleet", work)


@both
def test_silent_sentinels_are_named_when_no_sentinel_answers_and_a_connected_client_needs_none(kind, fleet):
    async def work(client):
        await put_all(client, "connected", 1)
        for sentinel in fleet.sentinels:
            sentinel.freeze()
        await put(client, "without")
        fleet.drop()
        why = await refused(client)
        assert "no sentinel names the master of mymaster" in why
        for sentinel in fleet.sentinels:
            assert f"sentinel 127.0.0.1:{sentinel.port}: no reply" in why
        fleet.sentinels[2].thaw()
        await put_all(client, "after", 1)

    driven(kind, fleet.url, "fleet", work)


@both
def test_a_client_begins_and_goes_on_with_the_one_sentinel_that_answers(kind, fleet):
    async def work(client):
        await put_all(client, "begun", 1)
        fleet.drop()
        await put_all(client, "after", 1)

    for silent in fleet.sentinels[:2]:
        silent.freeze()
    driven(kind, fleet.url, "fleet", work)


@both
def test_a_service_that_no_sentinel_knows_is_named(kind, fleet):
    async def work(client):
        assert "no sentinel names the master of another" in (why := await refused(client))
        assert "o such master" in why or "no master named another" in why, why

    driven(kind, fleet.url.replace("mymaster", "another"), "fleet", work)


def test_a_sentinel_of_redis_py_without_timeouts_elects_too(fleet):
    fleet.sentinels[0].freeze()
    nodes = [("127.0.0.1", sentinel.port) for sentinel in fleet.sentinels]
    with Sentinel(nodes).master_for("mymaster") as connection, Client(connection, "fleet") as client:
        began_s = time.monotonic()
        assert client.put(Message("orders", b"x")).accepted
        assert time.monotonic() - began_s < election.ANSWER_S, "the silent one was waited for"


@both
def test_silent_sentinels_take_the_calls_of_a_healthy_redis_little_time(kind, fleet, monkeypatch):
    monkeypatch.setattr(places, "ASK_S", 0.0)

    async def work(client):
        await put_all(client, "connected", 1)
        for sentinel in fleet.sentinels:
            sentinel.freeze()
        asked, questions = election_of(client)._sentinels[0], []
        answer = asked._answer
        monkeypatch.setattr(asked, "_answer", lambda: questions.append(True) or answer())
        began_s = time.monotonic()
        await put_all(client, "after", 10)
        assert time.monotonic() - began_s < 10 * places.WAIT_S + 1
        assert len(questions) <= 2, "a Sentinel that does not answer is asked once at a time"

    driven(kind, fleet.url, "fleet", work)


@both
def test_a_former_master_is_left_although_its_successor_is_dead(kind, fleet, monkeypatch):
    monkeypatch.setattr(places, "ASK_S", 0.0)
    monkeypatch.setattr(places, "WAIT_S", PATIENCE_S)

    async def work(client):
        await put_all(client, "connected", 1)
        successor = str(free_port())
        for sentinel in fleet.sentinels[:2]:
            watches(sentinel, successor)
        with pytest.raises(LostConnection):
            await put(client, "lost")

    driven(kind, fleet.url, "fleet", work)


@both
def test_sentinels_are_asked_again_after_a_question_that_was_cancelled_before_it_began(kind, fleet):
    async def work(client):
        elected = election_of(client)
        for one in elected._sentinels:
            await one.ask(client._runtime if kind is AsyncClient else client._core._runtime, lambda: None)
            one._task.cancel()
        await put_until(client, lambda: elected._master)

    driven(kind, fleet.url, "fleet", work)


@both
def test_a_sentinel_that_was_restarted_is_asked_over_a_new_connection_at_once(kind, fleet):
    async def work(client):
        await put_all(client, "before", 1)
        for sentinel in fleet.sentinels:
            sentinel.kill()
            sentinel.start()
        fleet.drop()
        await put_all(client, "after", 1)
        sentinels = election_of(client)._sentinels
        assert not any(isinstance(one.said, str) for one in sentinels)
        # Two were enough for the put.
        await put_until(client, lambda: all(isinstance(one.said, election.Said) for one in sentinels))

    driven(kind, fleet.url, "fleet", work)
