"""Errors, and whether an error is temporary."""

from redis.exceptions import (
    AskError,
    ClusterError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import TimeoutError as DeadlinePassed

from .protocol import PASSING

#: Temporary refusals whose errors redis-py strips of the code. CLUSTERDOWN, MASTERDOWN and MOVED are subclasses.
_PASSING = AskError, ClusterError, NoScriptError, OutOfMemoryError, ReadOnlyError, TryAgainError


class InvalidArgument(ValueError):
    """An argument that breaks a limit or is of the wrong type. Nothing was sent."""


class ClientClosed(RuntimeError):
    """The client was used after its close. Nothing was sent."""


class OtherLoop(RuntimeError):
    """An AsyncClient was used in a second event loop. Nothing was sent."""


class ScriptError(Exception):
    """A script failed as a whole. It changed nothing if `code` is DQUNINITIALISED, DQLAYOUT, DQDURABILITY or DQARG. WRONGTYPE: a
    key has another type, and the call may be carried out in part; a repeat is safe."""

    @property
    def code(self) -> str:
        return str(self).partition(" ")[0]


class Unconfirmed(Exception):
    """Too few replicas, or no disk, confirmed a write in time: the fate of the write is unknown. Repeat the call unchanged; a
    repeat of a finished write is confirmed, too."""

    def __init__(self, durability: str, why: str) -> None:
        super().__init__(f"not confirmed with the topic's durability {durability}: {why}")
        #: The missing confirmation, such as "replica:1".
        self.durability = durability


class Bury(Exception):
    """Raised by a handler for an undeliverable message, which becomes a dead letter."""


def is_outage(error: BaseException) -> bool:
    """Reports whether Redis was unavailable, so that a retry may succeed."""
    if isinstance(error, ResponseError):
        return isinstance(error, _PASSING) or str(error).partition(" ")[0] in PASSING
    return isinstance(error, (LostConnection, DeadlinePassed, ClusterError, OSError, Unconfirmed))
