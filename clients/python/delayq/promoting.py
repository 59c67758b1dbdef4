"""Promotes the messages that are due first over all shards, and no more than the caller has room for."""

from collections import Counter

from .inspecting import Inspecting
from .names import topic_arg
from .protocol import State
from .steps import PROMOTED, in_steps

#: Shard, id and group of a message.
Promoted = tuple[int, str, str | None]


async def promote_earliest(client: Inspecting, topic: str, until_ms: int, room: int) -> list[Promoted]:
    """Promotes delayed messages of a topic due until a time, until `room` messages are ready: ready messages that are not handed
    out, as of a paused topic, leave no room for others. Returns the promoted in the order of due times; a concurrent change may
    promote others in the same shards instead, and never more."""
    seconds, micros = await client._time()
    from_ms = seconds * 1000 + micros // 1000 + 1  # what is due now belongs to the timer
    order: list[Promoted] = []
    if from_ms > until_ms:
        return order
    counts = await client._call_each_shard("count", [topic_arg(topic), 0])
    room -= sum(ready for _, _, _, ready, *_ in (reply for reply in counts if len(reply) > 3))  # none: an unknown topic
    if room <= 0:
        return order
    async for found in client._list(topic, "delayed", from_ms, until_ms):
        if found.state is State.DELAYED:
            order.append((found.shard, found.id, found.group))
        if len(order) == room:
            break
    for shard, share in Counter(shard for shard, *_ in order).items():
        await in_steps(client._call, "promote", shard, [topic_arg(topic), ""], (from_ms, until_ms), PROMOTED, share)
    return order
