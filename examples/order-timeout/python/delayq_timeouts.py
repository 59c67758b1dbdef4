"""Orders that are not paid in time, with delayq: `delayq_timeouts.py worker`, then `delayq_timeouts.py shop`."""

import os
import sys
import time
from datetime import timedelta

import redis
from delayq import Client, Delivery, Message, Worker

client = Client(redis.Redis.from_url(os.environ["REDIS_URL"]))


def place(order: str, placed: float) -> str:
    return client.put(Message("timeouts", repr(placed).encode(), id=order, after=timedelta(seconds=2))).word


def pay(order: str) -> str:
    return client.cancel("timeouts", order).word


def extend(order: str) -> str:
    return client.reschedule("timeouts", order, after=timedelta(seconds=4)).word


def time_out(delivery: Delivery) -> None:
    late = time.time() - float(delivery.payload)
    print(f"{delivery.id} was not paid within {late * 1000:.0f} ms", flush=True)


if sys.argv[1] == "worker":
    Worker(client, {"timeouts": time_out}, concurrency=10, pump=True).run()
else:
    now = time.time()
    for order in ["order-1", "order-2", "order-3", "order-1"]:
        print(order, place(order, now))
    print("order-2 paid:", pay("order-2"))
    print("order-3 extended:", extend("order-3"))
    client.close()
