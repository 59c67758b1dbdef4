"""Orders that are not paid in time, with Celery: `celery -A celery_timeouts worker`, then `celery_timeouts.py`."""

import os
import time

from celery import Celery

app = Celery("timeouts", broker=os.environ["REDIS_URL"])
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 1


def place(order: str, placed: float) -> str:
    return time_out.apply_async([order, placed], countdown=2, task_id=order).id


def pay(order: str) -> None:
    app.control.revoke(order)


def extend(order: str, placed: float) -> str:
    # A revoked id stays revoked: the later timeout needs a new id.
    app.control.revoke(order)
    return time_out.apply_async([order, placed], countdown=4, task_id=f"{order}-extended").id


@app.task(name="time_out")
def time_out(order: str, placed: float) -> None:
    print(f"{order} was not paid within {(time.time() - placed) * 1000:.0f} ms", flush=True)


if __name__ == "__main__":
    now = time.time()
    for order in ["order-1", "order-2", "order-3", "order-1"]:
        print(order, place(order, now))
    pay("order-2")
    print("order-3 extended:", extend("order-3", now))
