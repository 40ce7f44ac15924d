"""A log's promises, one by one. Random histories are in test_log_machine.py, Kafka's files in test_log_golden.py."""

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kraft_native.base.errors import (
    CorruptRecordError,
    FencedLeaderEpochError,
    InvalidArgumentError,
    InvalidProducerEpochError,
    InvalidRecordError,
    InvalidTimestampError,
    LogClosedError,
    LogLockedError,
    LogReadOnlyError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    StorageError,
    WrongThreadError,
)
from kraft_native.batch.batch import MAGIC_AT, walk
from kraft_native.batch.control import control_batch, marker
from kraft_native.batch.records import records
from kraft_native.facade.log import Log
from kraft_native.file.faults import fail_at
from kraft_native.log.flusher import Flusher
from kraft_native.segment.config import FIELDS, LogConfig
from tests.native.logs import START_MS, batch, files, read_all, small


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


# --- settings ---------------------------------------------------------------------------------------------------------

def test_settings_have_kafkas_defaults_and_ranges():
    config = LogConfig()
    assert config.segment_bytes == 1 << 30
    assert config.retention_ms == 7 * 24 * 3600 * 1000
    assert config.durability == "page-cache"
    for field in FIELDS:
        assert getattr(config, field.name) == field.default
        if isinstance(field.default, str):
            with pytest.raises(InvalidArgumentError, match=f"{field.name}: 'no'"):
                LogConfig(**{field.name: "no"})
            continue
        low, high = field.allowed
        for value in (low - 1, high + 1):
            with pytest.raises(InvalidArgumentError, match=f"{field.name}: .* outside {low} to {high}"):
                LogConfig(**{field.name: value})
        with pytest.raises(InvalidArgumentError, match=f"{field.name}: 'x' is not a number"):
            LogConfig(**{field.name: "x"})


def test_settings_from_kafkas_names():
    config = LogConfig.from_kafka({"segment.bytes": "4096", "cleanup.policy": "compact, delete",
                                   "min.cleanable.dirty.ratio": "0.25"})
    assert config == LogConfig(segment_bytes=4096, cleanup_policy="compact,delete", min_cleanable_dirty_ratio=0.25)
    assert config.replace(segment_bytes=8192).segment_bytes == 8192
    assert repr(config.replace(segment_bytes=1 << 30, min_cleanable_dirty_ratio=0.5)) == (
        "LogConfig(cleanup_policy='compact,delete')")
    for settings in ({"segment.bites": "1"}, {"segment.bytes": "x"}, {"segment.bytes": "-1"}):
        with pytest.raises(InvalidArgumentError):
            LogConfig.from_kafka(settings)
    with pytest.raises(InvalidArgumentError, match="unknown setting 'segment'"):
        LogConfig(segment=1)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgumentError, match="max_compaction_lag_ms"):
        LogConfig(max_compaction_lag_ms=1, min_compaction_lag_ms=2)


# --- appending --------------------------------------------------------------------------------------------------------

def test_the_leader_assigns_offset_and_epoch_and_leaves_the_callers_bytes_alone(tmp_path):
    data = batch(3) + batch(2, codec="zstd")
    before = bytes(data)
    with Log(tmp_path / "log") as log:
        info = log.append(bytearray(data), leader_epoch=4)
        assert (info.first_offset, info.last_offset, info.duplicate, info.log_append_time_ms) == (0, 4, False, -1)
        assert info.log_start_offset == 0
        assert log.append(memoryview(data), leader_epoch=4).first_offset == 5
        stored = list(walk(read_all(log)))
        assert [(seen.base_offset, seen.last_offset, seen.leader_epoch) for seen in stored] == [
            (0, 2, 4), (3, 4, 4), (5, 7, 4), (8, 9, 4)]
        assert [bytes(seen)[MAGIC_AT:] for seen in stored] == [bytes(seen)[MAGIC_AT:] for seen in walk(data)] * 2
        with pytest.raises(FencedLeaderEpochError):
            log.append(data, leader_epoch=3)
    assert data == before


def test_an_append_is_all_or_nothing(tmp_path):
    bad = bytearray(batch(2))
    bad[30] ^= 1
    with Log(tmp_path / "log", small()) as log:
        log.append(batch())
        before = files(tmp_path / "log", ".log")
        for data, error in ((batch() + bytes(bad), CorruptRecordError), (b"", InvalidRecordError),
                            (batch()[:-1], InvalidRecordError),
                            (batch() + batch(value=bytes(1900)), MessageTooLargeError),
                            (batch(timestamp_ms=1 << 60), InvalidTimestampError)):
            with pytest.raises(error):
                log.append(data)
            assert log.log_end_offset == 1
            assert files(tmp_path / "log", ".log") == before
        assert log.failure is None


def test_one_record_at_a_time(tmp_path):
    with Log(tmp_path / "log") as log:
        assert log.append_record(b"value", b"key", START_MS, [("name", b"x"), ("none", None)]) == 0
        assert log.append_record(None, timestamp_ms=START_MS) == 1
        assert log.append_record(memoryview(b"v"), bytearray(b"k")) == 2
        first, second, third = records(read_all(log))
        assert (first.key, first.value, first.timestamp_ms, first.headers) == (
            b"key", b"value", START_MS, (("name", b"x"), ("none", None)))
        assert (second.key, second.value) == (None, None)
        assert third.timestamp_ms > START_MS
        with pytest.raises(InvalidTimestampError):
            log.append_record(b"v", timestamp_ms=1 << 60)
        with pytest.raises(MessageTooLargeError):
            log.append_record(bytes(2 << 20))
    with Log(tmp_path / "compacted", LogConfig(cleanup_policy="compact", message_timestamp_type="LogAppendTime",
                                               compression_type="lz4")) as log:
        with pytest.raises(InvalidRecordError):
            log.append_record(b"no key")
        log.append_record(b"value" * 100, b"key", 5)
        assert next(iter(walk(read_all(log)))).codec == "lz4"
        assert next(iter(records(read_all(log)))).timestamp_ms > START_MS


def test_log_append_time(tmp_path):
    with Log(tmp_path / "log", LogConfig(message_timestamp_type="LogAppendTime")) as log:
        assert log.append(batch(), now_ms=START_MS + 77).log_append_time_ms == START_MS + 77
        assert log.offset_for_time(START_MS + 77) == (0, START_MS + 77, 0)


def test_followers_keep_offsets_and_epochs(tmp_path):
    parts = [batch(2, base_offset=0, leader_epoch=1), batch(3, base_offset=2, leader_epoch=2)]
    with Log(tmp_path / "log") as log:
        info = log.append_as_follower(b"".join(parts))
        assert (info.first_offset, info.last_offset) == (0, 4)
        assert read_all(log) == b"".join(parts)
        assert log.epochs.entries() == [(1, 0), (2, 2)]
        damaged = bytearray(batch(base_offset=5, leader_epoch=2))
        damaged[-1] ^= 1
        for data, error in ((batch(base_offset=4, leader_epoch=2), InvalidRecordError),
                            (batch(base_offset=5, leader_epoch=1), FencedLeaderEpochError),
                            (bytes(damaged), CorruptRecordError), (b"", InvalidRecordError),
                            (batch(base_offset=5, leader_epoch=2)[:-1], CorruptRecordError)):
            with pytest.raises(error):
                log.append_as_follower(data)
        assert log.log_end_offset == 5
        far = batch(base_offset=1 << 40, leader_epoch=2) + batch(base_offset=1 << 42, leader_epoch=2)
        log.append_as_follower(far)
        assert bases(log) == [0, 1 << 40, 1 << 42]


def test_an_append_of_a_follower_may_fill_several_segments(tmp_path):
    data = b"".join(batch(base_offset=offset, leader_epoch=0, value=bytes(500)) for offset in range(20))
    with Log(tmp_path / "log", small()) as log:
        log.append_as_follower(data)
        assert len(log.segments) > 3
        assert read_all(log) == data


def test_a_raft_leader_numbers_its_own_batches(tmp_path):
    change = control_batch([(2, b"\0\0")], timestamp_ms=START_MS, base_offset=0, leader_epoch=3)
    with Log(tmp_path / "log") as log:
        log.append_as_raft_leader(change, 3)
        for offset, epoch in ((0, 3), (2, 3), (1, 2)):
            with pytest.raises(InvalidRecordError, match="is due"):
                log.append_as_raft_leader(batch(base_offset=offset, leader_epoch=epoch), 3)
        log.append_as_raft_leader(batch(2, base_offset=1, leader_epoch=3), 3)
        assert log.log_end_offset == 3


def test_producers_in_one_call(tmp_path):
    def sent(sequence: int, epoch: int = 0) -> bytes:
        return batch(2, producer_id=7, producer_epoch=epoch, base_sequence=sequence)

    with Log(tmp_path / "log") as log:
        log.append(sent(0) + sent(2) + sent(4))
        info = log.append(sent(2) + sent(4))
        assert (info.duplicate, info.first_offset, info.last_offset) == (True, 2, 5)
        for data, error in ((sent(6) + sent(10), OutOfOrderSequenceError), (sent(4) + sent(6), OutOfOrderSequenceError),
                            (sent(0, 1) + sent(2), InvalidProducerEpochError)):
            with pytest.raises(error):
                log.append(data)
        assert log.log_end_offset == 6
        assert log.append(sent(6) + sent(0, 1) + sent(2, 1)).last_offset == 11


def test_read_committed_ends_before_an_open_transaction(tmp_path):
    def sent(producer: int, sequence: int) -> bytes:
        return batch(producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)

    def end(producer: int, *, commit: bool) -> bytes:
        return marker(commit=commit, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=START_MS)

    with Log(tmp_path / "log") as log:
        log.append(batch() + sent(1, 0) + sent(2, 0))
        assert log.last_stable_offset == 1
        assert len(log.read(1, isolation="read_committed")) == 0
        log.append(end(2, commit=False), origin="coordinator")
        assert log.last_stable_offset == 1
        log.append(end(1, commit=True), origin="coordinator")
        assert log.last_stable_offset == log.log_end_offset == 5
        assert log.aborted_transactions(0, 5) == [(2, 2, 3, 1)]
        assert log.aborted_transactions(4, 5) == []
        with pytest.raises(InvalidRecordError):
            log.append(end(1, commit=True))


# --- rolling, retention, truncation -----------------------------------------------------------------------------------

def test_rolls_by_size_time_and_index_space(tmp_path):
    with Log(tmp_path / "size", small(segment_bytes=1000)) as log:
        for _ in range(10):
            log.append(batch(value=bytes(400)))
        assert bases(log) == [0, 2, 4, 6, 8]
    with Log(tmp_path / "time", small(segment_ms=100, segment_bytes=1 << 20)) as log:
        for time in (0, 60, 100, 101, 150, 202):
            log.append(batch(timestamp_ms=START_MS + time))
        assert bases(log) == [0, 3, 5]
    with Log(tmp_path / "index", small(segment_index_bytes=24, index_interval_bytes=0, segment_bytes=1 << 20)) as log:
        for time in range(7):
            log.append(batch(timestamp_ms=START_MS + time))
        assert bases(log) == [0, 2, 4, 6]
    with Log(tmp_path / "hand") as log:
        log.roll()
        assert bases(log) == [0]


def test_retention_by_size_and_time(tmp_path):
    config = small(segment_bytes=1000, retention_bytes=2000, retention_ms=-1)
    with Log(tmp_path / "log", config) as log:
        for index in range(10):
            log.append(batch(value=bytes(400), timestamp_ms=START_MS + 100 * index))
        assert log.apply_retention(START_MS) == 2
        assert (bases(log), log.log_start_offset) == ([4, 6, 8], 4)
        log.reconfigure(config.replace(retention_bytes=-1, retention_ms=500))
        assert log.apply_retention(START_MS + 1201) == 2
        assert bases(log) == [8]
        assert log.apply_retention(START_MS + 5000) == 1      # the active one too: a new, empty one takes its place
        assert (bases(log), log.log_start_offset, log.size_bytes) == ([10], 10, 0)
        assert log.apply_retention(START_MS + 9000) == 0
    with Log(tmp_path / "log", config) as log:
        assert (log.log_start_offset, log.log_end_offset) == (10, 10)
        assert log.epochs.entries() == [(0, 0)]        # an epoch stays where it began


def test_retention_stops_at_the_high_watermark(tmp_path):
    with Log(tmp_path / "log", small(segment_bytes=1000, retention_bytes=0, high_watermark="manual")) as log:
        for _ in range(10):
            log.append(batch(value=bytes(400)))
        log.set_high_watermark(5)
        assert log.apply_retention(START_MS) == 2
        assert bases(log) == [4, 6, 8]
        with pytest.raises(OffsetOutOfRangeError):
            log.delete_records(6)


def test_deleted_records_stay_deleted(tmp_path):
    with Log(tmp_path / "log", small(segment_bytes=1000)) as log:
        for _ in range(10):
            log.append(batch(value=bytes(400)))
        assert log.delete_records(5) == 5
        assert bases(log) == [4, 6, 8]
        assert log.delete_records(3) == 5
        with pytest.raises(OffsetOutOfRangeError):
            log.read(4)
    with Log(tmp_path / "log", small()) as log:
        assert log.log_start_offset == 5
        assert log.offset_for_time(START_MS)[0] == 5
        assert log.delete_records(10) == 10
        assert len(log.read(10)) == 0


def test_truncation_takes_epochs_and_producers_with_it(tmp_path):
    with Log(tmp_path / "log", small(segment_bytes=600)) as log:
        for epoch in range(5):
            for sequence in range(3):
                log.append(batch(2, producer_id=1, producer_epoch=0, base_sequence=epoch * 6 + sequence * 2),
                           leader_epoch=epoch)
        assert log.truncate_to(15)
        assert log.log_end_offset == 14                        # the batch boundary below
        assert log.epochs.entries() == [(0, 0), (1, 6), (2, 12)]
        assert log.producers.describe()[0].last_sequence == 13
        again = batch(2, producer_id=1, producer_epoch=0, base_sequence=14)
        assert log.append(again, leader_epoch=2).first_offset == 14
        assert not log.truncate_to(99)
        log.truncate_fully_and_start_at(1000)
        assert (log.log_start_offset, log.log_end_offset, bases(log)) == (1000, 1000, [1000])
        assert log.append(batch(), leader_epoch=9).first_offset == 1000
        assert log.truncate_to(10)                             # below the first segment: everything is removed
        assert (log.log_start_offset, log.log_end_offset) == (10, 10)


def test_the_high_watermark_goes_forward_only_and_limits_readers(tmp_path):
    with Log(tmp_path / "log", small(high_watermark="manual")) as log:
        for _ in range(5):
            log.append(batch())
        assert log.high_watermark == 0
        assert len(log.read(0)) == 0
        assert log.set_high_watermark(3) == 3
        assert log.set_high_watermark(2) == 3
        assert log.read(0).next_offset == 3
        assert log.read(0, isolation="log_end").next_offset == 5
        assert len(log.read(4)) == 0
        assert log.set_high_watermark(9) == 5
        log.truncate_to(2)
        assert log.high_watermark == 2
    with Log(tmp_path / "log", small(high_watermark="manual")) as log:
        assert log.high_watermark == 2
    with Log(tmp_path / "log") as log, pytest.raises(InvalidArgumentError):
        log.set_high_watermark(1)


# --- durability and failure -------------------------------------------------------------------------------------------

def test_group_commit_shows_only_what_is_durable(tmp_path):
    with Flusher(linger_us=50_000_000, bytes_trigger=1 << 30) as flusher, \
            Log(tmp_path / "log", small(durability="group-commit"), flusher=flusher) as log:
        offset = log.append(batch()).first_offset
        assert (log.durable_end_offset, log.high_watermark) == (0, 0)
        assert log.wait_durable(offset + 1, 60)
        assert (log.durable_end_offset, log.high_watermark) == (1, 1)
        assert log.flush()


def test_per_append_is_durable_at_once(tmp_path):
    with Log(tmp_path / "log", small(durability="per-append", segment_bytes=600)) as log:
        for offset in range(10):
            log.append(batch(value=bytes(200)))
            assert log.durable_end_offset == log.high_watermark == offset + 1


@pytest.mark.parametrize("durability", ["page-cache", "group-commit", "per-append"])
@pytest.mark.parametrize("size", [100, 20_000])
def test_a_failed_write_makes_the_log_read_only(tmp_path, durability, size):
    log = Log(tmp_path / "log", LogConfig(durability=durability))
    for _ in range(3):
        log.append(batch(value=bytes(size)))
    log.flush()
    before = read_all(log)
    with fail_at(1, error=errno.ENOSPC, persistent=True, kinds=frozenset({"write", "allocate"}), under=tmp_path), \
            pytest.raises(StorageError):
        for _ in range(1 + (1 << 20) // size):
            log.append(batch(value=bytes(size)))
    end = log.log_end_offset
    for attempt in (lambda: log.append(batch()), lambda: log.append_record(b"v"), lambda: log.truncate_to(0),
                    lambda: log.flush(), lambda: log.roll(), lambda: log.delete_records(1)):
        with pytest.raises(LogReadOnlyError) as caught:
            attempt()
        assert caught.value.cause is log.failure
    assert log.log_end_offset == end
    assert read_all(log).startswith(before)
    log.close()
    with Log(tmp_path / "log") as log:
        assert read_all(log).startswith(before)
        assert log.append(batch()).first_offset >= 3


@pytest.mark.parametrize("durability", ["group-commit", "per-append"])
def test_a_failed_flush_is_never_acknowledged(tmp_path, durability):
    log = Log(tmp_path / "log", small(durability=durability))
    log.append(batch())
    log.flush()
    with fail_at(1, error=errno.EIO, kinds=frozenset({"datasync"}), under=tmp_path):
        # The flusher may have failed before `flush` is called; then the log is already read-only, with that cause.
        with pytest.raises((StorageError, LogReadOnlyError)) as caught:
            log.append(batch())
            log.flush()
        first = caught.value.cause if isinstance(caught.value, LogReadOnlyError) else caught.value
        assert isinstance(first, StorageError)
        assert first.errno == errno.EIO
        for _ in range(2):
            with pytest.raises(LogReadOnlyError):
                log.append(batch())
    assert log.durable_end_offset == 1
    assert log.high_watermark == 1
    assert bytes(log.read(0)) == read_all(log)[:len(log.read(0))]
    log.close()


def test_the_mark_of_a_clean_stop_goes_before_the_first_change(tmp_path):
    state = tmp_path / "log" / "kraft-log-state"
    with Log(tmp_path / "log") as log:
        log.append(batch())
    assert b"clean=1" in state.read_bytes()
    with Log(tmp_path / "log") as log:
        read_all(log)
        assert b"clean=1" in state.read_bytes()
        log.append(batch())
        assert b"clean=0" in state.read_bytes()
    assert b"clean=1" in state.read_bytes()


def test_a_killed_process_loses_nothing_that_was_in_the_page_cache(tmp_path):
    script = ("import os, sys; from kraft_native.facade.log import Log; from tests.native.logs import batch, small\n"
              "log = Log(sys.argv[1], small())\n"
              "for index in range(50): log.append(batch(2)); log.append_record(b'v%d' % index)\n"
              "os._exit(9)")
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "log")], check=False)
    assert done.returncode == 9
    with Log(tmp_path / "log", small()) as log:
        assert log.log_end_offset == 150
        assert [record.offset for record in records(read_all(log))] == list(range(150))
        assert log.append(batch()).first_offset == 150


def test_checkpoint_moves_the_recovery_point(tmp_path):
    with Log(tmp_path / "log", small(durability="group-commit")) as log:
        for _ in range(30):
            log.append(batch())
        log.flush()
        # An open always reads the active segment.
        assert 0 < log.checkpoint() == log.recovery_point == log.segments[-1].base_offset


# --- access and settings ----------------------------------------------------------------------------------------------

def test_one_writer(tmp_path):
    with Log(tmp_path / "log"):
        with pytest.raises(LogLockedError):
            Log(tmp_path / "log")
        script = "import sys; from kraft_native.facade.log import Log; Log(sys.argv[1])"
        done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "log")], check=False, capture_output=True)
        assert b"LogLockedError" in done.stderr
    Log(tmp_path / "log").close()


def test_one_thread(tmp_path):
    errors: list[BaseException] = []

    def use(log: Log) -> None:
        for call in (lambda: log.append(batch()), lambda: log.read(0), lambda: log.append_record(b"v"), log.close):
            try:
                call()
            except WrongThreadError as error:
                errors.append(error)

    with Log(tmp_path / "log") as log:
        thread = threading.Thread(target=use, args=(log,))
        thread.start()
        thread.join()
        assert len(errors) == 4
        log.append(batch())
        piece = log.read(0)
        seen: list[bytes] = []
        thread = threading.Thread(target=lambda: seen.append(bytes(piece)))
        thread.start()
        thread.join()
        assert seen == [bytes(piece)]


def test_a_closed_log_refuses(tmp_path):
    log = Log(tmp_path / "log")
    log.append(batch())
    log.close()
    log.close()
    for call in (lambda: log.append(batch()), lambda: log.append_record(b"v"), lambda: log.read(0),
                 lambda: log.truncate_to(0), lambda: log.flush(), lambda: log.poll(), lambda: log.arm(1)):
        with pytest.raises(LogClosedError):
            call()
    assert "closed" in repr(log)


def test_reads_outside_the_log(tmp_path):
    with Log(tmp_path / "log") as log:
        log.append(batch(3))
        for offset in (-1, 4):
            with pytest.raises(OffsetOutOfRangeError):
                log.read(offset)
        piece = log.read(3)
        assert (len(piece), piece.first_offset, piece.next_offset) == (0, -1, 3)
        assert log.read(1).first_offset == 0
        assert len(log.read(0, 0)) > 0
        for arguments in ((0, -1), (0, 1, "dirty")):
            with pytest.raises(InvalidArgumentError):
                log.read(*arguments)


def test_waiting_readers_are_woken_once(tmp_path):
    eventfd = os.eventfd(0, os.EFD_NONBLOCK)
    try:
        with Log(tmp_path / "log") as log:
            log.append(batch())
            log.arm(eventfd)
            with pytest.raises(BlockingIOError):
                os.eventfd_read(eventfd)
            log.append(batch())
            log.append(batch())
            assert os.eventfd_read(eventfd) == 1
            log.arm(eventfd)
            log.disarm(eventfd)
            log.append(batch())
            with pytest.raises(BlockingIOError):
                os.eventfd_read(eventfd)
    finally:
        os.close(eventfd)


def test_settings_change_while_the_log_is_open(tmp_path):
    with Log(tmp_path / "log", small()) as log:
        log.reconfigure(small(segment_bytes=500))
        for _ in range(6):
            log.append(batch(value=bytes(200)))
        assert len(log.segments) > 2
        seen = log.log_end_offset
        log.reconfigure(small(high_watermark="manual"))
        log.append(batch(2))
        assert log.high_watermark == seen
        assert log.set_high_watermark(seen + 1) == seen + 1
        log.reconfigure(small())
        assert log.high_watermark == seen + 2


DURABILITIES = ("page-cache", "group-commit", "per-append")


@pytest.mark.parametrize("before", DURABILITIES)
@pytest.mark.parametrize("after", DURABILITIES)
def test_durability_changes_while_the_log_is_open(tmp_path, before, after):
    """Visible records stay visible, later ones follow the new class, over a roll too."""
    with Log(tmp_path / "log", small(durability=before, segment_bytes=600)) as log:
        for _ in range(3):
            log.append(batch(value=bytes(200)))
        seen = log.high_watermark
        log.reconfigure(small(durability=after, segment_bytes=600))
        assert log.high_watermark >= seen
        if before != after:
            assert log.durable_end_offset == 3
        for _ in range(3):
            log.append(batch(value=bytes(200)))
        if after == "per-append":
            assert log.durable_end_offset == 6
        log.flush()
        assert log.durable_end_offset == log.high_watermark == 6
        assert len(log.segments) > 1
    with Log(tmp_path / "log") as log:
        assert log.log_end_offset == 6


@pytest.mark.parametrize("durability", DURABILITIES)
def test_only_a_log_that_does_not_flush_all_the_time_writes_through_mapped_pages(tmp_path, durability):
    """The first store into each page after a flush would be a fault, and would cause a large page to be written
    whole."""

    def mapped_to_be_written() -> int:
        lines = Path("/proc/self/maps").read_text().splitlines()
        return sum(" rw-s " in line and line.endswith(f"/{name}") for line in lines)

    name = f"{tmp_path.name}/log/{0:020}.log"
    with Log(tmp_path / "log", small(durability=durability)) as log:
        log.append_record(b"first")
        assert mapped_to_be_written() == (durability == "page-cache")
    with Log(tmp_path / "log", small()) as log:
        log.reconfigure(small(durability=durability))
        log.append_record(b"second")
        assert mapped_to_be_written() == (durability == "page-cache")
        log.flush()
        assert [record.value for record in records(bytes(log.read(0)))] == [b"first", b"second"]


def test_many_segments_open_without_being_touched(tmp_path):
    directory = tmp_path / "log"
    with Log(directory, small(segment_bytes=300)) as log:
        for _ in range(200):
            log.append(batch(value=bytes(200)))
    with Log(directory, small()) as log:
        assert len(log.segments) == 200
        assert not any(segment.indexes_ready for segment in log.segments[:-1])
        assert log.read(77).first_offset == 77
        assert [segment.base_offset for segment in log.segments if segment.verified_to] == [77, 199]


def test_leftovers_of_a_crash_are_removed(tmp_path):
    directory = tmp_path / "log"
    with Log(directory) as log:
        log.append(batch())
    for name in ("00000000000000000000.log.deleted", "00000000000000000000.log.cut", "kraft-log-state.tmp"):
        (directory / name).write_bytes(b"x")
    with Log(directory):
        assert not [path for path in Path(directory).iterdir() if path.suffix in (".deleted", ".cut", ".tmp")]
