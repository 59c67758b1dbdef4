"""The test of the guide on tests, as printed; and promotions of topics and groups."""

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from deployment import Deployment

import delayq

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "testing.md"


@pytest.mark.parametrize("shards", [1, 2, 7])
def test_the_guide_s_test_passes(connection, shards):
    (block,) = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text("utf-8"), re.M | re.S)
    deployment, names = Deployment(connection, shards), {}
    exec(block, names)
    with delayq.Client(connection, deployment.namespace) as client:
        names["test_an_unpaid_order_expires_after_half_an_hour"](client)


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
