"""Due times that are spread by id, as all clients spread them."""

from datetime import datetime, timedelta, timezone

import pytest
from conftest import vectors

from delayq import InvalidArgument, between, jitter
from delayq.times import as_datetime
from delayq.windows import _offset_ms

VECTORS = vectors("windows.json")


@pytest.mark.parametrize("case", VECTORS["windows"], ids=lambda case: case["name"])
def test_an_id_has_the_same_time_in_a_window_everywhere(case):
    assert between(case["window"], case["id"], as_datetime(case["earliest_ms"])) == as_datetime(case["due_ms"])


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: case["name"])
def test_what_is_no_window_is_refused_by_name(case):
    with pytest.raises(InvalidArgument, match=case["why"]):
        between(case["window"], "a")


def test_an_id_has_the_same_jitter_everywhere():
    for case in VECTORS["offsets"]:
        assert _offset_ms(case["id"], case["span_ms"]) == case["offset_ms"], case
    assert jitter("order-17", timedelta(hours=1)) == jitter("order-17", timedelta(hours=1)) < timedelta(hours=1)
    with pytest.raises(InvalidArgument, match="longest must be at least 0"):
        jitter("order-17", timedelta(seconds=-1))


def test_a_window_opens_from_now_on_and_spreads_ids_evenly():
    due = between("09:00-10:00 UTC", "order-17")
    assert timedelta(0) <= due - datetime.now(timezone.utc) < timedelta(days=1) and due.hour == 9
    day = datetime(2026, 12, 1, tzinfo=timezone.utc)
    minutes = [between("09:00-10:00 UTC", f"order-{n}", day).minute for n in range(6_000)]
    assert all(60 < minutes.count(minute) < 140 for minute in range(60))
