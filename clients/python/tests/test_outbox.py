"""The statements of docs/guides/outbox.md, with a real PostgreSQL; the compensator's own tests carry such rows out."""

import runpy
import tempfile
from pathlib import Path

import pytest
import sqlalchemy
from postgres import Postgres

ROOT = Path(__file__).resolve().parents[3]
OUTBOX = ROOT / "examples" / "outbox"
SCHEMA = ROOT / "crates" / "delayq-compensator" / "src" / "outbox" / "postgres" / "schema.sql"


@pytest.fixture(scope="module")
def postgres():
    with tempfile.TemporaryDirectory(prefix="delayq-pg-") as folder:
        server = Postgres(folder)
        with server.connect() as database:
            database.execute("CREATE TABLE orders (id bigint PRIMARY KEY, paid boolean NOT NULL DEFAULT false)")
            database.execute(SCHEMA.read_text("utf-8").replace("{schema}", "public"))
        yield server
        server.end()


def rows(postgres, id):
    wanted = "SELECT verb, coalesce(delay_ms, extract(epoch FROM due - added) * 1000)::bigint, payload FROM delayq_outbox"
    with postgres.connect() as database:
        return database.execute(f"{wanted} WHERE id = %s ORDER BY seq", (id,)).fetchall()


def test_plain_sql_asks_for_a_put_and_a_cancel(postgres):
    with postgres.connect() as database:
        for name in ["place_order.sql", "pay_order.sql"]:
            database.execute((OUTBOX / name).read_text("utf-8"))
    put, cancel = rows(postgres, "order-17")
    assert put[0] == "put" and 1_790_000 < put[1] <= 1_800_000 and put[2] == b'{"order":17}'
    assert cancel == ("cancel", None, None)


def test_sqlalchemy_asks_for_the_same_in_the_callers_transaction(postgres):
    orders = runpy.run_path(str(OUTBOX / "orders.py"))
    engine = sqlalchemy.create_engine(postgres.url.replace("postgresql://", "postgresql+psycopg://"))
    with pytest.raises(ZeroDivisionError), engine.begin() as session:
        orders["place_order"](session, 1)
        raise ZeroDivisionError
    with engine.begin() as session:
        orders["place_order"](session, 2)
    with engine.begin() as session:
        orders["pay_order"](session, 2)
    assert rows(postgres, "order-1") == []
    assert rows(postgres, "order-2") == [("put", 1_800_000, b'{"order": 2}'), ("cancel", None, None)]
