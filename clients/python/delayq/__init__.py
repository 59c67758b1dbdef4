"""Python client of delayq: messages in Redis, delivered at a due time."""

from .client import AsyncClient, Client
from .connecting import connect, connect_async
from .consumer import AsyncConsumer, Consumer
from .delivery import AsyncDelivery, Delivery, Receipt
from .envelope import Stored
from .errors import Bury, ClientClosed, InvalidArgument, OtherLoop, ScriptError, Unconfirmed
from .group import AsyncGroup, Group, GroupCancel, GroupShift
from .message import Backoff, Message
from .nodes import Node
from .outcome import Incomplete, Outcome
from .policy import Policy
from .protocol import State, Word
from .series import series
from .topic import AsyncTopic, Numbers, Topic
from .windows import between, jitter
from .worker import AsyncWorker, Worker

__all__ = ["AsyncClient", "AsyncConsumer", "AsyncDelivery", "AsyncGroup", "AsyncTopic", "AsyncWorker", "Backoff", "Bury"]
__all__ += ["Client", "ClientClosed", "Consumer", "Delivery", "Group", "GroupCancel", "GroupShift", "Incomplete"]
__all__ += ["InvalidArgument", "Message", "Node", "Numbers", "OtherLoop", "Outcome", "Policy", "Receipt", "ScriptError"]
__all__ += ["State", "Stored", "Topic", "Unconfirmed", "Word", "Worker"]
__all__ += ["between", "connect", "connect_async", "jitter", "series"]
