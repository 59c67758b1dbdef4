"""The program that goes through outages (tests/src/bin/client-outages.rs).

`outages.py blocking|asyncio URL NAME PAUSE_MS`
"""

import asyncio
import inspect
import sys
import time
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from delayq import AsyncClient, AsyncWorker, Client, Message, Worker, connect, connect_async  # noqa: E402

LEASE = timedelta(seconds=2)
SETTINGS = {"socket_timeout": 1, "socket_connect_timeout": 1}


def say(*words):
    # One write, so that threads do not mix lines.
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def settled(value):
    """Returns the result of a call of either client."""
    return await value if inspect.isawaitable(value) else value


async def put(client, topic, id):
    while True:
        try:
            answer = await settled(client.put(Message(topic, id.encode(), id=id)))
            if answer.accepted:
                return say("put", id, time.time_ns() // 1_000_000)
            print(f"{id}: {answer}", file=sys.stderr, flush=True)
        except Exception as fault:
            print(f"{id}: {fault!r}", file=sys.stderr, flush=True)
        await asyncio.sleep(0.05)


def took(delivery):
    say("took", delivery.id, delivery.delivery, delivery.ready_us // 1000, delivery.payload.decode())


def handle(delivery):
    took(delivery)
    time.sleep(0.03)


async def handle_async(delivery):
    took(delivery)
    await asyncio.sleep(0.03)


async def run(kind, url, name, pause_s):
    is_async, settings = kind == "asyncio", {"concurrency": 4, "lease": LEASE}
    if is_async:
        busy, source, idle = (AsyncClient(connect_async(url, **SETTINGS)) for _ in range(3))
        works = [(busy, {name: handle_async}), (idle, {f"{name}-idle": handle_async})]
        workers = [AsyncWorker(one, handlers, **settings) for one, handlers in works]
    else:
        busy, source, idle = (Client(connect(url, **SETTINGS)) for _ in range(3))
        works = [(busy, {name: handle}), (idle, {f"{name}-idle": handle})]
        workers = [Worker(one, handlers, **settings) for one, handlers in works]
    # A blocking client has a thread.
    done = (lambda work: work) if is_async else (lambda work: asyncio.to_thread(asyncio.run, work))
    for worker in workers:
        await settled(worker.start())
    is_over = False

    async def load():
        n = 0
        while not is_over:
            await put(busy, name, f"{name}-load-{n}")
            n += 1
            await asyncio.sleep(pause_s)

    loading = asyncio.create_task(done(load()))
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        if line == "stop":
            is_over = True
            await loading
            say("stopped")
        else:
            await done(put(source, f"{name}-idle", line))
    is_over = True
    for worker in workers:
        await settled(worker.stop())
    for one in (busy, source, idle):
        await settled(one.close())


_, kind, url, name, pause_ms = sys.argv
asyncio.run(run(kind, url, name, int(pause_ms) / 1000))
