"""The metadata log of a node that is its quorum's only voter: every append is committed as soon as it is durable.

    log = MetadataLog(directory, identity, now_ms, settings)
    controller = Controller(..., port=log, replayer=log.loaded.replayer, ...)
    log.start(controller, now_ms)              # leader of a new epoch from here on
    loop.add_reader(log.eventfd, ...)          # -> log.poll(now_ms)

Group commit: appends are flushed together by a thread without the interpreter lock, and `poll` tells what became
durable. With `durability="per-append"` an append is durable when it returns; then `poll` needs no eventfd.

Order at the start: a new epoch, durable in `quorum-state` before any record of it is written; LeaderChange as its first
record; and only when that is durable the controller hears that it leads. A failed write or flush is final: `poll`
raises it, and the node stops.

One thread owns it. Files are Kafka's (`docs/internals/metadata.md`).
"""

import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from kraft.controller.commit import CommitListener, QuorumState, ReplicaProgress
from kraft.metadata.image import Endpoint, MetadataImage
from kraft.metadata.quorum import encode_control
from kraft.metadata.snapshot import encode_snapshot, image_records
from kraft.protocol.message import Message
from kraft.protocol.messages.leader_change_message import LeaderChangeMessage
from kraft.protocol.messages.leader_change_message import Voter as LeaderVoter
from kraft.protocol.messages.voters_record import Endpoint as VoterEndpoint
from kraft.protocol.messages.voters_record import VotersRecord
from kraft.raft.records import voters_record
from kraft.raft.types import Endpoint as RaftEndpoint
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import Voter, VoterSet
from kraft.runtime.metadata_loader import LoadedMetadata, load
from kraft.runtime.quorum_state import QuorumStateFile, read_quorum_state, write_quorum_state
from kraft.runtime.snapshot_files import (
    SnapshotId,
    list_snapshots,
    remove_leftovers,
    remove_snapshot,
    write_snapshot,
)
from kraft_native import checkpoints
from kraft_native.config import LogConfig
from kraft_native.control import control_batch
from kraft_native.errors import InvalidArgumentError, OperationError
from kraft_native.flusher import Flusher
from kraft_native.log import Log
from kraft_native.records import BatchBuilder

DIRECTORY_NAME: Final = "__cluster_metadata-0"
TOPIC_ID: Final = UUID(int=1)
BATCH_BYTES_MAX: Final = 8 << 20
LATENCIES_KEPT: Final = 128


class NotSoleVoterError(OperationError):
    """The log belongs to a quorum of which this node is not the only voter: it cannot go on alone."""


@dataclass(frozen=True, slots=True)
class MetadataLogSettings:
    """Kafka's names: `metadata.log.segment.bytes`, `metadata.log.segment.ms`,
    `metadata.log.max.record.bytes.between.snapshots`, `metadata.log.max.snapshot.interval.ms` (0: never by time),
    `metadata.max.retention.bytes`, `metadata.max.retention.ms` (-1: no limit)."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    snapshot_bytes: int = 20 << 20
    snapshot_interval_ms: int = 3_600_000
    retention_bytes: int = 100 << 20
    retention_ms: int = 604_800_000
    durability: str = "group-commit"

    def log_config(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.segment_bytes, segment_ms=self.segment_ms, max_message_bytes=BATCH_BYTES_MAX,
            retention_bytes=-1, retention_ms=-1, cleanup_policy="delete", durability=self.durability,
            flush_interval_us=0, message_timestamp_before_max_ms=(1 << 63) - 1,
            message_timestamp_after_max_ms=(1 << 63) - 1)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this node is in the quorum. `endpoints` are those of its controller listeners; `static_voters` are the ids of
    `controller.quorum.voters`, for quorums of kraft.version 0."""

    node_id: int
    directory_id: UUID
    endpoints: tuple[Endpoint, ...]
    static_voters: tuple[int, ...] = ()


class MetadataLog:
    """Opens (or creates) the log in `directory` and replays it. It implements `CommitPort` from `start` on.

    Raises what `Log` and `load` raise, and `NotSoleVoterError`; then nothing was written. `flusher`: one to share.
    `log_dir_locked`: the caller holds the lock of the directory above.
    """

    def __init__(
        self, directory: Path, identity: Identity, now_ms: int, settings: MetadataLogSettings | None = None, *,
        flusher: Flusher | None = None, log_dir_locked: bool = False,
    ):
        self.directory = directory
        self.identity = identity
        self.settings = settings or MetadataLogSettings()
        self.log = Log(directory, self.settings.log_config(), flusher=flusher, log_dir_locked=log_dir_locked)
        try:
            remove_leftovers(directory)
            self._check_end()
            self.loaded: LoadedMetadata = load(directory, self.log)
            self._state = read_quorum_state(directory)
            self._check_voters()
        except BaseException:
            self.log.close()
            raise
        self._epoch = max(0 if self._state is None else self._state.leader_epoch, self._latest_epoch()) + 1
        self._listener: CommitListener | None = None
        self._builder = BatchBuilder()
        self._committed = 0
        self._leader_change = -1
        self.appended_records = 0
        self.commit_latencies_ms: deque[int] = deque(maxlen=LATENCIES_KEPT)
        """Of the last appends that were committed, oldest first."""
        self._uncommitted: deque[tuple[int, int]] = deque()     # end offset, when it was appended
        self.snapshot_ms = now_ms
        """When the last snapshot was written; the start, when none was yet."""
        self._unsnapshot_bytes = self.loaded.replayed_bytes
        self._snapshot_end = self.loaded.snapshot.end_offset if self.loaded.snapshot else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- opening ----------------------------------------------------------------------------------------------------

    def _latest_epoch(self) -> int:
        """Of anything that this log ever had."""
        return max(self.log.epochs.latest_epoch, self.loaded.replayer.epoch)

    def _check_end(self) -> None:
        """A log that ends below the newest snapshot lost its end, all of which the snapshot has."""
        snapshots = list_snapshots(self.directory)
        if snapshots and snapshots[-1].end_offset > self.log.log_end_offset:
            self.log.truncate_fully_and_start_at(snapshots[-1].end_offset)

    def _check_voters(self) -> None:
        quorum, me = self.loaded.quorum, self.identity
        if quorum.kraft_version == 0:
            voters = list(self._state.voters if self._state and self._state.voters else me.static_voters)
            known = True
        else:
            voters = quorum.voter_ids()
            known = quorum.voters is not None and any(
                voter.voter_id == me.node_id and voter.voter_directory_id == me.directory_id
                for voter in quorum.voters.voters)
        if voters != [me.node_id] or not known:
            raise NotSoleVoterError(
                f"{self.directory}: node {me.node_id} with directory id {me.directory_id} is not the only voter of its "
                f"quorum: voters are {voters or 'not known'} at kraft.version {quorum.kraft_version}")

    # --- leading ----------------------------------------------------------------------------------------------------

    def start(self, listener: CommitListener, now_ms: int) -> None:
        """Takes the leadership of a new epoch. `listener` hears of it, and of all commits, from `poll`."""
        if self._listener is not None:
            raise InvalidArgumentError("start: the log was started before")
        version = 1 if self.loaded.quorum.kraft_version else 0
        write_quorum_state(self.directory, QuorumStateFile(
            leader_id=self.identity.node_id, leader_epoch=self._epoch, version=version,
            voters=() if version else (self.identity.node_id,)))
        if checkpoints.read_partition_metadata(self.directory) is None:
            checkpoints.write_partition_metadata(self.directory, TOPIC_ID)
        self._listener = listener
        messages = self._first_records()
        batch = control_batch([encode_control(message) for message in messages], timestamp_ms=now_ms,
                              base_offset=self.log.log_end_offset, leader_epoch=self._epoch)
        self._leader_change = self._write(batch, now_ms)
        first = self._leader_change + 1 - len(messages)
        for number, message in enumerate(messages):
            self.loaded.quorum.apply(message, first + number)
            self.loaded.replayer.advance(first + number, self._epoch, now_ms)

    def _first_records(self) -> list[Message]:
        """LeaderChange; and the quorum's own records when the log does not have them, or they tell an old address."""
        me = [LeaderVoter(voter_id=self.identity.node_id)]
        messages: list[Message] = [LeaderChangeMessage(
            version=0, leader_id=self.identity.node_id, voters=me, granting_voters=me)]
        quorum = self.loaded.quorum
        if quorum.kraft_version == 0 or quorum.voters is None:
            return messages
        endpoints = [VoterEndpoint(name=each.name, host=each.host, port=each.port) for each in self.identity.endpoints]
        if self.log.log_end_offset == 0:
            messages += quorum.messages()
        elif endpoints and quorum.voters.voters[0].endpoints != endpoints:
            messages.append(quorum.voters)
        if isinstance(messages[-1], VotersRecord) and endpoints:
            messages[-1] = voters_record(VoterSet.of(Voter(
                ReplicaKey(self.identity.node_id, self.identity.directory_id),
                tuple(RaftEndpoint(each.name, each.host, each.port) for each in self.identity.endpoints))))
        return messages

    def _write(self, batch: bytes, now_ms: int) -> int:
        self._unsnapshot_bytes += len(batch)
        appended = self.log.append_as_raft_leader(batch, self._epoch, now_ms=now_ms)
        self.appended_records += appended.last_offset + 1 - appended.first_offset
        self._uncommitted.append((appended.last_offset + 1, now_ms))
        self.log.flush_soon()          # a client waits for it, and it may be the only one
        return appended.last_offset

    # --- CommitPort -------------------------------------------------------------------------------------------------

    @property
    def leader_epoch(self) -> int:
        return self._epoch

    @property
    def end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def end_epoch(self) -> int:
        """Of the last record; a log that leads has one of its own epoch."""
        return self._epoch

    @property
    def state_name(self) -> str:
        """Kafka's metric `current-state`."""
        return "leader"

    def append(self, payloads: Sequence[bytes], now_ms: int) -> int:
        """See `CommitPort`. `MessageTooLargeError` for a batch over 8 MiB, which Kafka's readers would refuse."""
        assert self._listener is not None, "append before start"
        self._builder.clear()
        for payload in payloads:
            self._builder.append(payload, timestamp_ms=now_ms)
        return self._write(self._builder.build(self.log.log_end_offset, leader_epoch=self._epoch), now_ms)

    def describe_quorum(self, now_ms: int) -> QuorumState:
        voter = ReplicaProgress(
            replica_id=self.identity.node_id, directory_id=self._voter_directory_id(),
            log_end_offset=self.log.log_end_offset, last_fetch_ms=now_ms, last_caught_up_ms=now_ms,
            endpoints=self.identity.endpoints)
        return QuorumState(self.identity.node_id, self._epoch, self._committed, (voter,))

    def _voter_directory_id(self) -> UUID:
        return self.identity.directory_id if self.loaded.quorum.kraft_version else UUID(int=0)

    # --- committing -------------------------------------------------------------------------------------------------

    @property
    def eventfd(self) -> int:
        """Becomes readable when `poll` has something to tell; with group commit only."""
        return self.log.flush_eventfd

    def poll(self, now_ms: int) -> None:
        """Tells the listener what became durable since the last call. Raises the failure that made the log
        read-only."""
        if self.settings.durability == "group-commit":
            with suppress(BlockingIOError):
                os.eventfd_read(self.log.flush_eventfd)
        self.log.poll()
        if self.log.failure is not None:
            raise self.log.failure
        end = self.log.durable_end_offset
        listener = self._listener
        if listener is None or end <= self._committed:
            return
        was_leader = self._committed > self._leader_change
        self._committed = end
        while self._uncommitted and self._uncommitted[0][0] <= end:
            self.commit_latencies_ms.append(max(0, now_ms - self._uncommitted.popleft()[1]))
        if not was_leader and end > self._leader_change:
            listener.became_leader(self._epoch, now_ms)
        listener.committed(end, now_ms)

    def wait(self, now_ms: int) -> None:
        """Waits until all that was appended is durable, and tells it, also what the listener appends meanwhile: for
        tests, tools and the first moments of a process."""
        while self._committed < self.log.log_end_offset:
            self.log.flush()
            self.poll(now_ms)

    # --- snapshots --------------------------------------------------------------------------------------------------

    def snapshot_due(self, image: MetadataImage, now_ms: int) -> bool:
        """Whether the log behind the last snapshot is long or old enough; `image` is what is committed."""
        if image.offset + 1 <= self._snapshot_end or self.loaded.replayer.in_transaction:
            return False
        interval_ms = self.settings.snapshot_interval_ms
        return (self._unsnapshot_bytes >= self.settings.snapshot_bytes
                or (interval_ms > 0 and now_ms - self.snapshot_ms >= interval_ms))

    def write_snapshot(self, image: MetadataImage, now_ms: int) -> SnapshotId:
        """Writes a snapshot of a committed image, then removes what is no longer needed. Gives its id."""
        if image.offset >= self._committed:
            raise InvalidArgumentError(f"image: its offset {image.offset} is not committed yet")
        snapshot = SnapshotId(image.offset + 1, image.epoch)
        write_snapshot(self.directory, snapshot, encode_snapshot(
            image_records(image), epoch=image.epoch, now_ms=now_ms, last_timestamp_ms=image.timestamp_ms,
            quorum=self.loaded.quorum))
        self._snapshot_end = snapshot.end_offset
        self.snapshot_ms = now_ms
        self._unsnapshot_bytes = 0
        self.clean(now_ms)
        return snapshot

    def clean(self, now_ms: int, modified_ms: Callable[[Path], int] | None = None) -> list[SnapshotId]:
        """Removes snapshots, and the log before the oldest one that stays, while they are too large together or too
        old. The newest snapshot and the log behind it stay whatever their size. Gives what was removed."""
        modified_ms = modified_ms or (lambda path: path.stat().st_mtime_ns // 1_000_000)
        snapshots = list_snapshots(self.directory)
        removed: list[SnapshotId] = []
        while len(snapshots) > 1:
            oldest, after = snapshots[0], snapshots[1]
            paths = [self.directory / snapshot.file_name for snapshot in snapshots]
            size = sum(path.stat().st_size for path in paths) + self.log.size_bytes
            age_ms = now_ms - modified_ms(paths[0])
            too_large = 0 <= self.settings.retention_bytes < size
            too_old = 0 <= self.settings.retention_ms < age_ms
            if not (too_large or too_old):
                break
            self.log.delete_records(after.end_offset)
            remove_snapshot(self.directory, oldest)
            removed.append(snapshots.pop(0))
        return removed

    def close(self) -> None:
        """Makes everything durable and lets go. May be called again."""
        self.log.close()
