"""The table of outcomes that all clients share."""

import pytest
from conftest import vectors

from delayq.outcome import Outcome


@pytest.mark.parametrize("said", vectors("outcomes.json")["outcomes"], ids=lambda said: f"{said['verb']} {said['answer']}")
def test_an_outcome_is_what_all_clients_say(said):
    outcome = Outcome.parse(said["answer"], verb=said["verb"])
    read = {"word": outcome.word.value, "accepted": outcome.accepted, "time_ms": outcome.time_ms, "old_ms": outcome.old_ms,
            "state": outcome.state and outcome.state.value, "why": outcome.why, "doomed": outcome.doomed or None}
    named = {key: value for key, value in read.items() if value is not None}
    assert named == {key: value for key, value in said.items() if key not in ("verb", "answer")}
