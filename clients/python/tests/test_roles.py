"""The client as the users that `delayq acl print` makes: no role has EVAL. Servers lose their scripts all the time."""

import asyncio
import subprocess
from datetime import datetime, timedelta, timezone
from functools import cache, partial
from queue import Queue

import pytest
from conftest import vectors
from deployment import Deployment
from redis.client import NEVER_DECODE
from servers import LOGGED, program
from test_conformance import Run, settled
from test_servers import put_all
from test_worker import until

from delayq import AsyncClient, AsyncWorker, Client, Message, Worker, connect, connect_async

SCENARIOS = vectors("conformance.json")["scenarios"]
SECRET = "hunter2"
PATIENCE_S = 30


@cache
def rules(role, *durability):
    """Rules for ACL SETUSER, for any namespace."""
    asked = [program("delayq", "DELAYQ_COMMAND", "delayq-cli"), "--namespace", "NAMESPACE", "acl", "print", "--role", role]
    asked += [arg for one in durability for arg in ("--durability", one)]
    printed = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    (line,) = [line for line in printed.splitlines() if line.startswith("user ")]
    return line.replace("PASSWORD", SECRET)


def add_user(operator, role, namespace, *durability):
    """Makes the user of a role on every server. Returns its login."""
    _, name, *words = rules(role, *durability).replace("NAMESPACE", namespace).split()
    name = f"{name}-{namespace}"
    every = {"target_nodes": operator.get_nodes()} if hasattr(operator, "get_nodes") else {}
    operator.execute_command("ACL", "SETUSER", name, *words, **every)
    return {"username": name, "password": SECRET}


class Ruled(Run):
    """A scenario run as a printed user; scripts that no client has are called by an operator. Before each step
    the scripts are forgotten."""

    def __init__(self, client, namespace, operator):
        super().__init__(client, namespace)
        self.operator = operator

    async def redis(self, *args, at=None):
        options = {NEVER_DECODE: []}
        if hasattr(self.operator, "get_node_from_key"):
            if at:
                options["target_nodes"] = self.operator.get_node_from_key(at)
            elif args[0] == "SCRIPT":
                options["target_nodes"] = self.operator.get_primaries()
        return await asyncio.to_thread(partial(self.operator.execute_command, *args, **options))

    async def step(self, step):
        await self.redis("SCRIPT", "FLUSH")
        return await super().step(step)


@pytest.mark.parametrize("place", ["one", "cluster"])
@pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["blocking", "asynchronous"])
@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=lambda number: SCENARIOS[number]["name"])
def test_conformance_as_the_printed_user_on_a_server_that_forgets_its_scripts(place, kind, number, request):
    url = f"unix://{request.getfixturevalue('redis_socket')}" if place == "one" else request.getfixturevalue(place).url
    namespace = f"r{kind.__name__}{number}"

    async def run(operator, login):
        if kind is Client:
            with connect(url, **login) as connection, Client(connection, namespace) as client:
                return await Ruled(client, namespace, operator).scenario(SCENARIOS[number])
        async with connect_async(url, **login) as connection, AsyncClient(connection, namespace) as client:
            await Ruled(client, namespace, operator).scenario(SCENARIOS[number])

    with connect(url) as operator:
        asyncio.run(run(operator, add_user(operator, "admin", namespace)))


@pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["blocking", "asynchronous"])
def test_a_producer_and_a_worker_of_their_roles_go_on_after_a_restart_that_forgot_the_scripts(kind, server):
    url, handled = f"unix://{server.socket}", Queue()
    server.kill()
    server._command += LOGGED
    server.start()
    with connect(url) as operator:
        Deployment(operator, 4, "dq")
        login = {role: add_user(operator, role, "dq") for role in ("producer", "consumer")}

    def handle(delivery):
        handled.put(delivery.id)

    async def handle_async(delivery):
        handled.put(delivery.id)

    async def run():
        is_blocking = kind is Client
        made = {role: (connect if is_blocking else connect_async)(url, socket_timeout=1, **login[role]) for role in login}
        producer, consumer = (kind(made[role]) for role in ("producer", "consumer"))
        worker = (Worker if is_blocking else AsyncWorker)(consumer, {"orders": handle if is_blocking else handle_async})
        await settled(worker.start())
        before = await put_all(producer, "before", 8)
        assert {await asyncio.to_thread(handled.get, timeout=PATIENCE_S) for _ in range(8)} == set(before)
        server.kill()
        server.start()
        with connect(url) as operator:
            for role in login:  # kept in no file
                add_user(operator, role, "dq")
        after = await put_all(producer, "after", 8)
        assert {await asyncio.to_thread(handled.get, timeout=PATIENCE_S) for _ in range(8)} == set(after)
        repeat = Message("orders", b"x", id="after-0", first_tried=datetime.now(timezone.utc))
        assert (await settled(producer.put(repeat))).accepted
        put = await settled(producer.put(Message("orders", b"x", id="later", group="user-5", after=timedelta(hours=1))))
        assert (await settled(producer.reschedule("orders", "later", "user-5", after=timedelta(hours=2)))).word == "delayed"
        assert (await settled(producer.group("user-5").shift(timedelta(hours=1)))).moved == 1
        assert (await settled(producer.group("user-5").cancel())).cancelled == 1 and put.accepted
        await settled(worker.stop())
        for client in (producer, consumer):
            await settled(client.close())
        for one in made.values():
            await settled(one.close() if is_blocking else one.aclose())

    asyncio.run(run())


def test_a_worker_that_pumps_works_as_the_printed_user_and_is_told_what_a_consumer_may_not(connection, caplog):
    deployment, handled = Deployment(connection), Queue()
    path = connection.connection_pool.connection_kwargs["path"]
    for role in ("consumer", "worker"):
        login = add_user(connection, role, deployment.namespace)
        with connect(f"unix://{path}", **login) as own, Client(own, deployment.namespace) as client:
            topic = "orders" if role == "worker" else "mails"
            worker = Worker(client, {topic: lambda delivery: handled.put(delivery.id)}, pump=True)
            worker.start()
            for id in (f"{role}-1", f"{role}-2"):
                with Client(connection, deployment.namespace) as producer:
                    producer.put(Message("orders", b"x", id=id, after=timedelta(milliseconds=20)))
                if role == "worker":
                    assert {handled.get(timeout=PATIENCE_S) for _ in range(3 if id == "worker-1" else 1)} >= {id}
                connection.script_flush()
            if role == "consumer":
                until(lambda: "cannot pump; retrying" in caplog.text)
            worker.stop()


def test_a_user_who_may_not_load_scripts_is_told_so(connection):
    deployment = Deployment(connection)
    login = add_user(connection, "producer", deployment.namespace)
    connection.execute_command("ACL", "SETUSER", login["username"], "-script|load")
    connection.script_flush()
    path = connection.connection_pool.connection_kwargs["path"]
    with connect(f"unix://{path}", **login) as own, Client(own, deployment.namespace) as client:
        with pytest.raises(Exception, match="script"):
            client.put(Message("orders", b"x"))
