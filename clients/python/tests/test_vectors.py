"""The vectors that all clients share: bytes and what they mean."""

import hashlib
from dataclasses import asdict

import pytest
from conftest import vectors

from delayq import Backoff, Envelope, EnvelopeError, InvalidMessage, Message, MessageId, NewerEnvelope
from delayq.ids import namespace_name, printable, shard_of_name, topic_name
from delayq.scripts import assemble


def envelope_of(said):
    backoff = said["backoff"] and Backoff(said["backoff"]["kind"], tuple(said["backoff"]["delays_ms"]))
    return Envelope(**{
        **said,
        "hash": None if said["hash"] is None else bytes.fromhex(said["hash"]),
        "payload": bytes.fromhex(said["payload"]),
        "backoff": backoff,
        "headers": tuple(tuple(pair) for pair in said["headers"]),
    })


@pytest.mark.parametrize("case", vectors("envelope.json")["valid"], ids=lambda case: case["name"])
def test_an_envelope_is_read_and_written_as_it_is_stored(case):
    stored, envelope = bytes.fromhex(case["hex"]), envelope_of(case["envelope"])
    assert asdict(Envelope.decode(stored)) == asdict(envelope)
    assert envelope.encode() == stored


@pytest.mark.parametrize("case", vectors("envelope.json")["refused"], ids=lambda case: case["name"])
def test_what_is_no_envelope_is_refused_by_name(case):
    with pytest.raises(EnvelopeError) as refused:
        Envelope.decode(bytes.fromhex(case["hex"]))
    assert isinstance(refused.value, NewerEnvelope) == (case["error"] == "newer")


@pytest.mark.parametrize("case", vectors("put.json")["puts"], ids=lambda case: case["name"])
def test_a_put_sends_the_hash_and_the_envelope_that_all_clients_send(case):
    said = case["message"]
    message = Message(
        said["topic"], bytes.fromhex(said["payload"]), MessageId.parse(said["id"]), group=said["group"],
        headers=tuple(tuple(pair) for pair in said["headers"]), expires_ms=said["expires_ms"],
        max_attempts=said["max_attempts"],
        backoff=said["backoff"] and Backoff(said["backoff"]["kind"], tuple(said["backoff"]["delays_ms"])),
    )
    assert case["hash"] is None or message.content_hash().hex() == case["hash"]
    assert message.envelope(MessageId.parse(said["id"])).hex() == case["envelope"]


def test_names_fall_into_the_same_shards_everywhere():
    for case in vectors("names.json")["crc32"]:
        for shards, shard in case["shards"].items():
            assert shard_of_name(case["name"], int(shards)) == shard, case


def test_ids_have_the_same_forms_everywhere():
    for case in vectors("names.json")["ids"]:
        message_id = MessageId.parse(case["text"])
        assert (message_id.raw.hex(), str(message_id)) == (case["hex"], case["text"])
        if case["shard"] is not None:
            assert message_id.generated and message_id.shard(None, 4096) == case["shard"]


def test_a_generated_id_carries_its_shard():
    for shard in (0, 1, 255, 4095):
        message_id = MessageId.generate(shard, 1763697600123)
        assert message_id.shard(None, 4096) == shard and MessageId.parse(str(message_id)) == message_id


def test_names_that_are_none_are_refused():
    checks = {"id": MessageId.parse, "group": lambda text: printable("group", text), "topic": topic_name,
              "namespace": namespace_name}
    for what, names in vectors("names.json")["refused"].items():
        for name in names:
            with pytest.raises(InvalidMessage):
                checks[what](name)


def test_a_script_is_put_together_as_everywhere(tmp_path):
    case = vectors("assembly.json")
    (tmp_path / "lib").mkdir()
    for name, text in case["files"].items():
        (tmp_path / f"{name}.lua").write_bytes(text.encode())
    script = assemble(case["verb"], tmp_path)
    assert (script.source, script.sha) == (case["source"], case["sha1"])
    assert hashlib.sha1(script.source.encode()).hexdigest() == script.sha
