"""The deployment behind a master that Sentinels name: a new master that keeps another deployment is not followed."""

from collections.abc import Sequence

from .protocol import META, key_of

#: Maximum shards to check; a node may have given some shards away.
MOST = 8


class Marks:
    """The shards by which a deployment is recognised, and the deployment seen last."""

    def __init__(self, namespace: str, shards: Sequence[int]) -> None:
        #: The commands that read the marks of a Redis.
        self.questions = [("HMGET", key_of(namespace, shard, META), "identity") for shard in shards[:MOST]]
        self._identity = self._master = ""

    def fault(self, master: str, answers: Sequence[Sequence[bytes | None]]) -> str:
        """Notes the answers of a master. Returns why it is not to be followed, "" if it is."""
        identity = next((found.decode() for (found,) in answers if found), "")
        if not identity:  # an empty Redis is refused by its shards
            return ""
        known = self._identity
        # A deployment that was created again is at the same master.
        if known not in ("", identity) and self._master != master:
            return (
                f"it keeps deployment {identity[:8]} instead of {known[:8]}: correct the masters that the sentinels watch, "
                "or restart this process if the deployment was created again"
            )
        self._identity, self._master = identity, master
        return ""
