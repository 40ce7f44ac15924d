"""Small things that every part of the core speaks of."""

from typing import Final, NamedTuple
from uuid import UUID

from kraft.protocol.message import ZERO_UUID

NOBODY: Final = -1
"""Where an id of a leader is asked for and none is known."""

UNKNOWN_OFFSET: Final = -1

NEVER_MS: Final = 1 << 62
"""A deadline that does not come."""


class OffsetAndEpoch(NamedTuple):
    """An end offset (exclusive) and the epoch of the record before it. Also the id of a snapshot."""

    offset: int
    epoch: int

    def at_least(self, other: "OffsetAndEpoch") -> bool:
        """Whether a log that ends here is as up to date as one that ends at `other`: by epoch, then by offset."""
        return (self.epoch, self.offset) >= (other.epoch, other.offset)

    def __str__(self) -> str:
        return f"{self.offset}@{self.epoch}"


class ReplicaKey(NamedTuple):
    """A node and the disk it runs on. The zero id means that the disk is not told, as in quorums of kraft.version 0:
    it stands for any."""

    node_id: int
    directory_id: UUID = ZERO_UUID

    def is_same(self, other: "ReplicaKey") -> bool:
        """Whether both may be one replica: the same node, and not two disks that are told and differ."""
        mine, theirs = self.directory_id, other.directory_id
        return self.node_id == other.node_id and (
            mine is theirs or mine == theirs or ZERO_UUID in (mine, theirs))

    def __str__(self) -> str:
        return str(self.node_id) if self.directory_id == ZERO_UUID else f"{self.node_id}:{self.directory_id.hex[-4:]}"


class Endpoint(NamedTuple):
    """Where a node listens: the listener's name, and its address."""

    name: str
    host: str
    port: int


Endpoints = tuple[Endpoint, ...]

START: Final = OffsetAndEpoch(0, 0)
"""The end of a log that has nothing."""

ANYBODY: Final = ReplicaKey(NOBODY)
"""Whoever a request reaches."""
