"""The outbox of docs/guides/outbox.md, with a real PostgreSQL: nothing lost, nothing doubled, nothing of a rollback."""

import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import redis
from deployment import Deployment
from postgres import Postgres
from servers import RedisServer

from delayq import Client

OUTBOX = Path(__file__).resolve().parents[3] / "examples" / "outbox"
relay = runpy.run_path(str(OUTBOX / "relay.py"))["relay"]


def sql(name):
    return (OUTBOX / name).read_text("utf-8")


@pytest.fixture(scope="module")
def postgres():
    with tempfile.TemporaryDirectory(prefix="delayq-pg-") as folder:
        server = Postgres(folder)
        yield server
        server.end()


@pytest.fixture
def database(postgres):
    with postgres.connect() as database:
        database.execute("DROP TABLE IF EXISTS orders, outbox")
        database.execute("CREATE TABLE orders (id bigint PRIMARY KEY, paid boolean NOT NULL DEFAULT false)")
        database.execute(sql("outbox.sql"))
        yield database


@pytest.fixture
def client(connection):
    deployment = Deployment(connection, 2)
    with Client(connection, deployment.namespace) as client:
        yield client


def waiting(database):
    return database.execute("SELECT verb, id, refused FROM outbox ORDER BY seq").fetchall()


def test_an_order_that_is_committed_gets_its_timeout_and_its_row_goes(database, client):
    database.execute(sql("place_order.sql"))
    assert relay(database, client) == 1
    assert client.get("orders", "order-17").payload == b'{"order":17}'
    assert waiting(database) == []


def test_an_order_that_is_rolled_back_leaves_nothing(database, client):
    database.execute(sql("place_order.sql").replace("COMMIT", "ROLLBACK"))
    assert relay(database, client) == 0
    assert client.get("orders", "order-17") is None


def test_a_relay_that_dies_after_the_put_repeats_it_and_nothing_is_doubled(database, client):
    class Dying:
        def put(self, message):
            client.put(message)
            raise redis.ConnectionError("the answer was lost")

    database.execute(sql("place_order.sql"))
    with pytest.raises(redis.ConnectionError):
        relay(database, Dying())
    assert waiting(database) == [("put", "order-17", None)]
    assert relay(database, client) == 1
    assert client.topic("orders").count().accepted == 1
    assert waiting(database) == []


def test_a_payment_cancels_what_the_order_put_in_their_order(database, client):
    database.execute(sql("place_order.sql"))
    database.execute(sql("pay_order.sql"))
    assert relay(database, client) == 2
    count = client.topic("orders").count()
    assert (count.accepted, count.cancelled, count.delayed) == (1, 1, 0)


def test_a_batch_whose_deletes_are_rolled_back_is_repeated_and_changes_nothing(database, client):
    database.execute(sql("place_order.sql"))
    database.execute(sql("pay_order.sql"))
    with database.transaction(force_rollback=True):
        assert relay(database, client) == 2
    assert relay(database, client) == 2
    count = client.topic("orders").count()
    assert (count.accepted, count.cancelled, count.delayed) == (1, 1, 0)
    assert waiting(database) == []


def test_a_row_that_can_never_be_carried_out_stays_with_the_reason_and_holds_up_nothing(database, client):
    put = "INSERT INTO outbox (verb, topic, id, due, payload) VALUES ('put', 'orders', %s, now() + '1h', %s)"
    for id, payload in [("order-1", b"a"), ("order-1", b"b"), ("order-2", b"c")]:
        database.execute(put, (id, payload))
    assert relay(database, client) == 3
    assert waiting(database) == [("put", "order-1", "conflict")]
    assert client.get("orders", "order-2").payload == b"c"


@pytest.fixture
def lasting():
    """A Redis that has everything again after a kill."""
    options = "--appendonly", "yes", "--appendfsync", "always"
    with tempfile.TemporaryDirectory(prefix="delayq-py-") as folder, RedisServer(folder, *options) as server:
        yield server


def test_the_relay_as_a_process_waits_for_redis_and_carries_on(postgres, database, lasting):
    with lasting.connect() as connection:
        Deployment(connection, 1, namespace="dq")
    arguments = [OUTBOX / "relay.py", postgres.url, f"unix://{lasting.socket}"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": ""}
    with subprocess.Popen([sys.executable, *arguments], stderr=subprocess.PIPE, text=True, env=environment) as process:
        lasting.kill()
        database.execute(sql("place_order.sql"))
        assert "waits for Redis" in process.stderr.readline()
        assert len(waiting(database)) == 1
        lasting.start()
        until = time.monotonic() + 30
        while waiting(database) and time.monotonic() < until:
            assert process.poll() is None
        process.terminate()
    with lasting.connect() as connection, Client(connection) as client:
        assert client.get("orders", "order-17").payload == b'{"order":17}'
