"""Basic types that every part of the core uses."""

from typing import Final, NamedTuple
from uuid import UUID

from kraft.protocol.message import ZERO_UUID

NOBODY: Final = -1
"""Placeholder for the id of an unknown leader."""

UNKNOWN_OFFSET: Final = -1


class OffsetAndEpoch(NamedTuple):
    """End offset (exclusive) and the epoch of the record before it. Also the id of a snapshot."""

    offset: int
    epoch: int

    def at_least(self, other: "OffsetAndEpoch") -> bool:
        """Return whether a log that ends here is as up to date as one that ends at `other`: by epoch, then by
        offset."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


class ReplicaKey(NamedTuple):
    """Node and the disk it runs on. The zero id means that the disk is not known, as in quorums of kraft.version 0: it
    stands for any."""

    node_id: int
    directory_id: UUID = ZERO_UUID

    def is_same(self, other: "ReplicaKey") -> bool:
        """Return whether both may be one replica: the same node, and not two known disks that differ."""
        mine, theirs = self.directory_id, other.directory_id
        return self.node_id == other.node_id and (
            mine is theirs or mine == theirs or ZERO_UUID in (mine, theirs))

    def __str__(self) -> str:
        return str(self.node_id) if self.directory_id == ZERO_UUID else f"{self.node_id}:{self.directory_id.hex[-4:]}"


class Endpoint(NamedTuple):
    """Listener of a node: its name and its address."""

    name: str
    host: str
    port: int


Endpoints = tuple[Endpoint, ...]

START: Final = OffsetAndEpoch(0, 0)
"""End of an empty log."""

ANYBODY: Final = ReplicaKey(NOBODY)
"""Any receiver of a request."""
