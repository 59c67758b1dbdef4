"""Carries out what the table outbox asks for, in its order: `python3 relay.py POSTGRES_URL REDIS_URL`."""

import sys
import time

import psycopg
import redis
from delayq import Client, Message

WAITING = """SELECT seq, verb, topic, id, due, payload, added FROM outbox
             WHERE refused IS NULL ORDER BY seq LIMIT 500 FOR UPDATE"""


def carry_out(client, verb, topic, id, due, payload, added):
    """Why it can never be carried out; None: it was, now or before."""
    if verb == "cancel":
        client.cancel(topic, id)
        return None
    outcome = client.put(Message(topic, bytes(payload), id=id, at=due, first_tried=added))
    return None if outcome.word in ("stored", "ready", "exists") else str(outcome.word)


def relay(database, client):
    """One batch; returns how many rows it settled. A row goes once delayq has answered, so whatever fails is repeated."""
    with database.transaction():
        rows = database.execute(WAITING).fetchall()
        for seq, *asked in rows:
            refused = carry_out(client, *asked)
            if refused is None:
                database.execute("DELETE FROM outbox WHERE seq = %s", (seq,))
            else:
                database.execute("UPDATE outbox SET refused = %s WHERE seq = %s", (refused, seq))
    return len(rows)


def main(postgres_url, redis_url):
    with psycopg.connect(postgres_url, autocommit=True) as database, Client(redis.from_url(redis_url)) as client:
        while True:
            try:
                if relay(database, client) == 0:
                    time.sleep(0.2)
            except redis.RedisError as error:
                print(f"outbox waits for Redis: {error}", file=sys.stderr)
                time.sleep(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
