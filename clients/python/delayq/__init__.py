"""delayq's client for Python: messages that are delivered at their due time, kept in Redis."""

from .asynchronous import AsyncClient
from .blocking import Client
from .core import Answer, Change, Delivery, Put, Receipt, Reserved, ScriptError
from .envelope import Backoff, Envelope, EnvelopeError, NewerEnvelope
from .ids import InvalidMessage, MessageId
from .message import Message

__all__ = [
    "Answer", "AsyncClient", "Backoff", "Change", "Client", "Delivery", "Envelope", "EnvelopeError",
    "InvalidMessage", "Message", "MessageId", "NewerEnvelope", "Put", "Receipt", "Reserved", "ScriptError",
]
