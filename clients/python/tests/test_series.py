"""Messages of several dates."""

from datetime import timedelta

import pytest
from conftest import vectors

from delayq import InvalidArgument, Message, series

VECTORS = vectors("series.json")
AT = 1_900_000_000_000


@pytest.mark.parametrize("case", VECTORS["series"], ids=lambda case: case["name"])
def test_a_series_has_the_same_ids_everywhere_and_is_a_group(case):
    messages = series(Message("t", b"x", id=case["id"]), *case["due_ms"])
    assert [(one.id, one.group, one.at) for one in messages] == [
        (id, case["group"], at) for id, at in zip(case["ids"], case["due_ms"], strict=True)
    ]


@pytest.mark.parametrize("case", VECTORS["refused"], ids=lambda case: case["name"])
def test_what_is_no_series_is_refused_by_name(case):
    with pytest.raises(InvalidArgument, match=case["why"]):
        series(Message("t", b"x", id=case["id"], group=case["group"]), *[AT] * case["dates"])


def test_a_date_of_a_series_is_a_time_or_a_delay():
    first, second = series(Message("t", b"x", id="a", after=timedelta(hours=1)), AT, timedelta(days=1))
    assert (first.at, first.after, second.at, second.after) == (AT, None, None, timedelta(days=1))
