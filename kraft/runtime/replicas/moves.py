"""Moves of replicas from one log directory of this broker to another (KIP-113, KIP-858).

    copying --caught up--> promised --metadata has it--> caught up again --> swapped

The future replica is a log of its own in the other directory, `<topic>-<partition>.<id>-future`. A thread owns it, and
appends what the loop reads from the replica for it; the throttle is `replica.alter.log.dirs.io.max.bytes.per.second`.
When it has everything, the controller is notified of the replica's future directory. Once that is committed, the small
rest is appended and the two change places in one iteration of the loop, so no request finds the partition without its
log. When more than `SWAP_BYTES_MAX` arrives while a copy is made durable, the thread catches up again.

A restart continues with the existing files: it keeps what both logs have in common, by their leader epochs. When the
target fails, its directory goes offline, as with any failed log. A move that cannot continue for another reason is
given up and logged. The replica stays where it is.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID

from kraft.broker.broker import Broker
from kraft.log import Log
from kraft.log_dir import LogDir, TopicPartition, topic_id_in
from kraft.metadata.image import MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.runtime.replicas.dir_reports import DirReports
from kraft.runtime.storage.log_manager import Future, LogManager
from kraft.runtime.storage.removals import remove_empty_copy
from kraft_native.base.errors import InvalidArgumentError, KraftError, LogReadOnlyError, OperationError, StorageError
from kraft_native.file.buffer import Slice
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import now_ms as monotonic_ms
from kraft_native.request.replication_quota import ReplicationQuota
from kraft_native.segment.config import LogConfig

log = logging.getLogger(__name__)

COPIED_AT_ONCE_BYTES: Final = 1 << 20
SWAP_BYTES: Final = 1 << 20
SWAP_BYTES_MAX: Final = 8 << 20
"""Bytes that may be missing when the logs change places. After each swap that missed more, the bound doubles, up to
what a device writes in some ten milliseconds."""
QUOTA_CHECK_SECONDS: Final = 0.2

Entries = Sequence[tuple[int, int]]
Given = TypeVar("Given")


def common_end(one: Entries, one_end: int, other: Entries, other_end: int) -> int:
    """Offset up to which two logs have the same records, by (epoch, start offset) of each leader epoch and by their
    ends; -1 when they have no epoch in common. Records of one epoch come from one leader (KIP-101)."""
    shared = max((epoch for epoch, _ in one if epoch in dict(other)), default=None)
    if shared is None:
        return -1

    def end_of(entries: Entries, log_end: int) -> int:
        return min((start for epoch, start in entries if epoch > shared), default=log_end)

    return min(end_of(one, one_end), end_of(other, other_end))


def failure_in(directory: Path, error: BaseException | None) -> StorageError | None:
    """Failed operation on a file of that directory, when the error is about one; else None."""
    if isinstance(error, LogReadOnlyError):
        return failure_in(directory, error.cause)
    if isinstance(error, OSError):
        error = StorageError(str(error.filename), error.errno or errno.EIO, str(error))
    return error if isinstance(error, StorageError) and Path(error.path).is_relative_to(directory) else None


class _Copy:
    """Log of the future replica; a thread opens it, uses it and closes it. `start` and `end` are its bounds."""

    def __init__(self, path: Path, config: LogConfig) -> None:
        self.path = path
        # Closing it makes it durable; a crash before that costs only the copying.
        self.config = config.replace(durability="page-cache", high_watermark="manual")
        self.start = self.end = self.size_bytes = 0
        self.is_given_up = False
        """Set by the loop, which then renames the directory, also while the thread opens the log."""
        self._log: Log | None = None

    def open(self) -> None:
        self._log = Log(self.path, self.config, log_dir_locked=True)
        if self.is_given_up and self._log.log_end_offset == 0:
            self.close()
            remove_empty_copy(self.path)
        else:
            self._check_quota()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def align(self, entries: Entries, log_end: int) -> None:
        """Drop what the replica, with these epochs and this end, does not have."""
        assert self._log is not None
        end = common_end(self._log.epochs.entries(), self.end, entries, log_end)
        self._log.truncate_to(max(end, 0))
        self._check_quota()

    def begin_at(self, offset: int) -> None:
        """Restart the copy at `offset`: the replica has deleted everything that the copy has."""
        assert self._log is not None
        self._log.truncate_fully_and_start_at(offset)
        self._check_quota()

    def append(self, records: Slice) -> None:
        assert self._log is not None
        self._log.append_as_follower(records)
        self._check_quota()

    def finish(self, records: Slice | None, high_watermark: int, log_start: int) -> None:
        """Append the missing records to the closed copy; durable when this returns."""
        with Log(self.path, self.config, log_dir_locked=True) as opened:
            if records is not None:
                opened.append_as_follower(records)
            opened.set_high_watermark(high_watermark)
            if opened.log_start_offset < log_start:
                opened.delete_records(log_start)

    def _check_quota(self) -> None:
        assert self._log is not None
        self.start, self.end = self._log.log_start_offset, self._log.log_end_offset
        self.size_bytes = self._log.size_bytes


class _Move:
    """One replica's move in progress."""

    def __init__(self, partition: Partition, future: Future) -> None:
        self.partition = partition
        self.name = TopicPartition(partition.topic, partition.index)
        self.future = future
        self.copy = _Copy(future.path, partition.log.config)
        self.generation = -1           # of the replica's truncations, when the copy was last aligned with it
        self.swap_bytes = SWAP_BYTES
        self.task: asyncio.Task[None] | None = None

    def note(self) -> None:
        """Update the progress that clients can query."""
        self.future.end_offset, self.future.size_bytes = self.copy.end, self.copy.size_bytes


class ReplicaMoves:
    """All moves of this broker. Loop thread only. `lose(directory, cause)` takes a directory offline; `on_failure`
    receives faults of our own."""

    def __init__(self, broker: Broker, logs: LogManager, reports: DirReports,
                 lose: Callable[[LogDir, KraftError], None], on_failure: Callable[[BaseException], object]) -> None:
        self._broker = broker
        self._logs = logs
        self._reports = reports
        self._lose = lose
        self._on_failure = on_failure
        self._moves: dict[TopicPartition, _Move] = {}
        self._ended: set[asyncio.Task[None]] = set()
        self._thread: ThreadPoolExecutor | None = None
        at_once = broker.config["num.replica.alter.log.dirs.threads"]
        self._room = asyncio.Semaphore(at_once if isinstance(at_once, int) else len(logs.directories))
        number = broker.config.integer
        self._quota = ReplicationQuota(
            samples=number("alter.log.dirs.replication.quota.window.num"),
            sample_ms=1000 * number("alter.log.dirs.replication.quota.window.size.seconds"))
        self._closed = False

    def reconfigure(self) -> None:
        """Apply the throttle, which may have changed."""
        self._quota.set_rate(self._broker.integer("replica.alter.log.dirs.io.max.bytes.per.second"))

    async def stop(self) -> None:
        """Stop all moves where they are: the next start continues them."""
        self._closed = True
        for name in list(self._moves):
            self._end(name)
        await asyncio.gather(*self._ended, return_exceptions=True)
        if self._thread is not None:
            self._thread.shutdown()

    # --- requested moves

    def alter(self, topic: str, index: int, path: str) -> ErrorCode:
        """Begin or end a move: see `apis.alter_replica_log_dirs`."""
        if TopicPartition(topic, index).future_name() is None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        target = self._logs.directory_at(path)
        home = self._logs.directory_of(topic, index)
        if self._logs.is_offline(path) or home in self._logs.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if target is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if home is not target and self._broker.is_cordoned(path):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        partition = self._broker.table.get(topic, index)
        if partition is None:
            if home is not None:
                return ErrorCode.KAFKA_STORAGE_ERROR
            self._logs.prefer(topic, index, target)
            exists = self._broker.image.partition(topic, index) is not None
            return ErrorCode.REPLICA_NOT_AVAILABLE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        known = self._moves.get(name := TopicPartition(topic, index))
        if known is not None and known.future.directory is target:
            return ErrorCode.NONE
        self.give_up(name)
        if home is target:
            return ErrorCode.NONE
        if self._logs.has_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR       # its future replica may be in an offline directory
        try:
            self._begin(partition, self._logs.begin_future(topic, index, UUID(bytes=partition.topic_id), target))
        except InvalidArgumentError:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        except KraftError as error:
            log.exception("%s cannot be moved to %s", name.directory_name, target.path)
            if (failure := failure_in(target.path, error)) is not None:
                asyncio.get_running_loop().call_soon(self._lose, target, failure)      # not in the middle of a request
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE

    def recover(self, image: MetadataImage) -> None:
        """Resolve, at a start, the future replicas without a replica beside them. In the directory that the metadata
        names, such a one was complete when the node stopped, and is promoted. In another directory it may be
        incomplete, and would be cut to the content of a new, empty replica: it is set aside. Those of partitions that
        this broker has lost are removed."""
        for name, future in list(self._logs.futures.items()):
            topic, registration = image.topic(name.topic), image.partition(*name)
            if (topic is None or registration is None or self._broker.node_id not in registration.replicas
                    or topic_id_in(future.path) not in (None, topic.topic_id)):
                self._logs.remove_future(name)
            elif self._logs.directory_of(*name) is None:
                assigned = registration.directory_of(self._broker.node_id)
                if assigned == future.directory.directory_id or not image.metadata_version.directories:
                    log.warning("%s had everything when the node went down; it takes its place", future.path)
                    self._logs.promote(name)
                elif not self._logs.may_be_offline(assigned):
                    self._logs.set_future_aside(name)

    def installed(self, partition: Partition) -> None:
        """Continue a move that a restart interrupted, now that the replica is open."""
        name = TopicPartition(partition.topic, partition.index)
        future = self._logs.futures.get(name)
        if future is None or name in self._moves:
            return
        if self._logs.directory_of(*name) is future.directory:
            self._logs.set_future_aside(name)
        else:
            self._begin(partition, future)

    def give_up(self, name: TopicPartition) -> None:
        """Give a move up and delete the copy; the replica stays where it is, or is being removed."""
        self._end(name)
        with suppress(KraftError, OSError):            # then the next start removes it
            self._logs.drop_future(name)

    def directory_failed(self, directory: LogDir) -> None:
        """Stop the moves from or to a failed directory; the copies stay, for its return."""
        for name, move in list(self._moves.items()):
            if directory in (move.future.directory, self._logs.directory_of(*name)):
                self._end(name)

    def _begin(self, partition: Partition, future: Future) -> None:
        if self._closed:
            return
        move = _Move(partition, future)
        self._moves[move.name] = move
        move.task = asyncio.get_running_loop().create_task(self._run(move))

    def _end(self, name: TopicPartition) -> None:
        move = self._moves.pop(name, None)
        if move is None:
            return
        assert move.task is not None
        move.copy.is_given_up = True
        self._ended.add(move.task)
        move.task.add_done_callback(self._ended.discard)
        move.task.cancel()
        if not self._closed:
            self._reports.withdraw(*name)

    # --- execution of a move

    async def _in_thread(self, work: Callable[..., Given], *arguments: object) -> Given:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="kraft-replica-mover")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def _run(self, move: _Move) -> None:
        try:
            async with self._room:
                await self._in_thread(move.copy.open)
                await self._carry_over(move)
        except (KraftError, OSError) as error:
            self._failed(move, error)
        except Exception as error:  # noqa: BLE001 - a move that ends unnoticed would be worse
            self._on_failure(error)
        finally:
            if self._thread is not None:               # runs after the thread's current work
                closed = self._thread.submit(move.copy.close)
                closed.add_done_callback(lambda done: done.exception())    # its files may be removed

    def _failed(self, move: _Move, error: KraftError | OSError) -> None:
        target = move.future.directory
        log.error("%s cannot be moved to %s, the move is given up", move.name.directory_name, target.path,
                  exc_info=error)
        if self._moves.get(move.name) is not move:
            return                     # it was ended meanwhile
        if (failure := failure_in(target.path, error)) is None:
            self.give_up(move.name)
        else:
            self._lose(target, failure)

    async def _carry_over(self, move: _Move) -> None:
        partition, promised = move.partition, None
        while True:
            await self._catch_up(move)
            if promised is None:
                promised = self._reports.promise(*move.name, UUID(bytes=partition.topic_id),
                                                     move.future.directory.directory_id)
            if not promised.is_set():
                await promised.wait()
                continue
            await self._in_thread(move.copy.close)
            if self._swap(move):
                return
            await self._in_thread(move.copy.open)

    async def _catch_up(self, move: _Move) -> None:
        """Copy until nothing is left except what arrived while the last piece was appended."""
        copy, end = move.copy, -1
        while True:
            source = move.partition.log
            if source.truncation_generation != move.generation:
                move.generation = source.truncation_generation
                await self._in_thread(copy.align, source.epochs.entries(), source.log_end_offset)
            elif 0 <= end <= copy.end or copy.end >= source.log_end_offset:
                return
            elif not await self._held_back():
                start, end = source.log_start_offset, source.log_end_offset
                records = source.read(max(copy.end, start), COPIED_AT_ONCE_BYTES, "log_end")
                if not len(records):
                    raise OperationError(f"nothing can be read at {max(copy.end, start)} of {start} to {end}")
                if copy.end < start and copy.end != records.first_offset:
                    await self._in_thread(copy.begin_at, records.first_offset)
                else:
                    self._quota.record(len(records), monotonic_ms())
                    await self._in_thread(copy.append, records)
            move.note()

    async def _held_back(self) -> bool:
        """Wait until the throttle permits more. Returns whether it had to wait."""
        held = False
        while (wait_ms := self._quota.wait_ms(monotonic_ms())) > 0:
            await asyncio.sleep(min(wait_ms / 1000, QUOTA_CHECK_SECONDS))
            held = True
        return held

    def _swap(self, move: _Move) -> bool:
        """Put the closed copy in the replica's place, unless too much arrived meanwhile. Returns whether it did."""
        partition, copy, source = move.partition, move.copy, move.partition.log
        records = None
        if source.truncation_generation != move.generation or copy.end < source.log_start_offset:
            return False
        if copy.end < source.log_end_offset:
            records = source.read(copy.end, move.swap_bytes, "log_end")
            if records.next_offset < source.log_end_offset:
                move.swap_bytes = min(2 * move.swap_bytes, SWAP_BYTES_MAX)
                return False
        mark = source.high_watermark
        if records is not None or copy.start < source.log_start_offset:
            copy.finish(records, mark, source.log_start_offset)
        try:
            self._logs.promote(move.name)
            opened = self._logs.open(*move.name, UUID(bytes=partition.topic_id), source.config)
            if source.config.high_watermark == "manual":
                opened.set_high_watermark(mark)
            partition.replace_log(opened)
        except KraftError as error:
            if not source.closed:
                raise
            home = self._logs.directory_of(*move.name)
            assert home is not None
            self._lose(home, error)
            return True
        del self._moves[move.name]
        self._reports.withdraw(*move.name)
        log.info("%s lies in %s now", move.name.directory_name, move.future.directory.path)
        return True
