"""Orders with a timeout, in one transaction, with SQLAlchemy."""

import json

from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, Table, Text, insert, text

outbox = Table(
    "delayq_outbox",
    MetaData(),
    Column("verb", Text),
    Column("topic", Text),
    Column("id", Text),
    Column("delay_ms", BigInteger),
    Column("payload", LargeBinary),
)


def place_order(session, number):
    """The caller's transaction holds both, or neither."""
    session.execute(text("INSERT INTO orders (id) VALUES (:id)"), {"id": number})
    payload = json.dumps({"order": number}).encode()
    put = {"topic": "orders", "id": f"order-{number}", "delay_ms": 30 * 60 * 1000, "payload": payload}
    session.execute(insert(outbox).values(put))


def pay_order(session, number):
    session.execute(text("UPDATE orders SET paid = true WHERE id = :id"), {"id": number})
    session.execute(insert(outbox).values(verb="cancel", topic="orders", id=f"order-{number}"))
