"""Topics whose writes are answered only after replicas or disk confirm."""

import asyncio
from datetime import timedelta

import pytest
from conftest import vectors
from servers import RedisGroup, valkey_server
from test_conformance import Run, settled

from delayq import AsyncClient, Client, Message, Policy, connect, connect_async

SCENARIOS = vectors("durability.json")["scenarios"]


@pytest.fixture(scope="module", params=["redis", "valkey"])
def pair(request):
    """A master and a replica."""
    programs = [] if request.param == "redis" else [valkey_server() or pytest.skip("no valkey-server")]
    group = RedisGroup("replica", *programs)
    with connect(group.url) as connection:
        group.has_waitaof = tuple(map(int, connection.info()["redis_version"].split("."))) >= (7, 2)
    yield group
    group.end()


class Pair(Run):
    """A scenario with a replica: while that is frozen, calls are made by another client, which waits for it but shortly."""

    def __init__(self, group, patient, other, namespace):
        super().__init__(patient, namespace)
        self.group, self.clients = group, {"freeze": other, "thaw": patient}

    async def step(self, step):
        if step["op"] not in self.clients:
            return await super().step(step)
        self.group.does(step["op"])
        self.client = self.clients[step["op"]]


SHORT = timedelta(milliseconds=200)
#: On a busy machine, a new connection takes longer than clients allow.
PATIENT = {"socket_timeout": 600, "socket_connect_timeout": 60}
each_scenario = pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=lambda number: SCENARIOS[number]["name"])


def scenario(number, group):
    if SCENARIOS[number].get("has_waitaof", group.has_waitaof) != group.has_waitaof:
        pytest.skip("for other servers")
    return SCENARIOS[number]


@pytest.mark.parametrize("place", ["sentinel", "cluster"])
@pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["blocking", "asynchronous"])
def test_groups_whose_masters_have_replicas(place, kind, request):
    url, name = request.getfixturevalue(place).url, f"groups-{kind.__name__}"
    (said,) = [scenario for scenario in SCENARIOS if scenario.get("groups")]

    async def run():
        if kind is Client:
            with connect(url, **PATIENT) as connection, Client(connection, name) as client:
                await Run(client, name).scenario(said)
        else:
            async with connect_async(url, **PATIENT) as connection, AsyncClient(connection, name) as client:
                await Run(client, name).scenario(said)

    asyncio.run(run())


@each_scenario
def test_blocking(number, pair):
    namespace, said = f"b{number}", scenario(number, pair)
    with connect(pair.url, **PATIENT) as connection, Client(connection, namespace) as client:
        with Client(connection, namespace, confirm_timeout=SHORT) as other:
            asyncio.run(Pair(pair, client, other, namespace).scenario(said))


@each_scenario
def test_asynchronous(number, pair):
    namespace, said = f"a{number}", scenario(number, pair)

    async def run():
        async with connect_async(pair.url, **PATIENT) as connection, AsyncClient(connection, namespace) as client:
            async with AsyncClient(connection, namespace, confirm_timeout=SHORT) as other:
                await Pair(pair, client, other, namespace).scenario(said)

    asyncio.run(run())


def test_a_frozen_replica_holds_up_only_those_who_wait_for_it(pair):
    async def run():
        async with connect_async(pair.url, **PATIENT) as connection, AsyncClient(connection, "held") as client:
            await Run(client, "held").script("init", 0, [0, 1])
            orders = client.topic("orders")
            assert (await orders.set_policy(Policy(durability="replica:1"))).durability == "replica:1"
            await client.put(Message("orders", b"x"))
            pair.does("freeze")
            waiting = asyncio.create_task(settled(client.put(Message("orders", b"x", after=timedelta(hours=1)))))
            while not any(one["cmd"] == "wait" for one in await connection.client_list()):
                await asyncio.sleep(0.01)
            assert (await client.put(Message("mails", b"x"))).accepted
            assert not waiting.done()
            pair.does("thaw")
            assert (await waiting).word == "stored"

    asyncio.run(run())
