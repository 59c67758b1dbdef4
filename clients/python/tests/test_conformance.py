"""The conformance suite, by the blocking client and by the asynchronous one."""

import asyncio
import inspect
import re

import pytest
import redis
import redis.asyncio
from conftest import vectors

from delayq import AsyncClient, Backoff, Change, Client, InvalidMessage, Message, MessageId, ScriptError
from delayq.core import Call

SCENARIOS = vectors("conformance.json")["scenarios"]


async def settled(value):
    """What a call of either client gives."""
    return await value if inspect.isawaitable(value) else value


class Run:
    """One scenario: a client, and what its steps have bound so far."""

    def __init__(self, client, namespace):
        self.client, self.namespace, self.bound = client, namespace, {}

    def known(self, value):
        """A value of a step with its variables filled in."""
        if isinstance(value, list):
            return [self.known(item) for item in value]
        if isinstance(value, dict):
            return {key: self.known(item) for key, item in value.items()}
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        name, shift = re.fullmatch(r"\$(\w+?)(\+\d+)?", value).groups()
        return self.bound[name] + int(shift) if shift else self.bound[name]

    def compare(self, expected, got, where):
        """What is expected must be there; a variable takes its first value."""
        if isinstance(expected, str) and re.fullmatch(r"\$\w+", expected):
            assert self.bound.setdefault(expected[1:], got) == got, where
        elif isinstance(expected, dict):
            for key, item in expected.items():
                self.compare(item, got[key], f"{where}: {key}")
        elif isinstance(expected, list):
            assert len(expected) == len(got), f"{where}: {got}"
            for i, item in enumerate(expected):
                self.compare(item, got[i], f"{where}[{i}]")
        else:
            assert self.known(expected) == got, where

    def message(self, said):
        said = self.known(dict(said))
        payload = said.pop("payload", None)
        payload = bytes.fromhex(said.pop("payload_hex")) if payload is None else payload
        if "id" in said:
            said["id"] = MessageId.parse(said["id"])
        if "headers" in said:
            said["headers"] = tuple(tuple(pair) for pair in said["headers"])
        if "backoff" in said:
            said["backoff"] = Backoff(said["backoff"]["kind"], tuple(said["backoff"]["delays_ms"]))
        return Message(payload=payload, **said)

    async def step(self, step):
        op = step["op"]
        if op == "put":
            return shown_put(await settled(self.client.put(self.message(step["message"]))))
        if op == "put_many":
            messages = [self.message(said) for said in step["messages"]]
            return [shown_put(put) for put in await settled(self.client.put_many(messages))]
        if op == "cancel":
            message_id = MessageId.parse(self.known(step["id"]))
            return vars(await settled(self.client.cancel(step["topic"], message_id, step.get("group"))))
        if op == "reschedule":
            message_id, change = MessageId.parse(self.known(step["id"])), Change(**self.known(step["change"]))
            return vars(await settled(self.client.reschedule(step["topic"], message_id, change, step.get("group"))))
        if op == "reserve":
            asked = self.client.reserve(step["topics"], step["most"], step.get("lease_ms"), step.get("shard"))
            reserved = await settled(asked)
            if "waits" in step:
                assert (reserved.wait_ms is not None) == step["waits"], reserved
            return [shown_delivery(delivery) for delivery in reserved.deliveries]
        if op == "script":
            call = Call(step["verb"], self.known(step["shard"]), step["args"])
            [reply] = await settled(self.client.send([call]))
            return reply
        if op == "redis":
            args = [arg.replace("NAMESPACE", self.namespace) for arg in step["args"]]
            return await settled(self.client.redis.execute_command(*args))
        options = {key: step[key] for key in ("lease_ms", "delay_ms", "keep_attempt", "reason") if key in step}
        verb = getattr(self.client, op)
        return [vars(answer) for answer in await settled(verb(self.known(step["receipts"]), **options))]

    async def carry_out(self, step, where):
        if step.get("invalid"):
            with pytest.raises(InvalidMessage):
                await self.step(step)
        elif "error" in step:
            with pytest.raises(ScriptError) as fault:
                await self.step(step)
            assert fault.value.code == step["error"], where
        elif step["op"] == "script":
            self.compare_reply(step["expect"], await self.step(step), where)
        else:
            got = await self.step(step)
            if "expect" in step:
                self.compare(step["expect"], got, where)

    @staticmethod
    def compare_reply(expected, reply, where):
        """A script's reply begins with what is expected, where that is not a star."""
        reply = [item.decode() if isinstance(item, bytes) else str(item)
                 for item in (reply if isinstance(reply, list) else [reply])]
        assert len(reply) >= len(expected), f"{where}: {reply}"
        for item, got in zip(expected, reply, strict=False):
            assert item in ("*", got), f"{where}: {reply}"

    async def scenario(self, scenario):
        if scenario.get("init", True):
            shards = self.client.shards
            await settled(self.client.send([Call("init", shard, [shard, shards]) for shard in range(shards)]))
        for i, step in enumerate(scenario["steps"]):
            await self.carry_out(step, f"step {i + 1} ({step['op']})")


def shown_put(put):
    return {**vars(put.answer), "id": str(put.id), "shard": put.shard}


def shown_delivery(delivery):
    backoff = delivery.envelope.backoff
    return {
        **vars(delivery.envelope), **vars(delivery), "id": str(delivery.id),
        "payload": delivery.payload.decode(errors="replace"), "payload_hex": delivery.payload.hex(),
        "headers": [list(pair) for pair in delivery.envelope.headers],
        "backoff": backoff and {"kind": backoff.kind, "delays_ms": list(backoff.delays_ms)},
    }


@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=lambda number: SCENARIOS[number]["name"])
def test_blocking(number, redis_socket):
    scenario, namespace = SCENARIOS[number], f"b{number}"
    with redis.Redis(unix_socket_path=redis_socket) as connection:
        asyncio.run(Run(Client(connection, namespace, scenario.get("shards", 1)), namespace).scenario(scenario))


@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=lambda number: SCENARIOS[number]["name"])
def test_asynchronous(number, redis_socket):
    scenario, namespace = SCENARIOS[number], f"a{number}"

    async def run():
        async with redis.asyncio.Redis(unix_socket_path=redis_socket, decode_responses=True) as connection:
            await Run(AsyncClient(connection, namespace, scenario.get("shards", 1)), namespace).scenario(scenario)

    asyncio.run(run())
