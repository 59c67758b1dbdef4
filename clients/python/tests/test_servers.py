"""Redis Cluster and Sentinel, by the connections of redis-py that were given."""

import asyncio
import subprocess
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from queue import Queue

import pytest
import redis
import redis.asyncio
import redis.asyncio.sentinel
import redis.sentinel
from deployment import Deployment
from redis.exceptions import ClusterError, RedisError
from servers import RedisServer, free_port

from delayq import AsyncClient, Client, Message, Worker
from delayq.errors import is_outage

LONG = timedelta(seconds=60)
PATIENCE_S = 40
SHARDS = 8


def until(condition):
    """Waits for what other processes do: they are asked, for they do not say."""
    ends_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            if condition():
                return
        except RedisError:
            pass
        assert time.monotonic() < ends_s, "it did not come about"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def nodes():
    """A cluster of two, each with half of the slots."""
    with tempfile.TemporaryDirectory(prefix="delayq-py-") as folder:
        ports, bus = [free_port() for _ in range(2)], [free_port() for _ in range(2)]
        options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]
        servers = [
            RedisServer(
                folder, *options, "--cluster-port", str(bus[n]), "--cluster-config-file", f"n{n}.conf",
                port=ports[n], name=f"n{n}",
            )
            for n in range(2)
        ]
        for n in range(2):
            servers[n].bus = bus[n]
        first, second = (server.connect() for server in servers)
        first.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        second.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        first.execute_command("CLUSTER", "MEET", "127.0.0.1", ports[1], bus[1])
        until(lambda: all(node.cluster("info")["cluster_state"] == "ok" for node in (first, second)))
        until(lambda: all(len(node.cluster("nodes")) == 2 for node in (first, second)))
        yield servers
        for server in servers:
            server.kill()


@pytest.fixture
def cluster(nodes):
    with redis.cluster.RedisCluster("127.0.0.1", nodes[0].port, socket_timeout=5) as cluster:
        yield cluster


def test_a_blocking_client_works_on_a_cluster(cluster):
    deployment = Deployment(cluster, SHARDS)
    with Client(cluster, deployment.namespace) as client:
        puts = client.put_many([Message("orders", b"x", id=f"order-{n}") for n in range(100)])
        assert len({put.shard for put in puts}) == SHARDS and all(put.accepted for put in puts)
        acked = []
        while found := client.reserve(["orders"], 50):
            acked += client.ack([delivery.receipt for delivery in found])
        assert len(acked) == 100 and client.topic("orders").count().delivered == 100
        handled = Queue()
        worker = Worker(client, {"orders": lambda delivery: handled.put(delivery.id)}, concurrency=4)
        worker.start()
        until(lambda: client._core._watch._connections.keys() == {node.name for node in cluster.get_primaries()})
        for n in range(20):
            client.put(Message("orders", b"x", id=f"late-{n}"))
        assert {handled.get(timeout=PATIENCE_S) for _ in range(20)} == {f"late-{n}" for n in range(20)}
        worker.stop()


def test_an_asynchronous_client_works_on_a_cluster(nodes, cluster):
    deployment = Deployment(cluster, SHARDS)

    async def run():
        async with (
            redis.asyncio.RedisCluster("127.0.0.1", nodes[0].port) as own,
            AsyncClient(own, deployment.namespace) as client,
        ):
            puts = await asyncio.gather(*(client.put(Message("orders", b"x", id=f"o-{n}")) for n in range(100)))
            assert len({put.shard for put in puts}) == SHARDS
            found = [message.id async for message in client.topic("orders").list("ready")]
            assert len(found) == 100
            while deliveries := await client.reserve(["orders"], 50):
                await client.ack([delivery.receipt for delivery in deliveries])
            waiting = asyncio.create_task(client.reserve(["orders"], wait=LONG))
            while len(client._watch._connections) < 2:
                await asyncio.sleep(0)
            await client.put(Message("orders", b"x", id="late"))
            assert [delivery.id for delivery in await asyncio.wait_for(waiting, PATIENCE_S)] == ["late"]

    asyncio.run(run())


def test_a_slot_that_moves_takes_no_calls_meanwhile_and_is_followed(nodes, cluster):
    deployment = Deployment(cluster, 1)
    first, second = (server.connect() for server in nodes)
    with Client(cluster, deployment.namespace) as client:
        client.put(Message("orders", b"x", id="before"))
        slot = cluster.keyslot(f"{{{deployment.namespace}:0}}:meta")
        if slot > 8191:
            first, second = second, first
        port = nodes[1 if slot <= 8191 else 0].port
        ids = [node.execute_command("CLUSTER", "MYID").decode() for node in (first, second)]
        second.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
        first.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
        for key in first.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000):
            first.execute_command("MIGRATE", "127.0.0.1", port, key, 0, 5000)
        with pytest.raises(ClusterError) as refused:
            client.put(Message("orders", b"x", id="meanwhile"))
        assert is_outage(refused.value)
        for node in (second, first):
            node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", ids[1])
        assert client.put(Message("orders", b"x", id="after")).accepted
        assert {message.id for message in client.topic("orders").list("ready")} == {"before", "after"}


def test_a_worker_follows_a_failover_of_the_cluster(nodes, cluster):
    """Kept last of those that share the cluster: one of its servers is gone afterwards."""
    deployment = Deployment(cluster, SHARDS)
    with tempfile.TemporaryDirectory(prefix="delayq-py-") as folder:
        options = ["--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--cluster-node-timeout", "2000"]
        with RedisServer(folder, *options, port=free_port()) as replica, Client(cluster, deployment.namespace) as client:
            own = replica.connect()
            own.execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
            master = nodes[1].connect().execute_command("CLUSTER", "MYID").decode()
            until(lambda: own.execute_command("CLUSTER", "REPLICATE", master))
            until(lambda: own.info("replication").get("master_link_status") == "up")
            handled = Queue()
            worker = Worker(client, {"orders": lambda delivery: handled.put(delivery.id)}, concurrency=4)
            worker.start()
            nodes[1].connect().wait(1, 5000)
            nodes[1].kill()
            own.execute_command("CLUSTER", "FAILOVER", "TAKEOVER")
            for n in range(20):
                until(lambda: client.put(Message("orders", b"x", id=f"after-{n}")).accepted)
            assert {handled.get(timeout=PATIENCE_S) for _ in range(20)} >= {f"after-{n}" for n in range(20)}
            worker.stop()


@pytest.fixture
def sentinel():
    """A master, a replica, and one Sentinel that watches them."""
    with tempfile.TemporaryDirectory(prefix="delayq-py-") as folder:
        ports = [free_port() for _ in range(3)]
        with (
            RedisServer(folder, port=ports[0], name="master") as master,
            RedisServer(folder, "--replicaof", "127.0.0.1", str(ports[0]), port=ports[1], name="replica") as replica,
        ):
            until(lambda: replica.connect().info("replication")["master_link_status"] == "up")
            config = Path(folder) / "sentinel.conf"
            config.write_text(
                f"port {ports[2]}\nbind 127.0.0.1\ndir {folder}\nsentinel monitor dq 127.0.0.1 {ports[0]} 1\n"
                "sentinel down-after-milliseconds dq 1000\nsentinel failover-timeout dq 5000\n"
            )
            process = subprocess.Popen(["redis-server", config, "--sentinel"], stdout=subprocess.DEVNULL)
            try:
                group = redis.sentinel.Sentinel([("127.0.0.1", ports[2])])
                until(lambda: group.discover_slaves("dq"))
                yield master, ports[2]
            finally:
                process.kill()
                process.wait()


@pytest.mark.parametrize("end", ["failover", "death"])
def test_a_worker_follows_a_failover_by_sentinel(sentinel, end):
    master, port = sentinel
    handled = Queue()
    own = redis.sentinel.Sentinel([("127.0.0.1", port)], socket_timeout=1).master_for("dq", socket_timeout=1)
    deployment = Deployment(own, shards=4)
    master.connect().wait(1, 5000)
    with Client(own, deployment.namespace) as client:
        worker = Worker(client, {"orders": lambda delivery: handled.put(delivery.id)}, concurrency=4)
        worker.start()
        client.put(Message("orders", b"x", id="before"))
        assert handled.get(timeout=PATIENCE_S) == "before"
        master.connect().wait(1, 5000)
        if end == "failover":
            until(lambda: redis.Redis(port=port).execute_command("SENTINEL", "FAILOVER", "dq"))
            until(lambda: master.connect().info("replication")["role"] == "slave")
        else:
            master.kill()
        until(lambda: client.put(Message("orders", b"x", id="after")).accepted)
        assert handled.get(timeout=PATIENCE_S) == "after"
        worker.stop()


def test_an_asynchronous_client_follows_a_failover_by_sentinel(sentinel):
    master, port = sentinel

    async def run():
        group = redis.asyncio.sentinel.Sentinel([("127.0.0.1", port)], socket_timeout=1)
        own = group.master_for("dq", socket_timeout=1)
        with redis.sentinel.Sentinel([("127.0.0.1", port)]).master_for("dq") as blocking:
            deployment = Deployment(blocking)
        master.connect().wait(1, 5000)
        async with AsyncClient(own, deployment.namespace) as client:
            assert (await client.put(Message("orders", b"x", id="before"))).accepted
            until(lambda: redis.Redis(port=port).execute_command("SENTINEL", "FAILOVER", "dq"))
            until(lambda: master.connect().info("replication")["role"] == "slave")
            while True:
                try:
                    assert (await client.put(Message("orders", b"x", id="after"))).accepted
                    break
                except RedisError:
                    await asyncio.sleep(0.1)
        for connection in (own, *group.sentinels):
            await connection.aclose()

    asyncio.run(run())
