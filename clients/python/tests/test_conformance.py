"""The conformance suite, by the blocking client and by the asynchronous one."""

import asyncio
import functools
import inspect
import re
from datetime import timedelta

import pytest
from conftest import vectors
from redis.client import NEVER_DECODE

from delayq import (
    AsyncClient,
    Backoff,
    Client,
    Incomplete,
    InvalidArgument,
    Message,
    ScriptError,
    Unconfirmed,
    connect,
    connect_async,
)
from delayq.scripts import script

SCENARIOS = vectors("conformance.json")["scenarios"]
#: Fields of a step that may name variables.
ARGUMENTS = {"topic", "topics", "id", "group", "at_ms", "after_ms", "by_ms", "expected_ms", "most", "lease_ms", "wait_ms",
             "verb", "shard", "args", "receipts", "delay_ms", "keep_attempt", "reason"}


async def settled(value):
    """Returns the result of a call of either client."""
    return await value if inspect.isawaitable(value) else value


class Run:
    """One scenario: a client, and the variables bound so far."""

    def __init__(self, client, namespace):
        self.client, self.namespace, self.bound = client, namespace, {}
        self.deliveries = {}

    def known(self, value):
        """Fills the variables of a value in."""
        if isinstance(value, list):
            return [self.known(item) for item in value]
        if isinstance(value, dict):
            return {key: self.known(item) for key, item in value.items()}
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        name, shift = re.fullmatch(r"\$(\w+?)(\+\d+)?", value).groups()
        return self.bound[name] + int(shift) if shift else self.bound[name]

    def compare(self, expected, got, where):
        """Compares a result with the expected fields; a variable takes the first value."""
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
        text = said.pop("payload", None)
        payload = bytes.fromhex(said.pop("payload_hex")) if text is None else text.encode() * said.pop("payload_times", 1)
        if "headers" in said:
            said["headers"] = tuple(tuple(pair) for pair in said["headers"])
        if "backoff" in said:
            said["backoff"] = Backoff(said["backoff"]["kind"], tuple(said["backoff"]["delays_ms"]))
        for wanted, given in (("at", "at_ms"), ("expires", "expires_ms"), ("first_tried", "first_tried_ms"),
                              ("expected", "expected_ms")):
            if given in said:
                said[wanted] = said.pop(given)
        for wanted in ("after", "debounce", "throttle", "swallow", "expire_after"):
            if f"{wanted}_ms" in said:
                said[wanted] = span(said.pop(f"{wanted}_ms"))
        return Message(payload=payload, past_ok=True, **said)

    async def step(self, step):
        op, own = step["op"], {key: self.known(value) for key, value in step.items() if key in ARGUMENTS}
        if op == "put":
            return vars(await settled(self.client.put(self.message(step["message"]))))
        if op == "put_many":
            said = step.get("messages") or [numbered(step["message"], n) for n in range(step["times"])]
            puts = await settled(self.client.put_many([self.message(one) for one in said]))
            return [vars(put) for put in puts]
        if op == "cancel":
            return vars(await settled(self.client.cancel(own["topic"], own["id"], own.get("group"))))
        if op == "reschedule":
            change = {key: own[f"{key}_ms"] for key in ("at", "expected") if f"{key}_ms" in own}
            change |= spans(own, "after", "by")
            reschedule = self.client.reschedule(own["topic"], own["id"], own.get("group"), past_ok=True, **change)
            return vars(await settled(reschedule))
        if op == "reserve":
            options = spans(own, "lease", "wait")
            reserve = self.client.reserve
            if isinstance(self.client, Client):  # it waits in a thread of its own
                reserve = functools.partial(asyncio.to_thread, reserve)
            begun = asyncio.create_task(reserve(own["topics"], own["most"], **options))
            for i, other in enumerate(step.get("meanwhile", [])):
                await self.carry_out(other, f"meanwhile, step {i + 1} ({other['op']})")
            found = await begun
            self.deliveries |= {delivery.receipt: delivery for delivery in found}
            return [shown_delivery(delivery) for delivery in found]
        if op == "drain":
            receipts = []
            while found := await settled(self.client.reserve(own["topics"], 500)):
                receipts += [delivery.receipt for delivery in found]
            assert {outcome.word for outcome in await settled(self.client.ack(receipts))} == {"delivered"}
            return len(receipts)
        if op == "listening":
            channel = f"{{{self.namespace}:{own['shard']}}}:ready"
            while not (await self.redis("PUBSUB", "SHARDNUMSUB", channel, at=channel))[1]:
                await asyncio.sleep(0)
            return None
        if op == "pump":
            while not any((await self.script("pump", own["shard"], ["0", "500"]))[3:5]):
                pass
            return None
        if op == "script":
            args = [bytes.fromhex(arg["hex"]) if isinstance(arg, dict) else arg for arg in own["args"]]
            return await self.script(own["verb"], own["shard"], args, step.get("layout", 1))
        if op in ("cancel_group", "shift_group"):
            group = self.client.group(own["group"], topic=own.get("topic"))
            return await settled(group.cancel() if op == "cancel_group" else group.shift(span(own["by_ms"])))
        if op == "redis":
            return await self.redis(*(arg.replace("NAMESPACE", self.namespace) for arg in own["args"]))
        if "next" in step:
            (receipt,) = own["receipts"]
            return [vars(await settled(self.deliveries[receipt].ack(self.message(step["next"]))))]
        options = {key: own[key] for key in ("keep_attempt", "reason") if key in own} | spans(own, "lease", "delay")
        verb = getattr(self.client, op)
        return [vars(outcome) for outcome in await settled(verb(own["receipts"], **options))]

    async def redis(self, *args, at=None):
        """Any command, its answer in bytes. In a cluster, one without a key goes to the server that has this one, or to
        all masters."""
        connection, options = self.client.redis, {NEVER_DECODE: []}
        if at and hasattr(connection, "get_node_from_key"):
            options["target_nodes"] = connection.get_node_from_key(at)
        elif args[0] == "SCRIPT" and hasattr(connection, "get_primaries"):
            options["target_nodes"] = connection.get_primaries()
        return await settled(connection.execute_command(*args, **options))

    async def script(self, verb, shard, args, layout=1):
        """The published script itself, for verbs that no client has."""
        base = f"{{{self.namespace}:{shard}}}:"
        return await self.redis("EVAL", script(verb)[0], 2, f"{base}meta", f"{base}never", layout, *args)

    async def carry_out(self, step, where):
        if step.get("invalid"):
            with pytest.raises(InvalidArgument):
                if (await self.step(step))["word"] == "refused":
                    raise InvalidArgument
        elif "unconfirmed" in step:
            with pytest.raises(Incomplete if "expect" in step else Unconfirmed) as fault:
                await self.step(step)
            cause = fault.value.__cause__ if "expect" in step else fault.value
            assert isinstance(cause, Unconfirmed) and step["unconfirmed"] in str(cause), where
            if "expect" in step:
                self.compare(step["expect"], [vars(put) for put in fault.value.outcomes], where)
        elif "error" in step:
            with pytest.raises(Incomplete if "expect" in step else ScriptError) as fault:
                await self.step(step)
            cause = fault.value.__cause__ if "expect" in step else fault.value
            assert isinstance(cause, ScriptError) and cause.code == step["error"], where
            if "expect" in step:
                self.compare(step["expect"], [vars(put) for put in fault.value.outcomes], where)
        elif step["op"] == "script":
            self.compare_reply(step.get("expect", []), await self.step(step), where)
        else:
            got = await self.step(step)
            for n, one in enumerate(got if "expect_each" in step else []):
                self.compare(numbered(step["expect_each"], n), one, f"{where}, {n}")
            if "expect" in step:
                self.compare(step["expect"], got, where)

    @staticmethod
    def compare_reply(expected, reply, where):
        """Compares the beginning of a script's reply with the expected texts; a star is any text."""
        reply = [item.decode(errors="replace") if isinstance(item, bytes) else str(item)
                 for item in (reply if isinstance(reply, list) else [reply])]
        assert len(reply) >= len(expected), f"{where}: {reply}"
        for item, got in zip(expected, reply, strict=False):
            assert item in ("*", got), f"{where}: {reply}"

    async def scenario(self, scenario):
        if scenario.get("init", True):
            shards = scenario.get("shards", 1)
            for shard in range(shards):
                await self.script("init", shard, [shard, shards])
        for i, step in enumerate(scenario["steps"]):
            await self.carry_out(step, f"step {i + 1} ({step['op']})")


def span(ms):
    return timedelta(milliseconds=ms)


def spans(own, *names):
    """Returns the spans of a step by the client's names."""
    return {name: span(own[f"{name}_ms"]) for name in names if f"{name}_ms" in own}


def numbered(said, n):
    """Returns a numbered message, or the expected result."""
    return {key: value.replace("#", str(n)) if isinstance(value, str) else value for key, value in said.items()}


def shown_delivery(delivery):
    return {
        **vars(delivery),
        "payload": delivery.payload.decode(errors="replace"), "payload_hex": delivery.payload.hex(),
        "headers": [list(pair) for pair in delivery.headers],
    }


@pytest.fixture
def url(request, place):
    """Of one Redis, of a group with Sentinels, or of a cluster."""
    return f"unix://{request.getfixturevalue('redis_socket')}" if place == "one" else request.getfixturevalue(place).url


everywhere = pytest.mark.parametrize("place", ["one", "sentinel", "cluster"])
each_scenario = pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=lambda number: SCENARIOS[number]["name"])


@everywhere
@each_scenario
def test_blocking(number, url):
    with connect(url) as connection, Client(connection, f"b{number}") as client:
        asyncio.run(Run(client, f"b{number}").scenario(SCENARIOS[number]))


@everywhere
@each_scenario
def test_asynchronous(number, url):
    async def run():
        async with connect_async(url, decode_responses=True) as connection, AsyncClient(connection, f"a{number}") as client:
            await Run(client, f"a{number}").scenario(SCENARIOS[number])

    asyncio.run(run())
