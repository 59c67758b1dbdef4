"""Thousands a second: `measure.py delayq 20000`, `grouped` (delayq, with a thousand groups) or `celery`. 64 threads put timeouts
an hour ahead, one each call; then a worker with 64 threads works on as many that are due."""

import itertools
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import redis
from celery import Celery
from delayq import Client, Message, Worker

url = os.environ["REDIS_URL"]
app = Celery("measure", broker=url)
app.conf.update(broker_pool_limit=64, task_acks_late=True, task_ignore_result=True)


@app.task(name="time_out")
def time_out() -> None:
    pass


def put_delayq(client: Client, n: int, after: float) -> None:
    client.put(Message("timeouts", b"{}", id=f"order-{after:.0f}-{n}", after=timedelta(seconds=after)))


def put_grouped(client: Client, n: int, after: float) -> None:
    group = f"user-{n % 1000}"
    client.put(Message("timeouts", b"{}", id=f"order-{after:.0f}-{n}", group=group, after=timedelta(seconds=after)))


def put_celery(_client: Client, n: int, after: float) -> None:
    time_out.apply_async(countdown=after or None, task_id=f"order-{after:.0f}-{n}")


def work_delayq(client: Client, count: int) -> float:
    done, handled, lock = threading.Event(), itertools.count(1), threading.Lock()

    def handle(_delivery: object) -> None:
        with lock:
            if next(handled) == count:
                done.set()

    worker, began = Worker(client, {"timeouts": handle}, concurrency=64, pump=True), time.perf_counter()
    worker.start()
    done.wait()
    seconds = time.perf_counter() - began
    worker.stop()
    return seconds


def work_celery(_client: Client, count: int) -> float:
    command = [sys.executable, "-m", "celery", "-A", "measure", "worker", "-P", "threads", "-c", "64", "-l", "ERROR"]
    worker = subprocess.Popen(command, cwd=os.path.dirname(os.path.abspath(__file__)))
    connection = redis.Redis.from_url(url)
    while connection.llen("celery") == count:  # its start does not count
        time.sleep(0.001)
    began = time.perf_counter()
    while connection.llen("celery") > 0 or connection.hlen("unacked") > 0:
        time.sleep(0.01)
    seconds = time.perf_counter() - began
    worker.terminate()
    return seconds


def main(library: str, count: int, client: Client) -> None:
    put = {"delayq": put_delayq, "grouped": put_grouped, "celery": put_celery}[library]
    work = work_celery if library == "celery" else work_delayq

    def put_all(after: float) -> float:
        began = time.perf_counter()
        with ThreadPoolExecutor(64) as callers:
            list(callers.map(lambda n: put(client, n, after), range(count)))
        return time.perf_counter() - began

    print(f"{library}: put {count / put_all(3600):.0f}/s", flush=True)
    if library == "celery":
        redis.Redis.from_url(url).flushdb()  # its worker would fetch all that is an hour ahead first
    put_all(0)
    print(f"{library}: work {count / work(client, count):.0f}/s", flush=True)


if __name__ == "__main__":
    with Client(redis.Redis.from_url(url)) as measured:
        main(sys.argv[1], int(sys.argv[2]), measured)
