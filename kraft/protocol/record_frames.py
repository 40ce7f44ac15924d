"""Frames of messages inside records: of the metadata log, of the coordinators' topics, of control batches.

| record | key | value |
|---|---|---|
| metadata | null | uvarint 1 (version of this frame), uvarint type, uvarint version, message (KIP-631) |
| coordinator | int16 type, message of version 0 | int16 version, message; null deletes |
| control, types 0 and 1 | int16 0, int16 type | int16 version, message |
| control, types 2 to 6 | int16 0, int16 type | message, whose first field is its own version |

An unknown type or version raises `UnsupportedVersionError`: a newer node wrote it. Bytes that do not fit, or that
remain, raise `MalformedMessageError`.
"""

from collections.abc import Mapping
from functools import lru_cache

from kraft.protocol.message import Message
from kraft.protocol.record_types import (
    CONTROL_RECORDS,
    GROUP_RECORDS,
    METADATA_RECORDS,
    SHARE_RECORDS,
    TRANSACTION_RECORDS,
    ControlType,
)
from kraft.protocol.registry import message_class
from kraft_native.base.errors import InvalidArgumentError, UnsupportedVersionError
from kraft_native.base.wire import WireReader, WireWriter

Buffer = bytes | bytearray | memoryview

FRAME_VERSION = 1
KEY_VERSION = 0


def encode_record(message: Message, version: int) -> bytes:
    """Return the value of a record of the metadata log."""
    return message.encode(version, _record_frame(message.API_KEY, type(message).__name__, version))


@lru_cache(maxsize=256)
def _record_frame(kind: int, name: str, version: int) -> bytes:
    """Return what precedes a message of that class in a record of the metadata log."""
    if METADATA_RECORDS.get(kind) != name:
        raise InvalidArgumentError(f"{name} is not a record of the metadata log")
    w = WireWriter()
    w.uvarint(FRAME_VERSION)
    w.uvarint(kind)
    w.uvarint(version)
    return w.finish()


def decode_record(value: Buffer) -> tuple[Message, int]:
    """Return the message in the value of a record of the metadata log, and its version."""
    view = memoryview(value)
    r = WireReader(view)
    frame_version, kind, version = r.uvarint(), r.uvarint(), r.uvarint()
    if frame_version != FRAME_VERSION:
        raise UnsupportedVersionError(f"metadata record in a frame of version {frame_version}, not {FRAME_VERSION}")
    if kind not in METADATA_RECORDS:
        raise UnsupportedVersionError(f"metadata record of type {kind}, which is not known")
    return message_class(METADATA_RECORDS[kind]).decode(view[r.position:], version, exact=True), version


class CoordinatorRecords:
    """Codec of the records of one coordinator's topic: `GROUPS`, `TRANSACTIONS` or `SHARE_STATES`."""

    def __init__(self, topic: str, names: Mapping[int, tuple[str, str]]) -> None:
        self.topic = topic
        self._names = names

    def encode_key(self, key: Message) -> bytes:
        if self._names.get(key.API_KEY, ("", ""))[0] != type(key).__name__:
            raise InvalidArgumentError(f"{type(key).__name__} is not a key of {self.topic}")
        payload = key.encode(KEY_VERSION)
        return key.API_KEY.to_bytes(2, "big") + payload

    def encode_value(self, value: Message, version: int) -> bytes:
        if not any(type(value).__name__ == name for _, name in self._names.values()):
            raise InvalidArgumentError(f"{type(value).__name__} is not a value of {self.topic}")
        payload = value.encode(version)
        return version.to_bytes(2, "big") + payload

    def decode_key(self, key: Buffer) -> Message:
        view = memoryview(key)
        kind = WireReader(view).int16()
        if kind not in self._names:
            raise UnsupportedVersionError(f"a key of type {kind} in {self.topic}, which is not known")
        return message_class(self._names[kind][0]).decode(view[2:], KEY_VERSION, exact=True)

    def decode_value(self, key: Message, value: Buffer) -> tuple[Message, int]:
        """Return the value that belongs to `key`, and its version."""
        view = memoryview(value)
        version = WireReader(view).int16()
        return message_class(self._names[key.API_KEY][1]).decode(view[2:], version, exact=True), version


GROUPS = CoordinatorRecords("__consumer_offsets", GROUP_RECORDS)
TRANSACTIONS = CoordinatorRecords("__transaction_state", TRANSACTION_RECORDS)
SHARE_STATES = CoordinatorRecords("__share_group_state", SHARE_RECORDS)


def states_own_version(kind: ControlType) -> bool:
    """Return whether the message's first field is its version, so that the value needs no prefix."""
    return kind not in (ControlType.ABORT, ControlType.COMMIT)


def encode_control(kind: ControlType, message: Message, version: int = 0) -> tuple[bytes, bytes]:
    """Return key and value of a control record. The `version` field of a message that has one is set."""
    if CONTROL_RECORDS[kind] != type(message).__name__:
        raise InvalidArgumentError(f"{type(message).__name__} is not the value of a control record {kind.name}")
    key = KEY_VERSION.to_bytes(2, "big") + kind.to_bytes(2, "big")
    if states_own_version(kind):
        return key, message.replace(version=version).encode(version)
    payload = message.encode(version)
    return key, version.to_bytes(2, "big") + payload


def decode_control(key: Buffer, value: Buffer) -> tuple[ControlType, Message, int]:
    """Return type, message and version of a control record."""
    r = WireReader(key)
    r.int16()
    number = r.int16()
    if number not in CONTROL_RECORDS:
        raise UnsupportedVersionError(f"a control record of type {number}, which is not known")
    kind, view = ControlType(number), memoryview(value)
    version = WireReader(view).int16()
    payload = view if states_own_version(kind) else view[2:]
    return kind, message_class(CONTROL_RECORDS[kind]).decode(payload, version, exact=True), version
