"""Schedule of the snapshots that a replica writes of the metadata log, and of those that it keeps.

One of several controllers writes when the active controller permits it; its heartbeats request that. The active
controller hands over before it writes itself (KIP-631, "Snapshot Implementation"; `kraft.controller.snapshot_schedule`
decides).

Other replicas send no such heartbeats: an observer, a single controller, and one whose leader is Kafka's. They decide
by their own log. A controller whose turn does not come does the same, at twice the size and age.

A thread encodes the records of the image, which never changes, and writes them. The loop continues meanwhile, and
counts the snapshot as present when it is durable.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from kraft.controller.snapshot_schedule import Backlog, Limits, SnapshotSchedule
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.controller_heartbeat_request import ControllerHeartbeatRequest
from kraft.protocol.messages.controller_heartbeat_response import ControllerHeartbeatResponse
from kraft.raft.types import NOBODY, OffsetAndEpoch
from kraft.runtime.net.controller_channel import KeptLine
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.quorum.metadata_machine import QuorumMetadata
from kraft.runtime.quorum.raft_driver import RaftDriver
from kraft.runtime.quorum.raft_log import RaftLog
from kraft.runtime.quorum.raft_snapshots import RaftSnapshots
from kraft.runtime.storage.metadata_directory import MetadataLogSettings
from kraft.runtime.storage.snapshot_files import write_snapshot
from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import walk

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 5.0
CHECK_SECONDS_MIN: Final = 0.1
CHECKS_PER_INTERVAL: Final = 4
SOON_SECONDS: Final = 0.01
QUIET_WAIT_MS: Final = 5_000
ANSWER_SECONDS: Final = 5.0
HEARTBEAT: Final = ControllerHeartbeatRequest.API_KEY
VERSION: Final = 0
CLIENT_ID: Final = "kraft-snapshots-{}"


class SnapshotKeeper:
    """Keeper of one replica's snapshots, on its loop. `on_failure` is called with a snapshot that could not be written:
    without snapshots the log would grow indefinitely, unnoticed."""

    def __init__(self, settings: MetadataLogSettings, directory: Path, raft_log: RaftLog, snapshots: RaftSnapshots,
                 metadata: QuorumMetadata, driver: RaftDriver, clock: Callable[[], int],
                 dialer: Dialer, on_failure: Callable[[BaseException], object]) -> None:
        self._settings = settings
        self._directory = directory
        self._log = raft_log
        self._snapshots = snapshots
        self._metadata = metadata
        self._driver = driver
        self._clock = clock
        self._on_failure = on_failure
        self._usual = Limits(settings.snapshot_bytes, settings.snapshot_interval_ms)
        self._schedule = self._new_schedule()
        self._led_epoch = NOBODY
        self._handed_over_at = NOBODY
        self._waits_since_ms: int | None = None
        self._line = KeptLine(CLIENT_ID.format(driver.raft.replica.config.node_id), dialer)
        self._task: asyncio.Task[None] | None = None
        self._disk = ThreadPoolExecutor(1, thread_name_prefix="kraft-snapshots")
        self._writing: asyncio.Future[int] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._check_repeatedly())

    def close(self) -> None:
        """Begin no further snapshot. May be called again."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._line.close()

    async def ended(self) -> None:
        """Wait, after `close`, for a snapshot that is being written: once whole, it counts at the next start."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        self._disk.shutdown()

    # --- decisions of the active controller

    def heartbeat(self, request: ControllerHeartbeatRequest) -> ControllerHeartbeatResponse:
        """Answer to another controller's heartbeat."""
        replica = self._driver.raft.replica
        response = ControllerHeartbeatResponse(leader_id=replica.leader_id, leader_epoch=replica.epoch)
        if None not in (request.cluster_id, replica.cluster_id) and request.cluster_id != replica.cluster_id:
            response.error_code = ErrorCode.INCONSISTENT_CLUSTER_ID
        elif not self._metadata.controller.active:
            response.error_code = ErrorCode.NOT_CONTROLLER
        else:
            response.start_snapshot = self._current_schedule().heartbeat(
                request.controller_id, max(0, request.last_snapshot_offset), self._clock(),
                strained=self._is_strained())
        return response

    def _new_schedule(self) -> SnapshotSchedule:
        settings = self._settings
        strained = Limits(settings.strained_snapshot_bytes, settings.strained_snapshot_interval_ms)
        return SnapshotSchedule(self._usual, strained, self._backlog)

    def _current_schedule(self) -> SnapshotSchedule:
        """Turns of this epoch: heartbeats of an earlier leadership are outdated."""
        epoch = self._driver.raft.replica.epoch
        if epoch != self._led_epoch:
            self._led_epoch = epoch
            self._schedule = self._new_schedule()
        return self._schedule

    def _backlog(self, end_offset: int, now_ms: int) -> Backlog:
        """Size and age of the log behind a snapshot, by its share of the log's offsets and the time of the first record
        that remains."""
        start, end = self._log.start_offset, self._log.end.offset
        first = max(start, end_offset)
        if first >= end:
            return Backlog(0, 0)
        size = self._log.log.size_bytes * (end - first) // (end - start)
        batch = next(iter(walk(self._log.read(first, 1) or b"")), None)
        return Backlog(size, 0 if batch is None else now_ms - batch.max_timestamp_ms)

    def _caught_up(self) -> tuple[int, int]:
        """Number of voters, and number of those that have caught up."""
        raft = self._driver.raft
        voters, oldest_ms = raft.describe().voters, raft.replica.now_ms - raft.replica.config.election_timeout_ms
        return len(voters), sum(each.caught_up_ms >= oldest_ms for each in voters)

    def _is_strained(self) -> bool:
        """Return whether voters have fallen behind, so that the loss of another one would stop commits."""
        voters, ready = self._caught_up()
        return ready < voters and ready - 1 < voters // 2 + 1

    # --- periodic checks

    async def _check_repeatedly(self) -> None:
        interval_seconds = self._settings.snapshot_interval_ms / 1000 or CHECK_SECONDS
        pause = max(CHECK_SECONDS_MIN, min(CHECK_SECONDS, interval_seconds / CHECKS_PER_INTERVAL))
        again_soon = False
        while True:
            await asyncio.sleep(SOON_SECONDS if again_soon else pause)
            try:
                again_soon = await self._check()
            except Exception as error:  # noqa: BLE001 - see the class
                self._on_failure(error)
                return

    async def _check(self) -> bool:
        """Write or hand over where that is due. Returns whether to check again soon."""
        if self._metadata.controller.active and len(self._driver.raft.replica.voters.voters) > 1:
            return await self._lead()
        reply = await self._beat() if self._driver.raft.replica.config.can_vote else None
        if reply is None:
            await self.write_when_due()
        elif reply.start_snapshot:
            await self.write()
        else:
            await self.write_when_due(factor=2)
        return False

    async def _lead(self) -> bool:
        """Act when the active controller's own turn is due.

        It hands over once, if another voter could take over and nothing is about to be committed; the next leader lets
        it write. Else it writes in place. Returns whether it waits for a moment without uncommitted records. It does
        not check in step with records that come at intervals. It does not wait indefinitely, because under load there
        may be no such moment.
        """
        raft, end_offset, now_ms = self._driver.raft, self._metadata.snapshot_end, self._clock()
        since_ms, self._waits_since_ms = self._waits_since_ms, None
        if self._metadata.in_transaction or not self._current_schedule().is_own(
                end_offset, now_ms, strained=self._is_strained()):
            return False
        voters, ready = self._caught_up()
        if ready - 1 < voters // 2 + 1 or self._handed_over_at == end_offset:
            await self.write()
        elif raft.replica.high_watermark == raft.replica.log.end.offset:
            log.info("metadata snapshot: this node hands over the leadership before it writes its own")
            self._handed_over_at = end_offset
            self._driver.hand_over()
        elif since_ms is None or now_ms - since_ms < QUIET_WAIT_MS:
            self._waits_since_ms = now_ms if since_ms is None else since_ms
            return True
        else:
            await self.write()
        return False

    async def _beat(self) -> ControllerHeartbeatResponse | None:
        """Report the end of the last snapshot to the leader. Returns its answer, or None without one to follow."""
        replica = self._driver.raft.replica
        address = None if replica.leader_id in (NOBODY, replica.config.node_id) else replica.address_of(
            replica.leader_id)
        if address is None:
            return None
        try:
            line = await self._line.to(address)
            if HEARTBEAT not in line.versions.apis:
                return None             # Kafka's controllers have no such heartbeats
            latest = self._snapshots.latest() or OffsetAndEpoch(0, 0)
            body = await line.request(ControllerHeartbeatRequest(
                controller_id=replica.config.node_id, last_snapshot_offset=latest.offset,
                last_snapshot_epoch=latest.epoch, cluster_id=replica.cluster_id), VERSION, ANSWER_SECONDS)
            response = ControllerHeartbeatResponse.decode(body, VERSION)
        except (OSError, TimeoutError, KraftError) as error:
            log.debug("heartbeat to the active controller at %s:%d: %r", address.host, address.port, error)
            self._line.close()
            return None
        return response if response.error_code == ErrorCode.NONE else None

    # --- writing

    async def write_when_due(self, factor: int = 1) -> None:
        """Write a snapshot when the log behind the last one is long or old enough, and remove those that need not be
        kept."""
        behind = Backlog(self._metadata.unsnapshot_bytes, self._clock() - self._metadata.snapshot_ms)
        if Limits(self._usual.size_bytes * factor, self._usual.interval_ms * factor).are_reached(behind):
            await self.write()

    async def write(self) -> None:
        """Write a snapshot if something is new; one at a time. Raises what writing a file raises."""
        began_ms = self._clock()
        begun = None if self._metadata.in_transaction else self._metadata.begin_snapshot(began_ms)
        if begun is None:
            return
        snapshot, batches = begun
        self._writing = asyncio.get_running_loop().run_in_executor(
            self._disk, write_snapshot, self._directory, snapshot, batches)
        await asyncio.shield(self._writing)        # the thread runs to its end, even when the waiting task is cancelled
        if self._metadata.end_snapshot(snapshot, began_ms):
            log.info("metadata snapshot %s written", snapshot.file_name)
            self._clean()

    def _clean(self) -> None:
        """Advance the log start by one snapshot while snapshots and log together are too large, or too old. The newest
        snapshot and the log behind it stay."""
        settings = self._settings
        while len(self._snapshots.ids) > 1:
            oldest, after = self._snapshots.ids[:2]
            files = [(self._directory / each.file_name).stat() for each in self._snapshots.ids]
            size = sum(each.st_size for each in files) + self._log.log.size_bytes
            age_ms = self._clock() - files[0].st_mtime_ns // 1_000_000
            if not (0 <= settings.retention_bytes < size or 0 <= settings.retention_ms < age_ms):
                return
            self._driver.raft.trim_log(OffsetAndEpoch(*after))
            log.info("metadata snapshot %s removed, the log starts at %d", oldest.file_name, after.end_offset)
