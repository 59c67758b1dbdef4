"""What can go wrong, and whether it passes."""

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

#: What Redis answers before it runs a script, and while it is not well or a slot moves. CLUSTERDOWN, MASTERDOWN and MOVED
#: derive from these.
_PASSING = AskError, ClusterError, NoScriptError, OutOfMemoryError, ReadOnlyError, TryAgainError
_PASSING_CODES = "BUSY", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "WRONGPASS"


class InvalidArgument(ValueError):
    """An argument that breaks a limit or is of the wrong type. Nothing was sent."""


class ClientClosed(RuntimeError):
    """The client was closed, and is used again. Nothing was sent."""


class OtherLoop(RuntimeError):
    """An AsyncClient is used in another event loop than before. Nothing was sent."""


class ScriptError(Exception):
    """A script refused the whole call and did nothing. `code` is DQUNINITIALISED, DQLAYOUT, DQDURABILITY, DQTYPE or
    DQARG."""

    @property
    def code(self) -> str:
        return str(self).partition(" ")[0]


class Unconfirmed(Exception):
    """Fewer replicas than the topic asks for, or not the disk, confirmed a write in time: its fate is unknown. Repeat it in
    the same way; a repeat that finds everything done is confirmed, too."""

    def __init__(self, durability: str, why: str) -> None:
        super().__init__(f"{durability} is asked for, and not confirmed: {why}")
        #: What was waited for, such as "replica:1".
        self.durability = durability


class Bury(Exception):
    """Raised by a worker's handler: the message can never be delivered, and goes to the dead letters."""


def is_outage(error: BaseException) -> bool:
    """Whether Redis could not be used, so that the same call may succeed later."""
    if isinstance(error, ResponseError):
        return isinstance(error, _PASSING) or str(error).startswith(_PASSING_CODES)
    return isinstance(error, (LostConnection, DeadlinePassed, ClusterError, OSError, Unconfirmed))
