"""Prints how late messages of a thousand a second reach the handler of a worker that pumps: late.py URL NAMESPACE COUNT."""

import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from delayq import Client, Message, Worker, connect  # noqa: E402

url, namespace, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
late_ms, is_over = [], threading.Event()


def handle(delivery):
    late_ms.append(time.time() * 1000 - delivery.due_ms)
    if len(late_ms) == count:
        is_over.set()


with Client(connect(url), namespace) as client:
    worker = Worker(client, {"late": handle}, concurrency=16, pump=True)
    worker.start()
    first_ms = int(time.time() * 1000) + 2000
    client.put_many([Message("late", b"x", id=f"late-{first_ms + n}", at=first_ms + n) for n in range(count)])
    is_over.wait(60 + count / 1000)
    worker.stop()
late_ms.sort()
print(f"Python  {len(late_ms)} messages, p50 {late_ms[len(late_ms) // 2]:.2f} ms, p99 {late_ms[len(late_ms) * 99 // 100]:.2f} ms")
