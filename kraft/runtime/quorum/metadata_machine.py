"""The metadata machine (`kraft.controller.machine`) on this node's log, snapshots and core."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Final
from uuid import UUID

from kraft.config.node_config import PLAINTEXT
from kraft.controller.commit import QuorumState, ReplicaProgress
from kraft.controller.decision import ConfigRules, ControllerSettings, RefusedError
from kraft.controller.machine import CommittedRecord, MetadataMachine
from kraft.metadata.control_records import QuorumRecords
from kraft.metadata.image import Endpoint, MetadataImage
from kraft.metadata.snapshot import encode_snapshot, image_records
from kraft.metadata.versions import KRAFT_VERSION
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.record_frames import decode_record
from kraft.raft.errors import UpgradeRefusedError
from kraft.raft.raft import Raft, ReplicaView
from kraft.raft.ready import Leadership
from kraft.raft.records import voters_record
from kraft.raft.transitions import Role
from kraft.raft.types import OffsetAndEpoch
from kraft.raft.voters import Assignment
from kraft.runtime.quorum.raft_driver import RaftDriver
from kraft.runtime.quorum.raft_log import Proposal, RaftLog
from kraft.runtime.quorum.raft_snapshots import RaftSnapshots
from kraft.runtime.storage.snapshot_files import SnapshotId
from kraft_native.batch.records import records

log = logging.getLogger(__name__)

LATENCIES_KEPT: Final = 128
VOTE_KINDS: Final = ("vote", "pre-vote")
"""Kinds of vote requests, by `VoteAnswered.pre_vote`."""


class QuorumMetadata(MetadataMachine):
    """The machine on this node's log and snapshots. Loop thread only. `driver` is set once, before anything is
    committed."""

    driver: RaftDriver

    def __init__(self, settings: ControllerSettings, rules: ConfigRules, raft_log: RaftLog, snapshots: RaftSnapshots,
                 new_id: Callable[[], UUID], clock: Callable[[], int]) -> None:
        self._log = raft_log
        self._snapshots = snapshots
        self._uncommitted: deque[tuple[int, int]] = deque()     # end offset, time of the append
        self.appended_records = 0
        self.commit_latencies_ms: deque[int] = deque(maxlen=LATENCIES_KEPT)
        """Latencies of the last committed appends of this leadership, oldest first; of no past one."""
        self.vote_answers: Counter[str] = Counter()
        """Requests for votes and for pre-votes that this replica has answered, by the event's name (KIP-996)."""
        self.snapshot_ms = clock()
        """Begin of the last snapshot that is written; the start, when none was yet."""
        self.snapshot_end = 0
        """End of the last snapshot, which may still be in writing."""
        self.unsnapshot_bytes = 0
        """Approximate bytes of log behind the last snapshot: replayed and appended."""
        self.on_assignment: Callable[[Assignment], None] = lambda _assignment: None
        """Called when other voters are committed; an error that it raises stops the node."""
        self._assignment: Assignment | None = None
        super().__init__(settings, rules, new_id, clock, self._newest_snapshot())
        self.on_notice = log.warning

    def _newest_snapshot(self) -> MetadataImage | None:
        latest = self._snapshots.latest()
        image = None
        if latest is not None and latest.offset > 0:
            image = self._snapshots.content(latest).image(latest.offset, latest.epoch)
        self.snapshot_end = image.offset + 1 if image else 0
        return image

    def _snapshot_steps(self) -> Generator[None, None, MetadataImage | None]:
        latest = self._snapshots.latest()
        if latest is None or latest.offset <= 0:
            return None
        content = self._snapshots.content(latest)
        image = yield from content.image_steps(latest.offset, latest.epoch)
        yield from content.free_steps()
        return image

    @property
    def raft(self) -> Raft:
        return self.driver.raft

    # --- StateMachine

    def installed(self, snapshot: OffsetAndEpoch) -> None:
        """Begin again from a snapshot that was fetched; see `load`."""
        log.info("metadata snapshot %s was fetched from the leader", snapshot)
        self._note_voters(snapshot.offset)
        self.unsnapshot_bytes = 0
        self.snapshot_end = snapshot.offset
        self.load(self._snapshot_steps())

    def committed(self, end_offset: int) -> None:
        while self._uncommitted and self._uncommitted[0][0] <= end_offset:
            self.commit_latencies_ms.append(self._clock() - self._uncommitted.popleft()[1])
        if self.raft.replica.history.latest is not self._assignment:
            self._note_voters(end_offset)
        super().committed(end_offset)

    def _note_voters(self, end_offset: int) -> None:
        found = self.raft.replica.history.before(end_offset)
        if found is not self._assignment:
            self._assignment = found
            self.on_assignment(found)

    def leadership(self, leadership: Leadership) -> None:
        log.info("metadata quorum: this node is %s in epoch %d, the leader is %s", leadership.role, leadership.epoch,
                 "not known" if leadership.leader_id < 0 else leadership.leader_id)
        self._uncommitted.clear()
        self.commit_latencies_ms.clear()
        self.led(leadership.epoch, leadership.epoch_start, leads=leadership.role is Role.LEADER)

    def read(self, offset: int, end_offset: int) -> Iterator[CommittedRecord]:
        for batch in self._log.batches(offset, end_offset):
            self.unsnapshot_bytes += batch.size_in_bytes
            if not batch.is_control:
                for record in records(batch):
                    if record.offset >= offset:
                        message, _ = decode_record(record.value or b"")
                        yield CommittedRecord(record.offset, batch.leader_epoch, record.timestamp_ms, message,
                                              record.offset == batch.last_offset)
            elif batch.last_offset >= offset:
                yield CommittedRecord(batch.last_offset, batch.leader_epoch, batch.max_timestamp_ms, None,
                                      ends_batch=True)

    # --- CommitPort

    @property
    def end_offset(self) -> int:
        return self._log.log.log_end_offset

    @property
    def end_epoch(self) -> int:
        """Epoch of the last record."""
        return self._log.end.epoch

    @property
    def state_name(self) -> str:
        """State as in Kafka's metric `current-state`."""
        return self.raft.state_name

    def append(self, payloads: Sequence[bytes], now_ms: int) -> int:
        """See `CommitPort`."""
        end_offset = self.driver.propose(Proposal(payloads, now_ms), self.leader_epoch)
        self.appended_records += len(payloads)
        self.unsnapshot_bytes += sum(map(len, payloads))
        self._uncommitted.append((end_offset, now_ms))
        return end_offset - 1

    def upgrade_kraft_version(self, level: int) -> int:
        """See `CommitPort`."""
        try:
            return self.driver.upgrade(level, self.leader_epoch) - 1
        except UpgradeRefusedError as error:
            raise RefusedError(ErrorCode.INVALID_UPDATE_VERSION, str(error)) from error

    def describe_quorum(self, now_ms: int) -> QuorumState:  # noqa: ARG002 - the core has its own clock
        view = self.raft.describe()
        return QuorumState(view.leader_id, view.epoch, view.high_watermark,
                           tuple(map(_progress, view.voters)), tuple(map(_progress, view.observers)),
                           None if view.targets is None else tuple(map(_progress, view.targets)),
                           self.raft.replica.history.latest.kraft_version)

    @property
    def finalized_features(self) -> dict[str, int]:
        """Feature levels of the cluster as clients receive them, with kraft.version."""
        return {**self.image.features, KRAFT_VERSION: self.raft.replica.history.latest.kraft_version}

    # --- snapshots

    def begin_snapshot(self, now_ms: int) -> tuple[SnapshotId, Iterator[bytes]] | None:
        """Begin a snapshot of the committed metadata. Returns its id and the content of its file, or None when nothing
        is new.

        The log continues meanwhile. One other thread may consume the batches, which are encoded on demand. Call
        `end_snapshot` when they are written.
        """
        image = self.image
        if image.offset + 1 <= self.snapshot_end:
            return None
        snapshot = SnapshotId(*self.raft.snapshot_id(image.offset + 1))
        assignment = self.raft.assignment_at(snapshot.end_offset)
        quorum = QuorumRecords(kraft_version=assignment.kraft_version)
        if assignment.kraft_version:
            quorum.voters = voters_record(assignment.voters)
        self.snapshot_end = snapshot.end_offset
        self.unsnapshot_bytes = 0
        return snapshot, encode_snapshot(
            image_records(image), epoch=snapshot.epoch, now_ms=now_ms, last_timestamp_ms=image.timestamp_ms,
            quorum=quorum if assignment.kraft_version else None)

    def end_snapshot(self, snapshot: SnapshotId, began_ms: int) -> bool:
        """Add a snapshot that is durable under its name. Returns False, and removes it, when the leader has sent a
        newer one."""
        self.snapshot_ms = began_ms
        return self._snapshots.add(snapshot)


def _progress(view: ReplicaView) -> ReplicaProgress:
    return ReplicaProgress(
        replica_id=view.key.node_id, directory_id=view.key.directory_id, log_end_offset=view.end_offset,
        last_fetch_ms=view.fetch_ms, last_caught_up_ms=view.caught_up_ms,
        endpoints=tuple(Endpoint(each.name, each.host, each.port, PLAINTEXT) for each in view.endpoints))
