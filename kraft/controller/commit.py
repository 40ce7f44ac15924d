"""The door between the controller and the quorum that makes its records durable. The controller asks to append; what is
committed comes back as an event, in order.
"""

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from kraft.immutable import immutable
from kraft.metadata.image import Endpoint


@immutable
class ReplicaProgress:
    """How far one replica of the metadata log is. Times are -1 where nothing is known."""

    replica_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int
    endpoints: tuple[Endpoint, ...] = ()


@immutable
class QuorumState:
    """The quorum as this node sees it. `targets`: who is to vote when the reassignment that is under way is done.
    `kraft_version`: the level of that feature, which stands in the quorum's own records."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...] = ()
    targets: tuple[ReplicaProgress, ...] | None = None
    kraft_version: int = 0


class CommitPort(Protocol):
    """What the controller needs of the log. Only the leader may append; calls return at once.

    The log calls back through `CommitListener`, never from inside `append`.
    """

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this node leads."""

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""

    def append(self, payloads: Sequence[bytes], now_ms: int) -> int:
        """Appends record values as one batch, and gives its last offset. Either all of them will be committed or none.

        Raises `OperationError` when this node does not lead, or the log takes no writes any more.
        """

    def upgrade_kraft_version(self, level: int) -> int:
        """Appends the quorum's own records of a higher kraft.version, and gives their last offset.

        Raises `RefusedError` while not every voter is known to be ready.
        """

    def describe_quorum(self, now_ms: int) -> QuorumState:
        """Who votes, who leads, and how far everybody is."""


class CommitListener(Protocol):
    """What the log tells the controller."""

    def became_leader(self, leader_epoch: int, now_ms: int) -> None:
        """This node leads, and everything before its epoch is committed and replayed."""

    def committed(self, end_offset: int, now_ms: int) -> None:
        """Everything below `end_offset` is committed; never goes back."""

    def resigned(self, now_ms: int) -> None:
        """This node leads no more: what was appended and is not committed may be lost."""
