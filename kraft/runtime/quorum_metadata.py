"""The metadata of a controller that is one of several: what is committed, and the controller while this node leads.

A follower replays what is committed from its log into an image. When it leads and all that came before its epoch is
committed, a `Controller` goes on with that image; when it leads no more, the image of what was committed until then is
gone on with from the log again: decisions that were not committed are forgotten with the controller that made them.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from kraft.controller.commit import QuorumState, ReplicaProgress
from kraft.controller.controller import NEVER_MS, Controller, ImageListener
from kraft.controller.decision import ConfigRules, ControllerSettings
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import Endpoint, MetadataImage
from kraft.metadata.quorum import QuorumRecords
from kraft.metadata.replay import Replayer
from kraft.metadata.snapshot import encode_snapshot, image_records
from kraft.protocol.message import Message
from kraft.protocol.record_frames import decode_record
from kraft.raft.raft import Raft, ReplicaView
from kraft.raft.ready import Leadership
from kraft.raft.records import voters_record
from kraft.raft.transitions import Role
from kraft.raft.types import OffsetAndEpoch
from kraft.runtime.raft_driver import RaftDriver
from kraft.runtime.raft_log import RaftLog
from kraft.runtime.raft_snapshots import RaftSnapshots
from kraft.runtime.snapshot_files import SnapshotId
from kraft_native.batch import Batch
from kraft_native.records import records

log = logging.getLogger(__name__)

PLAINTEXT: Final = 0
LATENCIES_KEPT: Final = 128


class QuorumMetadata:
    """The state machine of the metadata log, and the controller's `CommitPort`. Loop thread only.

    `driver` is set once, before anything is committed. `controller` is active only while this node leads; else it
    answers NOT_CONTROLLER.
    """

    driver: RaftDriver

    def __init__(self, settings: ControllerSettings, rules: ConfigRules, raft_log: RaftLog, snapshots: RaftSnapshots,
                 new_id: Callable[[], UUID], clock: Callable[[], int]) -> None:
        self._settings = settings
        self._rules = rules
        self._log = raft_log
        self._snapshots = snapshots
        self._new_id = new_id
        self._clock = clock
        self._listeners: list[ImageListener] = []
        self.on_change: Callable[[], None] = lambda: None
        """Called when another node may lead, or the controller began or ceased to be active."""
        self._leading: Leadership | None = None
        self._high_watermark = 0
        self._uncommitted: deque[tuple[int, int]] = deque()     # end offset, when it was appended
        self.appended_records = 0
        self.commit_latencies_ms: deque[int] = deque(maxlen=LATENCIES_KEPT)
        """Of the last appends of this node that were committed, oldest first."""
        self.snapshot_ms = clock()
        """When the last snapshot was written; the start, when none was yet."""
        self.unsnapshot_bytes = 0
        """Of log behind the last snapshot, roughly: what was replayed and what was appended."""
        self._begin_with_snapshot()

    def _begin_with_snapshot(self) -> None:
        """Begins with the newest snapshot, or with nothing."""
        latest = self._snapshots.latest()
        image = None
        if latest is not None and latest.offset > 0:
            image = self._snapshots.content(latest).image(latest.offset, latest.epoch)
        self._begin_replay(Replayer() if image is None else Replayer(image))
        self.snapshot_end = image.offset + 1 if image else 0

    def _begin_replay(self, replayer: Replayer) -> None:
        """Follows from here on, with a controller that refuses what it is asked."""
        self._replayer = replayer
        self._next_offset = replayer.offset + 1
        self.controller = Controller(self._settings, self._rules, self, Replayer(replayer.image), self._new_id)

    @property
    def raft(self) -> Raft:
        return self.driver.raft

    @property
    def image(self) -> MetadataImage:
        """What is committed and known here."""
        return self.controller.image if self.controller.active else self._replayer.image

    @property
    def in_transaction(self) -> bool:
        return self._replayer.in_transaction

    @property
    def deadline_ms(self) -> int:
        return self.controller.deadline_ms if self.controller.active else NEVER_MS

    def subscribe(self, listener: ImageListener) -> None:
        """`listener(delta, image)` hears of every committed change from now on, in order."""
        self._listeners.append(listener)
        if self.controller.active:
            self.controller.subscribe(listener)

    def submit(self, request: Message, version: int, now_ms: int, answer: Callable[[Message], None]) -> None:
        """See `Controller.submit`."""
        self.controller.submit(request, version, now_ms, answer)

    # --- StateMachine

    def installed(self, snapshot: OffsetAndEpoch) -> None:
        """A snapshot has replaced the log: listeners hear of everything that is different at once."""
        log.info("metadata snapshot %s was fetched from the leader", snapshot)
        before = self.image
        self.unsnapshot_bytes = 0
        self._begin_with_snapshot()
        delta = MetadataDelta.between(before, self.image)
        for listener in self._listeners:
            listener(delta, self.image)

    def committed(self, end_offset: int) -> None:
        self._high_watermark = end_offset
        while self._uncommitted and self._uncommitted[0][0] <= end_offset:
            self.commit_latencies_ms.append(self._clock() - self._uncommitted.popleft()[1])
        if self.controller.active:
            self.controller.committed(end_offset, self._clock())
            return
        self._replay(end_offset)
        if self._leading is not None and end_offset > self._leading.epoch_start:
            self._activate(self._leading.epoch)

    def leadership(self, leadership: Leadership) -> None:
        log.info("metadata quorum: this node is %s in epoch %d, the leader is %s", leadership.role, leadership.epoch,
                 "not known" if leadership.leader_id < 0 else leadership.leader_id)
        was_leading, leads = self._leading, leadership.role is Role.LEADER
        if was_leading is not None and (not leads or leadership.epoch != was_leading.epoch):
            self._deactivate()
        self._leading = leadership if leads else None
        if leads and not self.controller.active and self._high_watermark > leadership.epoch_start:
            self._activate(leadership.epoch)
        self.on_change()

    # --- leading

    def _activate(self, epoch: int) -> None:
        """All that came before this epoch is committed and replayed: decisions may be made."""
        self.controller = Controller(self._settings, self._rules, self, self._replayer, self._new_id)
        for listener in self._listeners:
            self.controller.subscribe(listener)
        self.controller.became_leader(epoch, self._clock())
        self.on_change()

    def _deactivate(self) -> None:
        controller = self.controller
        if not controller.active:
            return
        self._uncommitted.clear()
        controller.resigned(self._clock())
        self._begin_replay(Replayer(controller.image))
        self._replay(self._high_watermark)
        self.on_change()

    def tick(self) -> None:
        """What is due in the active controller."""
        self.controller.tick(self._clock())

    def _replay(self, end_offset: int) -> None:
        """Goes on up to `end_offset`, all of which is committed."""
        for batch in self._log.batches(self._next_offset, end_offset):
            self._replay_batch(batch)
            self.unsnapshot_bytes += batch.size_in_bytes
            self._next_offset = batch.next_offset
        for delta, image in self._replayer.take():
            for listener in self._listeners:
                listener(delta, image)

    def _replay_batch(self, batch: Batch) -> None:
        replayer = self._replayer
        if batch.is_control:
            if batch.last_offset > replayer.offset:
                replayer.advance(batch.last_offset, batch.leader_epoch, batch.max_timestamp_ms)
            return
        for record in records(batch):
            if record.offset > replayer.offset:
                message, _ = decode_record(record.value or b"")
                replayer.replay(message, record.offset, batch.leader_epoch, record.timestamp_ms)

    # --- CommitPort

    @property
    def leader_epoch(self) -> int:
        return -1 if self._leading is None else self._leading.epoch

    @property
    def end_offset(self) -> int:
        return self._log.log.log_end_offset

    @property
    def end_epoch(self) -> int:
        """Of the last record."""
        return self._log.end.epoch

    @property
    def state_name(self) -> str:
        """Kafka's metric `current-state`."""
        return self.raft.state_name

    def append(self, payloads: Sequence[bytes], now_ms: int) -> int:
        """See `CommitPort`."""
        end_offset = self.driver.propose(payloads, now_ms, self.leader_epoch)
        self.appended_records += len(payloads)
        self.unsnapshot_bytes += sum(map(len, payloads))
        self._uncommitted.append((end_offset, now_ms))
        return end_offset - 1

    def describe_quorum(self, now_ms: int) -> QuorumState:  # noqa: ARG002 - the core has a clock of its own
        view = self.raft.describe()
        return QuorumState(view.leader_id, view.epoch, view.high_watermark,
                           tuple(map(_progress, view.voters)), tuple(map(_progress, view.observers)),
                           None if view.targets is None else tuple(map(_progress, view.targets)))

    # --- snapshots

    def write_snapshot(self, now_ms: int) -> SnapshotId | None:
        """Writes a snapshot of what is committed, and lets the log start there; None when nothing is new. The log goes
        on meanwhile."""
        image = self.image
        if image.offset + 1 <= self.snapshot_end:
            return None
        snapshot = SnapshotId(*self.raft.snapshot_id(image.offset + 1))
        assignment = self.raft.assignment_at(snapshot.end_offset)
        quorum = QuorumRecords(kraft_version=assignment.kraft_version)
        if assignment.kraft_version:
            quorum.voters = voters_record(assignment.voters)
        self._snapshots.write(snapshot, b"".join(encode_snapshot(
            image_records(image), epoch=snapshot.epoch, now_ms=now_ms, last_timestamp_ms=image.timestamp_ms,
            quorum=quorum if assignment.kraft_version else None)))
        self.snapshot_end = snapshot.end_offset
        self.snapshot_ms = now_ms
        self.unsnapshot_bytes = 0
        return snapshot


def _progress(view: ReplicaView) -> ReplicaProgress:
    return ReplicaProgress(
        replica_id=view.key.node_id, directory_id=view.key.directory_id, log_end_offset=view.end_offset,
        last_fetch_ms=view.fetch_ms, last_caught_up_ms=view.caught_up_ms,
        endpoints=tuple(Endpoint(each.name, each.host, each.port, PLAINTEXT) for each in view.endpoints))
