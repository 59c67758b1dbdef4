"""delayq's client for Python: messages that are delivered at their due time, kept in Redis."""

from .calls import Incomplete, ScriptError
from .client import AsyncClient, Client
from .delivery import Delivery, Receipt
from .message import Backoff, Message
from .names import InvalidMessage
from .outcome import Outcome

__all__ = ["AsyncClient", "Backoff", "Client", "Delivery"]
__all__ += ["Incomplete", "InvalidMessage", "Message", "Outcome", "Receipt", "ScriptError"]
