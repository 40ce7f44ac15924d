"""A log's promises where several events coincide: forks, slices that outlive their log, damage, failures half-way."""

import contextlib
import errno
import os
import select
import shutil
import time
import traceback
from pathlib import Path

import pytest

from kraft_native.base.errors import (
    CorruptLogError,
    CorruptRecordError,
    InvalidArgumentError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTxnStateError,
    KraftError,
    LogClosedError,
    LogReadOnlyError,
    MessageTooLargeError,
    OperationError,
    OutOfOrderSequenceError,
    StorageError,
)
from kraft_native.batch.batch import walk
from kraft_native.batch.records import records
from kraft_native.facade.log import Log
from kraft_native.facade.reader import LogReader
from kraft_native.file.faults import MUTATIONS, fail_at
from kraft_native.log.flusher import Flusher
from kraft_native.segment.config import LogConfig
from tests.native.logs import START_MS, batch, read_all, small


def in_a_fork(work) -> int:
    """Return the exit status of a forked child that runs `work`: its result, or 100 when it raises."""
    child = os.fork()
    if child == 0:
        try:
            status = work()
        except BaseException:  # noqa: BLE001 - the child must not run on into the tests
            traceback.print_exc()
            status = 100
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# --- forks ------------------------------------------------------------------------------------------------------------

@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("durability", ["page-cache", "group-commit", "per-append"])
def test_a_fork_cannot_touch_its_parents_log(tmp_path, durability):
    with Log(tmp_path / "log", LogConfig(durability=durability)) as log:
        log.append(batch(value=b"parent"))
        log.flush()
        log.checkpoint()
        state = (tmp_path / "log" / "kraft-log-state").read_bytes()

        def child() -> int:
            refused = 0
            for call in (lambda: log.append(batch(value=b"child")), lambda: log.append_record(b"child"),
                         lambda: log.truncate_to(0), lambda: log.flush(), lambda: log.roll(), lambda: log.read(0)):
                try:
                    call()
                except OperationError:
                    refused += 1
            log.__exit__(None, None, None)
            return refused

        assert in_a_fork(child) == 6
        assert (tmp_path / "log" / "kraft-log-state").read_bytes() == state
        # Had the child cut the file to size, this store into the parent's window would be a SIGBUS.
        for _ in range(100):
            log.append(batch(value=b"parent"))
        log.flush()
        assert read_all(log).count(b"parent") == 101


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_may_open_a_log_of_its_own(tmp_path):
    def fill(name: str) -> int:
        with Log(tmp_path / name, small()) as log:
            for _ in range(40):
                log.append(batch(value=bytes(100)))
            log.flush()
            return len(log.segments)

    parent = fill("parent")  # the shared flusher's thread runs from here on
    assert parent > 1
    assert in_a_fork(lambda: fill("child")) == parent


# --- pinned slices ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("closed", [True, False])
def test_a_slice_outlives_its_log_and_what_the_next_one_cuts(tmp_path, closed):
    def child() -> int:
        log = Log(tmp_path / "log")
        for _ in range(40):
            log.append(batch(value=bytes(1000)))
        piece = log.read(0)
        before = bytes(piece)
        if closed:
            log.close()
        del log
        with Log(tmp_path / "log") as again:
            again.truncate_to(1)
            again.append(batch(value=b"other"))
            assert len(bytes(piece)) == 40 * len(again.read(0, 1))
        assert bytes(piece) == before
        return 0

    assert in_a_fork(child) == 0


# --- truncation -------------------------------------------------------------------------------------------------------

def spoil(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("first_read", [0, 5])
def test_a_truncation_into_damage_ends_where_the_damage_starts(tmp_path, first_read):
    with Log(tmp_path / "log") as log:
        for _ in range(4):
            log.append(batch(3, value=bytes(100)))
        log.roll()
        log.append(batch())
        size = log.segments[0].size // 4
    spoil(tmp_path / "log" / f"{0:020d}.log", 2 * size + 80)
    with Log(tmp_path / "log") as log:
        log.read(first_read, 1)
        assert log.truncate_to(7)
        assert log.log_end_offset == 6
        assert log.append(batch()).first_offset == 6
        assert [seen.base_offset for seen in walk(read_all(log))] == [0, 3, 6]


def test_a_truncation_below_the_log_start_is_durable_before_the_next_append(tmp_path):
    with Log(tmp_path / "log", LogConfig(durability="per-append")) as log:
        log.append(batch(10))
        log.delete_records(5)
        log.truncate_to(7)
        end = log.append(batch(3)).last_offset + 1
        assert log.log_start_offset < end == log.durable_end_offset
        shutil.copytree(tmp_path / "log", tmp_path / "crashed")
    with Log(tmp_path / "crashed") as log:
        assert log.log_end_offset == end
        assert len(list(records(read_all(log)))) == 3


@pytest.mark.parametrize("fault", range(1, 14))
def test_a_truncation_that_fails_leaves_a_log_that_can_be_read(tmp_path, fault):
    def child() -> int:
        log = Log(tmp_path / "log", small(high_watermark="manual"))
        for _ in range(30):
            log.append(batch(value=bytes(200)))
        log.set_high_watermark(30)
        with fail_at(fault, error=errno.EIO, under=tmp_path, kinds=MUTATIONS), contextlib.suppress(KraftError):
            log.truncate_fully_and_start_at(0)
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert len(list(records(read_all(log, isolation="high_watermark")))) == log.high_watermark
        with LogReader(tmp_path / "log") as reader:
            # The reader must not wait here for the end of the truncation.
            assert reader.log_end_offset == log.log_end_offset
            for offset in range(log.log_end_offset):
                assert reader.read(offset, 1).first_offset == offset
        log.close()
        return 0

    assert in_a_fork(child) == 0


# --- failures ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_follower_append_over_several_segments_keeps_whole_segments(tmp_path, failing):
    """Six batches of which two fit a segment: each segment's bytes are all present or all missing."""
    data = b"".join(batch(base_offset=offset, leader_epoch=0, value=bytes(9000)) for offset in range(6))
    log = Log(tmp_path / "log", small(segment_bytes=20_000))
    with fail_at(failing, error=errno.ENOSPC, kinds={"write"}, under=tmp_path, suffix=".log"), \
            pytest.raises(StorageError):
        log.append_as_follower(data)
    kept = 2 * (failing - 1)
    assert log.log_end_offset == log.high_watermark == kept
    assert read_all(log) == data[:kept * len(data) // 6]
    with pytest.raises(LogReadOnlyError):
        log.append_as_follower(data)
    log.close()
    with Log(tmp_path / "log", small(segment_bytes=20_000)) as log:
        assert read_all(log) == data[:kept * len(data) // 6]
        log.append_as_follower(data[kept * len(data) // 6:])
        assert read_all(log) == data


def test_a_follower_append_that_is_refused_leaves_nothing(tmp_path):
    data = b"".join(batch(base_offset=offset, leader_epoch=0, value=bytes(9000)) for offset in range(6))
    with Log(tmp_path / "log", small(segment_bytes=20_000)) as log:
        with pytest.raises(CorruptRecordError):
            log.append_as_follower(data[:-1] + b"x")
        assert (log.log_end_offset, len(log.segments)) == (0, 1)


@pytest.mark.parametrize("timeout", [-1, -1e-9, float("nan"), float("inf"), 1e10])
def test_a_timeout_that_is_no_time_is_refused(tmp_path, timeout):
    with Log(tmp_path / "log") as log:
        log.append(batch())
        for call in (lambda: log.flush(timeout), lambda: log.wait_durable(1, timeout)):
            with pytest.raises(InvalidArgumentError, match="timeout"):
                call()
        assert log.durable_end_offset == 0
        assert log.flush()


def test_a_log_whose_flusher_was_closed_takes_nothing_more(tmp_path):
    flusher = Flusher()
    log = Log(tmp_path / "log", small(durability="group-commit"), flusher=flusher)
    log.append(batch())
    log.flush()
    flusher.close()
    with pytest.raises(LogClosedError):
        log.append(batch())
    end = log.log_end_offset
    for _ in range(50):
        with pytest.raises(LogReadOnlyError):
            log.append(batch())
    assert log.log_end_offset == end
    assert isinstance(log.failure, LogClosedError)
    log.close()
    with Log(tmp_path / "log", small()) as log:
        assert log.log_end_offset == end


def test_a_failed_flush_reaches_an_owner_that_only_polls(tmp_path):
    log = Log(tmp_path / "log", small(durability="group-commit"))
    ready = log.flush_eventfd
    with fail_at(1, error=errno.EIO, kinds=frozenset({"datasync"}), under=tmp_path):
        log.append(batch())
        assert select.select([ready], [], [], 20)[0]
    assert log.poll() == 0
    assert isinstance(log.failure, StorageError)
    log.close()


def test_a_flush_soon_does_not_gather(tmp_path):
    with Flusher(linger_us=60_000_000) as flusher, \
            Log(tmp_path / "log", small(durability="group-commit"), flusher=flusher) as log:
        log.append(batch())
        log.flush_soon()
        assert select.select([log.flush_eventfd], [], [], 20)[0]
        assert log.durable_end_offset == log.log_end_offset


def test_a_flush_that_was_part_of_the_append_is_not_waited_for(tmp_path):
    with Log(tmp_path / "log", small(durability="per-append")) as log:
        log.append(batch())
        assert log.notify_flushes_from(log.log_end_offset + 1)
        assert not log.notify_flushes_from(log.log_end_offset)


def test_silent_producers_are_forgotten_with_retention(tmp_path):
    with Log(tmp_path / "log", small(producer_id_expiration_ms=1000)) as log:
        log.append(batch(producer_id=7, producer_epoch=0, base_sequence=0))
        log.apply_retention(START_MS + 999)
        assert len(log.producers) == 1
        log.apply_retention(START_MS + 1000)
        assert len(log.producers) == 0


# --- gaps -------------------------------------------------------------------------------------------------------------

def with_gaps() -> list[bytes]:
    return [batch(2, base_offset=offset, leader_epoch=0) for offset in (0, 5, 20)]


def offsets(log: Log) -> list[int]:
    return [record.offset for record in records(read_all(log))]


@pytest.mark.parametrize("stop", ["clean", "killed"])
def test_gaps_that_compaction_left_are_none_after_a_change_of_policy(tmp_path, stop):
    log = Log(tmp_path / "log", LogConfig(cleanup_policy="compact"))
    for data in with_gaps():
        log.append_as_follower(data)
    log.reconfigure(LogConfig())
    assert offsets(log) == [0, 1, 5, 6, 20, 21]
    if stop == "clean":
        log.close()
    else:
        log.checkpoint()
        del log
    for _ in range(2):
        with Log(tmp_path / "log") as log:
            assert log.recovery.intact
            assert offsets(log)[:6] == [0, 1, 5, 6, 20, 21]
            log.append(batch())


def test_gaps_that_a_leader_sent_are_none_of_ours(tmp_path):
    log = Log(tmp_path / "log")
    for data in with_gaps():
        log.append_as_follower(data)
    assert offsets(log) == [0, 1, 5, 6, 20, 21]
    del log
    with Log(tmp_path / "log") as log:
        assert log.recovery.intact
        assert offsets(log) == [0, 1, 5, 6, 20, 21]


def test_a_gap_in_a_log_that_never_had_any_is_damage(tmp_path):
    with Log(tmp_path / "log") as log:
        for _ in range(3):
            log.append(batch(2))
            log.roll()
        log.append(batch())
    (tmp_path / "log" / f"{2:020d}.log").unlink()
    with Log(tmp_path / "log") as log, pytest.raises(CorruptLogError, match="no batch has these offsets"):
        log.read(2)


def test_a_single_record_is_checked_as_a_batch_of_a_client_s_is(tmp_path):
    settings = {"cleanup_policy": "compact", "message_timestamp_before_max_ms": 60_000, "max_message_bytes": 200}
    with Log(tmp_path / "log", small(**settings)) as log:
        now_ms = time.time_ns() // 1_000_000
        for error, record in (
            (InvalidTimestampError, {"key": b"k", "timestamp_ms": now_ms - 120_000}),
            (InvalidTimestampError, {"key": b"k", "timestamp_ms": now_ms + 7_200_000}),
            (InvalidRecordError, {}),
            (MessageTooLargeError, {"key": bytes(200)}),
        ):
            with pytest.raises(error):
                log.append_record(b"value", **record)
            assert log.log_end_offset == 0
        assert log.append_record(b"value", b"k") == 0


def test_the_second_batch_of_one_call_must_follow_on_the_first(tmp_path):
    first = batch(2, producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    with Log(tmp_path / "log", small()) as log:
        for error, second in (
            (InvalidTxnStateError, batch(producer_id=7, producer_epoch=1, base_sequence=2)),
            (OutOfOrderSequenceError, batch(producer_id=7, producer_epoch=1, base_sequence=3, transactional=True)),
            (InvalidProducerEpochError, batch(producer_id=7, producer_epoch=0, base_sequence=2, transactional=True)),
        ):
            with pytest.raises(error):
                log.append(first + second)
            assert log.log_end_offset == 0
        third = batch(producer_id=7, producer_epoch=1, base_sequence=2, transactional=True)
        assert log.append(first + third).last_offset == 2


def test_a_repeat_returns_the_time_of_its_first_append(tmp_path):
    data = batch(2, producer_id=7, producer_epoch=0, base_sequence=0)
    with Log(tmp_path / "log", small(message_timestamp_type="LogAppendTime")) as log:
        first = log.append(data, now_ms=START_MS + 5)
        again = log.append(data, now_ms=START_MS + 9)
        assert first.log_append_time_ms == START_MS + 5
        assert (again.duplicate, again.log_append_time_ms) == (True, first.log_append_time_ms)


def test_a_record_is_kept_for_the_whole_of_its_retention_time(tmp_path: Path) -> None:
    with Log(tmp_path / "log", small(retention_ms=500)) as log:
        log.append(batch(timestamp_ms=START_MS))
        log.roll()
        assert log.apply_retention(START_MS + 500) == 0
        assert log.apply_retention(START_MS + 501) == 1


def test_the_log_start_moves_only_once_that_is_durable(tmp_path: Path) -> None:
    """A reader that saw the new start, and the old one after a crash, would see deleted records come back."""
    with Log(tmp_path / "log", small(segment_bytes=1000)) as log:
        for _ in range(10):
            log.append(batch(value=bytes(400)))
        log.flush()
        with fail_at(1, error=errno.EIO, under=tmp_path, persistent=True), pytest.raises(StorageError):
            log.delete_records(5)
        assert log.log_start_offset == 0
        assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6, 8]
    with Log(tmp_path / "log", small()) as log:
        assert log.log_start_offset == 0
