"""The blocking client, over `redis.Redis`."""

from __future__ import annotations

from collections.abc import Sequence

from redis import Redis
from redis.client import NEVER_DECODE

from .core import Answer, Call, Change, Core, Put, R, Receipt, Reply, Reserved, Steps, checked, without_script
from .ids import MessageId
from .message import Message
from .scripts import script


class Client(Core):
    """A deployment of delayq on this Redis. All verbs are safe to repeat; see the README for what a repeat does."""

    def __init__(self, redis: Redis, namespace: str = "dq", shards: int = 16, most_payload_bytes: int = 262144) -> None:
        super().__init__(namespace, shards, most_payload_bytes)
        self.redis = redis

    def put(self, message: Message) -> Put:
        return self.run(self.put_steps([message]))[0]

    def put_many(self, messages: Sequence[Message]) -> list[Put]:
        return self.run(self.put_steps(messages))

    def cancel(self, topic: str, id: str | MessageId, group: str | None = None) -> Answer:
        return self.run(self.cancel_steps(topic, id, group))

    def reschedule(self, topic: str, id: str | MessageId, change: Change, group: str | None = None) -> Answer:
        return self.run(self.reschedule_steps(topic, id, change, group))

    def reserve(
        self, topics: Sequence[str], most: int = 1, lease_ms: int | None = None, shard: int | None = None
    ) -> Reserved:
        return self.run(self.reserve_steps(topics, most, lease_ms, shard))

    def extend(self, receipts: Sequence[Receipt], lease_ms: int | None = None) -> list[Answer]:
        return self.run(self.extend_steps(receipts, lease_ms))

    def ack(self, receipts: Sequence[Receipt]) -> list[Answer]:
        return self.run(self.ack_steps(receipts))

    def release(
        self, receipts: Sequence[Receipt], delay_ms: int | None = None, keep_attempt: bool = False, reason: str = ""
    ) -> list[Answer]:
        return self.run(self.release_steps(receipts, delay_ms, keep_attempt, reason))

    def bury(self, receipts: Sequence[Receipt], reason: str) -> list[Answer]:
        return self.run(self.bury_steps(receipts, reason))

    def run(self, steps: Steps[R]) -> R:
        """Carries the steps of a verb out."""
        try:
            calls = next(steps)
            while True:
                calls = steps.send(self.send(calls))
        except StopIteration as end:
            result: R = end.value
            return result

    def send(self, calls: list[Call]) -> list[Reply]:
        """One round trip; where Redis does not know a script, a second one for the calls that need it."""
        replies = self._pipeline(calls)
        missing = without_script(calls, replies)
        for verb in {calls[i].verb for i in missing}:
            self.redis.script_load(script(verb).source)
        for i, reply in zip(missing, self._pipeline([calls[i] for i in missing]), strict=True):
            replies[i] = reply
        return checked(replies)

    def _pipeline(self, calls: list[Call]) -> list[Reply]:
        pipeline = self.redis.pipeline(transaction=False)
        for call in calls:
            pipeline.execute_command(*self.command(call), **{NEVER_DECODE: []})  # type: ignore[no-untyped-call]
        return pipeline.execute(raise_on_error=False)
