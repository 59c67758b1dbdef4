"""The code of the guides on tests and drips, as printed; and promotions of topics and groups."""

import os
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from deployment import Deployment

import delayq
from delayq.testing import isolated

HERE = Path(__file__).parents[1]
GUIDES = HERE.parents[1] / "docs" / "guides"


def blocks(guide="testing"):
    """The Python blocks of a guide: its tests, and in that on tests a reserve."""
    return re.findall(r"^```python\n(.*?)^```", (GUIDES / f"{guide}.md").read_text("utf-8"), re.M | re.S)


@pytest.mark.parametrize("guide", ["testing", "drips"])
def test_a_guide_s_tests_pass(redis_socket, tmp_path, guide):
    tests = blocks(guide)[0]
    text = tests.replace("redis://127.0.0.1:6379", f"unix://{redis_socket}")
    assert text != tests
    (tmp_path / "test_guide.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(HERE)})
    assert ran.returncode == 0 and "1 passed" in ran.stdout, ran.stdout


@pytest.mark.parametrize("shards", [1, 7])
def test_the_guide_s_reserve_hands_out_what_is_due_tonight(connection, shards):
    names = {}
    exec(blocks()[1], names)
    with isolated(connection, shards=shards) as queue:
        for hours in (11, 1, 13):
            queue.client.put(delayq.Message("expiries", b"x", id=f"in-{hours}", after=timedelta(hours=hours)))
        assert [one.id for one in names["what_tonight_brings"](queue.client)] == ["in-1", "in-11"]


@pytest.mark.parametrize("shards", [1, 2, 7])
def test_a_topic_or_a_group_is_promoted_up_to_a_time_and_no_message_twice(connection, shards):
    due = datetime.now(timezone.utc) + timedelta(minutes=1)
    moments = [due + timedelta(milliseconds=n) for n in range(500)]
    deployment = Deployment(connection, shards)
    with delayq.Client(connection, deployment.namespace) as client:
        client.put_many([
            delayq.Message("t", b"x", id=f"m-{n}", at=at, group=["even", "odd"][n % 2]) for n, at in enumerate(moments)
        ])
        topic = client.topic("t")
        assert client.group("odd").promote(until=moments[99]) == 50
        assert (topic.promote(until=moments[299]), topic.promote(until=moments[299])) == (250, 0)
        assert (topic.count().delayed, topic.count().ready) == (200, 300)
