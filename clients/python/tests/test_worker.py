"""Workers and consumers, of both kinds, with the real timer."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from queue import Queue

import pytest
import redis
import redis.asyncio
from deployment import Deployment

from delayq import (
    AsyncClient,
    AsyncConsumer,
    AsyncWorker,
    Backoff,
    Bury,
    Client,
    ClientClosed,
    Consumer,
    InvalidArgument,
    Message,
    Policy,
    ScriptError,
    Worker,
)
from delayq.consumer import Consuming

SOON = timedelta(milliseconds=20)
#: Longer than anything here takes on a machine that keeps everything waiting.
PATIENCE_S = 30


@pytest.fixture
def deployment(connection, timer):
    deployment = Deployment(connection, shards=2)
    timer(deployment)
    return deployment


@pytest.fixture
def client(deployment):
    with Client(deployment.redis, deployment.namespace) as client:
        yield client


class Blocking:
    """A worker in threads."""

    def __init__(self, client, handler, **options):
        self.worker = Worker(client, {"orders": handler}, concurrency=4, **options)

    def __enter__(self):
        self.worker.start()

    def __exit__(self, *fault):
        self.worker.stop()


class Asynchronous:
    """A worker on an event loop in a separate thread."""

    def __init__(self, client, handler, **options):
        self._client, self._options = client, options

        async def awaited(delivery):
            settled = await asyncio.to_thread(handler, delivery)
            return await settled if inspect.isawaitable(settled) else settled

        self._handler = awaited

    def __enter__(self):
        self._started = Queue()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()
        self._loop, self._end = self._started.get(timeout=PATIENCE_S)

    async def _run(self):
        pool, end = self._client.redis.connection_pool.connection_kwargs, asyncio.Event()
        async with (
            redis.asyncio.Redis(unix_socket_path=pool["path"]) as connection,
            AsyncClient(connection, self._client.namespace) as client,
        ):
            worker = AsyncWorker(client, {"orders": self._handler}, concurrency=4, **self._options)
            await worker.start()
            self._started.put((asyncio.get_running_loop(), end))
            await end.wait()
            await worker.stop()

    def __exit__(self, *fault):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE_S)


both = pytest.mark.parametrize("kind", [Blocking, Asynchronous])


def until(condition):
    """Polls until another process has reached a state."""
    timeout = threading.Event()
    for _ in range(PATIENCE_S * 100):
        if condition():
            return
        timeout.wait(0.01)
    raise AssertionError("it did not come about")


@both
def test_a_handler_that_returns_acks_its_message(client, kind):
    handled = Queue()
    with kind(client, lambda delivery: handled.put((delivery.id, delivery.payload))):
        client.put(Message("orders", b"x", id="order-1", after=SOON))
        assert handled.get(timeout=PATIENCE_S) == ("order-1", b"x")
        until(lambda: client.topic("orders").count().delivered == 1)
    numbers = client.topic("orders").count()
    assert (numbers.ready, numbers.leased, numbers.delayed) == (0, 0, 0)


@both
def test_a_handler_that_raises_gets_its_message_again_after_the_back_off(client, kind):
    client.topic("orders").set_policy(Policy(backoff=Backoff.fixed(SOON)))
    attempts = Queue()

    def handle(delivery):
        attempts.put(delivery.attempt)
        if delivery.attempt < 3:
            raise OSError("not yet")

    with kind(client, handle):
        client.put(Message("orders", b"x", id="order-1"))
        assert [attempts.get(timeout=PATIENCE_S) for _ in range(3)] == [1, 2, 3]
        until(lambda: client.topic("orders").count().delivered == 1)


@both
def test_attempts_that_are_used_up_and_bury_make_dead_letters_with_a_reason(client, kind):
    def handle(delivery):
        raise Bury("no such order") if delivery.id == "unknown" else ValueError("always")

    with kind(client, handle):
        client.put(Message("orders", b"x", id="unknown"))
        client.put(Message("orders", b"x", id="failing", max_attempts=1))
        until(lambda: client.topic("orders").count().dead == 2)
    reasons = {dead.id: dead.reason for dead in client.topic("orders").list("dead")}
    assert reasons["unknown"] == "no such order" and reasons["failing"].startswith("ValueError: always; ")


@both
def test_a_handler_may_settle_its_delivery_itself(client, kind):
    with kind(client, lambda delivery: delivery.release(timedelta(hours=1))):
        client.put(Message("orders", b"x", id="order-1"))
        until(lambda: client.topic("orders").count().delayed == 1)
    assert client.get("orders", "order-1").attempt == 1


@both
def test_a_handler_that_returns_a_message_puts_it_by_the_ack(client, kind):
    handed = Queue()

    def handler(delivery):
        handed.put((delivery.payload, delivery.attempt))
        next = Message("orders", delivery.payload + b"+", delivery.id, after=SOON, max_attempts=1)
        if delivery.payload == b"one":
            return next
        if delivery.payload == b"one+":
            return delivery.ack(next)
        return replace(next, id="another")

    with kind(client, handler):
        client.put(Message("orders", b"one", id="drip"))
        assert [handed.get(timeout=PATIENCE_S) for _ in range(3)] == [(b"one", 1), (b"one+", 1), (b"one++", 1)]
        until(lambda: client.topic("orders").count().dead == 1)
    (dead,) = client.topic("orders").list("dead")
    assert dead.reason.startswith("delayq.errors.InvalidArgument: a next message has no id"), dead.reason


@both
def test_a_lease_is_extended_for_as_long_as_the_handler_runs(client, kind):
    begun, go_on = Queue(), threading.Event()

    def handle(delivery):
        begun.put(delivery.lease_end_ms)
        go_on.wait(PATIENCE_S)

    with kind(client, handle, lease=timedelta(seconds=1)):
        client.put(Message("orders", b"x", id="order-1"))
        end_ms = begun.get(timeout=PATIENCE_S)
        until(lambda: client.get("orders", "order-1").at_ms > end_ms + 1500)
        assert client.get("orders", "order-1").delivery == 1 and begun.empty()
        go_on.set()
        until(lambda: client.topic("orders").count().delivered == 1)


@both
def test_a_handler_learns_that_its_message_was_cancelled(client, kind):
    begun, lost = threading.Event(), Queue()

    def handle(delivery):
        begun.set()
        until(lambda: delivery.lost)
        lost.put(delivery.id)

    with kind(client, handle, lease=timedelta(seconds=1)):
        client.put(Message("orders", b"x", id="order-1"))
        assert begun.wait(PATIENCE_S)
        assert client.cancel("orders", "order-1").word == "leased"
        assert lost.get(timeout=PATIENCE_S) == "order-1"


@both
def test_a_worker_that_is_stopped_waits_for_its_handlers(client, kind):
    begun, go_on = threading.Event(), threading.Event()

    def handle(delivery):
        begun.set()
        go_on.wait(PATIENCE_S)

    worker = kind(client, handle)
    with worker:
        client.put(Message("orders", b"x", id="order-1"))
        assert begun.wait(PATIENCE_S)
        threading.Timer(0.2, go_on.set).start()
    assert client.topic("orders").count().delivered == 1


@both
def test_what_no_handler_finishes_in_time_is_given_back_at_once(client, kind):
    begun, go_on = threading.Event(), threading.Event()

    def handle(delivery):
        begun.set()
        go_on.wait(PATIENCE_S)

    with kind(client, handle, grace=timedelta(milliseconds=10)):
        client.put(Message("orders", b"x", id="order-1"))
        assert begun.wait(PATIENCE_S)
        threading.Timer(0.5, go_on.set).start()
    (again,) = client.reserve(["orders"], wait=timedelta(seconds=PATIENCE_S))
    assert (again.id, again.attempt, again.delivery) == ("order-1", 1, 2)


PROGRAM = """
import sys, time, redis
from datetime import timedelta
from delayq import Client, Worker

def handle(delivery):
    print("begun", flush=True)
    sys.stdin.readline()

Worker(Client(redis.Redis(unix_socket_path=sys.argv[1]), sys.argv[2]), {"orders": handle}, concurrency=2).run()
print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_once_its_handlers_have_ended(client, redis_socket, number):
    command = [sys.executable, "-c", PROGRAM, redis_socket, client.namespace]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, env=os.environ | {"PYTHONPATH": "."}) as process:
        client.put(Message("orders", b"x", id="order-1"))
        assert process.stdout.readline() == "begun\n"
        process.send_signal(number)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ended\n"
    assert process.returncode == 0
    assert client.topic("orders").count().delivered == 1


@both
def test_a_stop_is_no_attempt_and_buries_no_message_at_its_only_one(client, kind):
    begun, go_on = Queue(), threading.Event()

    def handle(delivery):
        begun.put(delivery.id)
        go_on.wait(PATIENCE_S)

    with kind(client, handle, grace=timedelta(0)):
        client.put_many([Message("orders", b"x", id=f"order-{n}", max_attempts=1) for n in range(8)])
        for _ in range(4):
            begun.get(timeout=PATIENCE_S)
        threading.Timer(0.5, go_on.set).start()
    numbers = client.topic("orders").count()
    assert (numbers.ready, numbers.leased, numbers.dead, numbers.delivered) == (8, 0, 0, 0)
    assert {found.attempt for found in client.topic("orders").list("ready")} == {0}


def test_a_consumer_that_ends_gives_back_what_is_not_settled_with_its_attempt(client):
    client.put_many([Message("orders", b"x", max_attempts=1) for _ in range(5)])
    with Consumer(client, ["orders"], concurrency=5) as consumer:
        for _ in range(3):
            next(consumer)
    numbers = client.topic("orders").count()
    assert (numbers.ready, numbers.dead) == (5, 0)


class Direct(Asynchronous):
    """A worker on an event loop that also runs the handler."""

    def __init__(self, client, handler, **options):
        super().__init__(client, handler, **options)

        async def awaited(delivery):
            handler(delivery)

        self._handler = awaited


LEAVING = {
    "sys.exit": lambda: sys.exit("enough"),
    "KeyboardInterrupt": lambda: raised(KeyboardInterrupt()),
    "CancelledError": lambda: raised(asyncio.CancelledError()),
    "GeneratorExit": lambda: raised(GeneratorExit()),
    "an error without a text": lambda: raised(Unspeakable()),
    "half of a character": lambda: raised(ValueError("\ud800")),
    "5 MB": lambda: raised(ValueError("x" * 5_000_000)),
}


class Unspeakable(Exception):
    def __str__(self):
        raise ValueError("there is no text")


def raised(fault):
    raise fault


#: In an event loop, KeyboardInterrupt is the end of the process.
@pytest.mark.parametrize(("kind", "how"), [
    *((Blocking, how) for how in LEAVING), *((Direct, how) for how in LEAVING if how != "KeyboardInterrupt"),
])  # fmt: skip
def test_whatever_a_handler_raises_fails_its_attempt_and_ends_nothing(client, kind, how, caplog):
    def handle(delivery):
        if delivery.id != "last":
            LEAVING[how]()

    with kind(client, handle):
        client.put_many([Message("orders", b"x", id=f"order-{n}", max_attempts=1) for n in range(12)])
        until(lambda: client.topic("orders").count().dead == 12)
        client.put(Message("orders", b"x", id="last"))
        until(lambda: client.topic("orders").count().delivered == 1)
    letters = list(client.topic("orders").list("dead"))
    assert all(letter.reason and len(letter.reason.encode()) <= 1000 for letter in letters)
    assert all("in handle" in letter.reason for letter in letters)
    failures = [record for record in caplog.records if "at its last attempt" in record.message and record.exc_info]
    assert len(failures) == 12


def test_a_handler_whose_own_task_is_cancelled_fails_its_attempt_alone(client):
    async def cancelled(delivery):
        if delivery.id == "order-1":
            asyncio.current_task().cancel()
            await asyncio.sleep(0)

    worker = Asynchronous(client, print)
    worker._handler = cancelled
    with worker:
        client.put(Message("orders", b"x", id="order-1", max_attempts=1))
        until(lambda: client.topic("orders").count().dead == 1)
        client.put(Message("orders", b"x", id="order-2"))
        until(lambda: client.topic("orders").count().delivered == 1)


@both
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_cannot_go_on_ends_loudly_and_extends_no_lease(client, kind, caplog, monkeypatch):
    real = Consuming.next

    async def broken(self):
        delivery = await real(self)
        if delivery is not None and delivery.id == "fatal":
            raise SystemExit("broken")
        return delivery

    monkeypatch.setattr(Consuming, "next", broken)
    worker = kind(client, print)
    worker.__enter__()
    client.put(Message("orders", b"x", id="fatal", max_attempts=1))
    until(lambda: any(record.levelname == "CRITICAL" and record.exc_info for record in caplog.records))
    until(lambda: client.topic("orders").count().ready == 1)
    if kind is Blocking:
        with pytest.raises(SystemExit, match="broken"):
            worker.__exit__()
    else:
        worker._loop.call_soon_threadsafe(worker._end.set)
        worker._thread.join(PATIENCE_S)


def test_a_worker_whose_client_is_closed_ends(client, redis_socket):
    with redis.Redis(unix_socket_path=redis_socket) as own:
        other = Client(own, client.namespace)
        worker = Worker(other, {"orders": print})
        worker.start()
        other.close()
        until(lambda: worker._working.fault is not None)
        with pytest.raises(ClientClosed):
            worker.stop()


@both
def test_the_dead_letter_and_the_log_say_where_a_handler_failed_and_that_it_is_buried(client, kind, caplog):
    client.topic("orders").set_policy(Policy(max_attempts=2, backoff=Backoff.fixed(SOON)))

    def handle(delivery):
        raise OSError(f"no route for attempt {delivery.attempt}")

    with kind(client, handle):
        client.put(Message("orders", b"x", id="order-1"))
        until(lambda: client.topic("orders").count().dead == 1)
    (letter,) = client.topic("orders").list("dead")
    assert letter.reason.startswith("OSError: no route for attempt 2; ") and " in handle: raise OSError" in letter.reason
    first, last = [record for record in caplog.records if "order-1 of orders" in record.message]
    assert "at attempt 1 of 2; retrying" in first.message and "last attempt, 2 of 2: buried" in last.message
    assert first.exc_info and last.exc_info and last.levelname == "ERROR"


def test_a_handler_that_would_do_nothing_is_refused(client):
    def generator(delivery):
        yield

    class Called:
        async def __call__(self, delivery):
            pass

    for handler in (generator, Called()):
        with pytest.raises(InvalidArgument, match="the handler of orders"):
            Worker(client, {"orders": handler})
    with Blocking(client, lambda delivery: generator(delivery)):
        client.put(Message("orders", b"x", max_attempts=1))
        until(lambda: client.topic("orders").count().dead == 1)


@both
def test_a_handler_may_stop_the_worker_that_was_started(client, kind):
    stopping = Queue()

    def handle(delivery):
        stop = stopping.get(timeout=PATIENCE_S)
        stop()

    client.put(Message("orders", b"x", id="order-1"))
    if kind is Blocking:
        worker = kind(client, handle)
        worker.__enter__()
        stopping.put(worker.worker.stop)
        until(lambda: client.topic("orders").count().delivered == 1)
        worker.__exit__()
        return

    async def run():
        async with (
            redis.asyncio.Redis(unix_socket_path=client.redis.connection_pool.connection_kwargs["path"]) as connection,
            AsyncClient(connection, client.namespace) as own,
        ):
            async def handled(delivery):
                await worker.stop()

            worker = AsyncWorker(own, {"orders": handled})
            await worker.start()
            while (await own.topic("orders").count()).delivered == 0:
                await asyncio.sleep(0.01)
            await worker.stop()

    asyncio.run(run())


ASYNC_PROGRAM = """
import asyncio, sys, redis.asyncio
from delayq import AsyncClient, AsyncWorker

async def handle(delivery):
    print("begun", flush=True)
    await asyncio.to_thread(sys.stdin.readline)

async def main():
    async with AsyncClient(redis.asyncio.Redis(unix_socket_path=sys.argv[1]), sys.argv[2]) as client:
        await AsyncWorker(client, {"orders": handle}, concurrency=2).run()
    print("ended", flush=True)

asyncio.run(main())
"""


def started(text, redis_socket, namespace):
    command = [sys.executable, "-c", text, redis_socket, namespace]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, env=os.environ | {"PYTHONPATH": "."})


programs = pytest.mark.parametrize("text", [PROGRAM, ASYNC_PROGRAM], ids=["blocking", "asynchronous"])


@programs
def test_two_signals_at_one_instant_are_one(client, redis_socket, text):
    with started(text, redis_socket, client.namespace) as process:
        client.put(Message("orders", b"x", id="order-1"))
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ended\n"
    assert process.returncode == 0
    assert client.topic("orders").count().delivered == 1


@programs
def test_a_signal_that_comes_a_second_after_the_first_ends_the_process_at_once(client, redis_socket, text):
    with started(text, redis_socket, client.namespace) as process:
        client.put(Message("orders", b"x", id="order-1"))
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:  # whenever the first has been noticed, one of these is a second later
            process.send_signal(signal.SIGTERM)
            threading.Event().wait(0.1)
        process.stdin.close()
        said = process.stderr.read()
    assert process.returncode == -signal.SIGTERM and "another signal" in said
    assert client.topic("orders").count().leased == 1


def test_a_handler_may_stop_its_worker(client):
    client.put(Message("orders", b"x", id="order-1"))
    worker = Worker(client, {"orders": lambda delivery: worker.stop()}, concurrency=4)
    worker.run()
    assert client.topic("orders").count().delivered == 1


def test_a_worker_says_what_is_wrong_with_its_handlers_and_its_deployment(client, connection):
    async def handle(delivery):
        pass

    with pytest.raises(InvalidArgument, match="AsyncWorker"):
        Worker(client, {"orders": handle})
    with pytest.raises(InvalidArgument, match="handlers"):
        Worker(client, ["orders"])
    with Client(connection, "nowhere") as nowhere, pytest.raises(ScriptError, match="DQUNINITIALISED"):
        Worker(nowhere, {"orders": print}).run()


def test_a_consumer_hands_out_no_more_than_its_concurrency_and_gives_back_the_rest(client):
    client.put_many([Message("orders", b"x") for _ in range(5)])
    with Consumer(client, ["orders"], concurrency=3) as consumer:
        held = [next(consumer) for _ in range(3)]
        assert client.topic("orders").count().leased == 3
        assert held[0].ack().word == "delivered"
        fourth = next(consumer)
        assert fourth.bury("broken").word == "buried"
        assert held[1].release(timedelta(hours=1), reason="later").word == "delayed"
    numbers = client.topic("orders").count()
    assert (numbers.delivered, numbers.dead, numbers.delayed, numbers.leased, numbers.ready) == (1, 1, 1, 0, 2)


def test_an_asynchronous_consumer_is_an_iterator(client, redis_socket):
    client.put_many([Message("orders", b"x") for _ in range(5)])

    async def run():
        acked = 0
        async with (
            redis.asyncio.Redis(unix_socket_path=redis_socket) as connection,
            AsyncClient(connection, client.namespace) as own,
            AsyncConsumer(own, ["orders"], concurrency=2) as consumer,
        ):
            async for delivery in consumer:
                assert (await delivery.extend(timedelta(minutes=1))).word == "extended"
                await delivery.ack()
                acked += 1
                if acked == 5:
                    break

    asyncio.run(run())
    assert client.topic("orders").count().delivered == 5
