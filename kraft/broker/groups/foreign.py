"""Groups of another protocol in the partition: streams groups.

Their records are kept unchanged, by key, so that nothing of them is lost. Such groups can be listed and their offsets
can be read. One without members can be deleted, record by record.
"""

from __future__ import annotations

from typing import NamedTuple

from kraft_native.base.errors import ProtocolError


class ForeignKind(NamedTuple):
    """Group type of a record key type. `is_group`: the record that a group begins and ends with."""

    group_type: str
    is_group: bool = False
    is_member: bool = False


# Record key types (record-types.json). Type 18 was never released with a value that still exists.
FOREIGN_KINDS = {
    17: ForeignKind("streams", is_group=True),
    18: ForeignKind("streams"),
    19: ForeignKind("streams", is_member=True),
    20: ForeignKind("streams"),
    21: ForeignKind("streams"),
    22: ForeignKind("streams"),
    23: ForeignKind("streams"),
}


def foreign_group_id(key: bytes) -> str:
    """Return the group id, the first field of every such key. Raises ProtocolError when the key is truncated."""
    length = int.from_bytes(key[2:4], "big", signed=True)
    if len(key) < 4 or not 0 <= length <= len(key) - 4:
        raise ProtocolError(f"group record key of type {int.from_bytes(key[:2], 'big')}: {len(key)} bytes are too few")
    return key[4:4 + length].decode("utf-8")


class ForeignGroup:
    """One such group: its records by key, oldest first."""

    __slots__ = ("group_id", "group_type", "records")

    def __init__(self, group_id: str, group_type: str) -> None:
        self.group_id = group_id
        self.group_type = group_type
        self.records: dict[bytes, bytes] = {}

    @property
    def is_empty(self) -> bool:
        """True without members."""
        return not any(FOREIGN_KINDS[key_type(key)].is_member for key in self.records)

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Apply one record."""
        if value is None:
            self.records.pop(key, None)
        else:
            self.records[key] = value

    def deletion_order(self) -> list[bytes]:
        """Return the keys in the order in which Kafka accepts their tombstones: assignments, members, the group itself
        last."""
        return sorted(self.records, key=lambda key: (FOREIGN_KINDS[key_type(key)].is_group, -key_type(key), key))


def key_type(key: bytes) -> int:
    """Return the type of a record key, its first two bytes."""
    return int.from_bytes(key[:2], "big", signed=True)
