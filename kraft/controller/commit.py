"""Interface between the controller and the quorum that makes its records durable.

The controller requests appends; commits come back as events, in order.
"""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from kraft.metadata.image import Endpoint
from kraft.structs import immutable


@immutable
class ReplicaProgress:
    """Progress of one replica of the metadata log. Times are -1 where they are unknown."""

    replica_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    endpoints: tuple[Endpoint, ...] = ()


@immutable
class QuorumState:
    """Quorum as this node sees it. `targets`: the voters after the reassignment in progress. `kraft_version`: the level
    of that feature, which is in the quorum's own records."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...] = ()
    targets: tuple[ReplicaProgress, ...] | None = None
    kraft_version: int = 0


class CommitPort(Protocol):
    """Interface of the controller to the log. Only the leader may append; calls return at once.

    The log calls back `became_leader`, `committed` and `resigned` of the controller, never from inside `append`.
    """

    @property
    def leader_epoch(self) -> int:
        """Epoch in which this node leads."""

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""

    def append(self, payloads: Sequence[bytes], now_ms: int) -> int:
        """Append record values as one batch and return its last offset. Either all of them will be committed or none.

        Raises `OperationError` when this node does not lead, or the log accepts no more writes.
        """

    def upgrade_kraft_version(self, level: int) -> int:
        """Append the quorum's own records of a higher kraft.version and return their last offset.

        Raises `RefusedError` while not every voter is known to be ready.
        """

    def describe_quorum(self, now_ms: int) -> QuorumState:
        """Return voters, leader and the progress of all replicas."""
