"""The test vectors shared by all clients: bytes and their meaning."""

import re

import pytest
from conftest import vectors

from delayq import Backoff, Delivery, InvalidArgument, Message, Outcome, connect, connect_async
from delayq.addresses import Address, read_address
from delayq.calls import places_of
from delayq.envelope import Stored
from delayq.names import generate_id, generated, id_and_group, id_bytes, id_text, name, stored_id, topic_arg, topic_text
from delayq.protocol import META, NEVER, READY, WAKE, WORKERS, key_of
from delayq.schedule import LOCK_S, POLL_S, Shard
from delayq.scripts import script


def shard_of(text, shards):
    return places_of(text if isinstance(text, bytes) else text.encode(), [shards])[0]


def read(stored):
    delivery = Delivery("t", "o")
    return delivery, delivery.read(stored)


#: Fields of an outcome that come from the answer.
READ = {"word", "time_ms", "old_ms", "state", "why", "doomed"}
#: Without envelopes that no reserve returns, and fields that no worker reads.
VALID = [case for case in vectors("envelope.json")["valid"]
         if case["envelope"]["state"] in ("delayed", "ready", "leased") and case["envelope"]["reason"] is None]
REFUSED = [case for case in vectors("envelope.json")["refused"]
           if not re.match("state |a (.*back-off|list of no back-offs)|a back-off|a reason", case["name"])]


@pytest.mark.parametrize("case", VALID, ids=lambda case: case["name"])
def test_an_envelope_is_read_as_it_is_stored(case):
    said = case["envelope"]
    delivery, compressed = read(bytes.fromhex(case["hex"]))
    assert (delivery.attempt, delivery.delivery) == (min(said["attempt"] + 1, 65535), said["delivery"] + 1)
    assert (delivery.due_ms, delivery.expires_ms, delivery.group) == (said["due_ms"], said["expires_ms"], said["group"])
    assert (compressed, delivery.payload.hex()) == (said["zstd"], said["payload"])
    assert (delivery.max_attempts, [list(pair) for pair in delivery.headers]) == (said["max_attempts"], said["headers"])


@pytest.mark.parametrize("case", vectors("envelope.json")["valid"], ids=lambda case: case["name"])
def test_a_message_is_shown_as_it_is_stored(case):
    said = case["envelope"]
    stored = Stored("t", "o", 0)
    assert stored.read(bytes.fromhex(case["hex"])) == said["zstd"]
    waits = ("held", "has_successor", "paused", "blocks", "blocked")
    for field in ("state", "due_ms", "at_ms", "attempt", "delivery", "doomed", *waits, "reason"):
        assert getattr(stored, field) == said[field], field
    assert stored.content_hash == said["hash"]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"])
def test_what_is_no_envelope_is_refused_by_name(case):
    with pytest.raises(ValueError) as refused:
        read(bytes.fromhex(case["hex"]))
    assert ("newer" in str(refused.value)) == (case["error"] == "newer")


@pytest.mark.parametrize("case", vectors("put.json")["puts"], ids=lambda case: case["name"])
def test_a_put_sends_the_hash_and_the_envelope_that_all_clients_send(case):
    said = case["message"]
    message = Message(
        said["topic"], bytes.fromhex(said["payload"]), said["id"], group=said["group"],
        headers=tuple(tuple(pair) for pair in said["headers"]), expires=said["expires_ms"], past_ok=True,
        max_attempts=said["max_attempts"],
        backoff=said["backoff"] and Backoff(said["backoff"]["kind"], tuple(said["backoff"]["delays_ms"])),
    )
    assert case["hash"] is None or message.content_hash().hex() == case["hash"]
    assert message.envelope(not generated(id_bytes(said["id"]))).hex() == case["envelope"]


def test_names_fall_into_the_same_shards_everywhere():
    for case in vectors("names.json")["crc32"]:
        for shards, shard in case["shards"].items():
            assert shard_of(case["name"], int(shards)) == shard, case


def test_keys_have_the_same_form_everywhere():
    protocol = vectors("protocol.json")
    for one in protocol["keys"]:
        expected = protocol["key_form"].replace("NAMESPACE", "dq").replace("SHARD", "7").replace("NAME", one["name"])
        assert key_of("dq", 7, one["name"]) == expected
    assert [one["name"] for one in protocol["keys"]] == [META, NEVER, WAKE, READY, WORKERS + "TOPIC"]


def test_ids_have_the_same_forms_everywhere():
    for case in vectors("names.json")["ids"]:
        raw = id_bytes(case["text"])
        assert (raw.hex(), id_text(raw)) == (case["hex"], case["text"])
        assert generated(raw) == (case["shard"] is not None)
        if case["shard"] is not None:
            assert shard_of(raw, 4096) == case["shard"]


def test_a_name_outside_the_rules_has_the_same_text_everywhere():
    for case in vectors("names.json")["odd_ids"]:
        stored = bytes.fromhex(case["hex"])
        assert id_and_group(stored) == (case["text"], None)
        assert stored_id(case["text"], None) == stored_id(case["text"], "g") == stored
        with pytest.raises(InvalidArgument, match="can be cancelled, not put"):
            Message("t", b"", id=case["text"])
    for case in vectors("names.json")["odd_topics"]:
        assert (topic_text(bytes.fromhex(case["hex"])), topic_arg(case["text"])) == (case["text"], bytes.fromhex(case["hex"]))
        with pytest.raises(InvalidArgument, match="topic"):
            Message(case["text"], b"")


def test_a_stored_id_names_id_and_group_everywhere():
    for case in vectors("names.json")["stored_ids"]:
        stored = stored_id(case["id"], case["group"])
        assert stored.hex() == case["hex"]
        assert id_and_group(stored) == (case["id"], None if generated(stored) else case["group"])


def test_a_generated_id_carries_its_shard():
    for shard in (0, 1, 255, 4095):
        text = generate_id(shard)
        assert shard_of(id_bytes(text), 4096) == shard and id_text(id_bytes(text)) == text


def test_names_that_are_invalid_are_refused():
    for what, names in vectors("names.json")["refused"].items():
        for text in [*names, "\ud800"]:
            with pytest.raises(InvalidArgument):
                id_bytes(text) if what == "id" else name(what, text)


def test_a_script_is_put_together_as_everywhere(tmp_path):
    case = vectors("assembly.json")
    for file, text in case["files"].items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{file}.lua").write_bytes(text.encode())
    assert script(case["verb"], tmp_path) == (case["source"], case["sha1"])


@pytest.mark.parametrize("said", vectors("urls.json")["urls"], ids=lambda said: said["url"])
def test_a_url_says_the_hosts_and_the_login_as_everywhere(said):
    parts = {key: value for key, value in said.items() if key != "url"}
    assert read_address(said["url"]) == Address(**parts | {"nodes": tuple(map(tuple, said["nodes"]))})


@pytest.mark.parametrize("case", vectors("urls.json")["refused"], ids=lambda case: case["url"])
@pytest.mark.parametrize("by", [connect, connect_async])
def test_a_url_that_is_wrong_is_refused_by_name_and_no_secret_is_repeated(case, by):
    with pytest.raises(InvalidArgument) as refused:
        by(case["url"])
    assert case["named"] in str(refused.value) and "ter2" not in str(refused.value)


@pytest.mark.parametrize("case", vectors("outcomes.json")["outcomes"], ids=lambda case: f"{case['verb']}: {case['answer']}")
def test_an_outcome_is_accepted_where_what_was_asked_for_holds(case):
    outcome = Outcome.parse(case["answer"], verb=case["verb"])
    parts = {key: case.get(key, default) for key, default in vars(Outcome("ready")).items() if key in READ}
    assert {key: getattr(outcome, key) for key in READ} == parts
    assert outcome.accepted is case["accepted"]


PUMPING = vectors("pumping.json")


def owned(claimed_s, redis_ms=0):
    """A shard that was claimed on a local clock that runs like Redis's."""
    shard = Shard(0)
    shard.clock.hear(redis_ms * 1000, redis_ms / 1000, redis_ms / 1000)
    shard.sends("claim")
    shard.own(1, claimed_s)
    return shard


@pytest.mark.parametrize("case", PUMPING["owned"], ids=lambda case: case["name"])
def test_a_worker_that_pumps_does_next_what_all_clients_do(case):
    now_s, pumped_s = case["now_ms"] / 1000, case["pumped_ms"] / 1000
    shard = owned(case["claimed_ms"] / 1000, case["now_ms"])
    shard.sends("pump")
    if case["woken_ms"]:
        shard.woken(str(case["woken_ms"]).encode(), pumped_s)
    if case["pump_errors"]:
        for _ in range(case["pump_errors"]):
            shard.fail("pump", pumped_s)
    else:
        due_ms = case["next_due_ms"] or float("inf")
        shard.answer(due_ms, False, not case["more"] and due_ms <= case["pumped_ms"], pumped_s)
    verb, at_s = shard.next(now_s)
    assert (verb, round(max(at_s - now_s, 0) * 1000)) == (case["does"], case["in_ms"])


def claim_of(case):
    """Has the event of a vector happen at 100 s."""
    now_s, lock_s = 100.0, case["lock_ms"] and case["lock_ms"] / 1000
    shard = Shard(0)
    shard.sends("claim")
    if case["event"] in ("claimed", "fenced"):
        shard.own(1, now_s)
    if case["event"] in ("owned", "free", "fenced"):
        shard.lose(now_s, lock_s)
    if case["event"].startswith("free"):
        shard.woken(b"free", now_s)
    if case["event"] == "free during the claim":
        shard.lose(now_s, 5.0)
    if case["event"] == "error":
        shard.fail("claim", now_s)
    if case["event"].startswith("pumps were not answered"):
        shard.own(1, now_s - 10)
        shard.own(1, now_s)
    return shard.claim_s - now_s


@pytest.mark.parametrize("case", PUMPING["claims"], ids=lambda case: f"{case['event']} {case['lock_ms']}")
def test_a_worker_that_pumps_claims_when_all_clients_do(case):
    least_s = case["claim_in_ms"] / 1000
    assert least_s - 1e-6 <= claim_of(case) <= least_s + case["random_ms"] / 1000 + 1e-6


def test_the_pauses_of_a_worker_that_pumps_are_those_of_all_clients():
    assert (LOCK_S * 1000, POLL_S * 1000) == (PUMPING["lock_ms"], PUMPING["poll_ms"])


def test_a_clock_that_jumped_holds_its_shard_until_it_was_steady_for_ten_seconds():
    shard = owned(0.0)
    shard.answer(float("inf"), False, False, 0.0)
    assert shard.next(0.0)[0] == "claim"
    for jump_s in (5.0, -5.0):
        shard.clock.hear(int((shard.clock.ahead_s + 1 + jump_s) * 1e6), 1.0, 1.001)
        assert shard.clock.is_jumped and shard.next(1.0)[0] == "hold"
        shard.answer(0.0, True, False, 1.0)
        assert shard.next(1.0) == ("claim", 1.0)  # closely; and never a pump
        for second in range(2, 12):
            shard.clock.hear(int((shard.clock.ahead_s + second) * 1e6), second, second + 0.001)
            assert shard.next(second)[0] == ("claim" if second < 11.001 else "hold"), second
        shard.clock.hear(int((shard.clock.ahead_s + 11.5) * 1e6), 11.5, 11.501)
        assert not shard.clock.is_jumped and shard.next(11.5)[0] == "hold"
        shard.answer(0.0, False, False, 11.5)
        shard.own(1, 11.5)
        assert shard.next(11.6)[0] == "pump"
        shard.own(1, 0.0)


def test_a_hold_of_an_earlier_owner_ends_once_the_clock_is_proven_and_a_slow_answer_accuses_nobody():
    shard = owned(0.0)
    shard.answer(0.0, True, False, 0.0)
    assert shard.next(9.0) == ("claim", 1.0) and shard.next(10.0)[0] == "hold"
    shard.clock.hear(1_500_000, 1.0, 4.0)
    assert not shard.clock.is_jumped
