"""Metadata and assignment of consumers, in a group whose protocol type is `consumer`.

The format is an int16 version, then the message. A version above the known ones is read as the newest known one, and
the rest is ignored, as in Kafka: new fields only ever come at the end.
"""

from typing import TypeVar

from kraft.protocol.message import Message
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft_native.base.errors import MalformedMessageError
from kraft_native.base.wire import WireReader

Buffer = bytes | bytearray | memoryview
_Message = TypeVar("_Message", bound=Message)


def decode_subscription(metadata: Buffer) -> ConsumerProtocolSubscription:
    """Decode a member's metadata for one protocol (assignor). Raises `MalformedMessageError`."""
    return _decode(ConsumerProtocolSubscription, metadata)


def decode_assignment(assignment: Buffer) -> ConsumerProtocolAssignment:
    """Decode what the group's leader assigned to a member. Raises `MalformedMessageError`."""
    return _decode(ConsumerProtocolAssignment, assignment)


def encode(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    payload = message.encode(version)
    return version.to_bytes(2, "big") + payload


def _decode(message_class: type[_Message], data: Buffer) -> _Message:
    view = memoryview(data)
    version = WireReader(view).int16()
    if version < 0:
        raise MalformedMessageError(f"{message_class.__name__} of version {version}")
    return message_class.decode(view[2:], min(version, message_class.VERSIONS[-1]))
