"""Compaction against an oracle of Kafka's rules, and on Kafka's own compacted logs."""

import os
import shutil
from pathlib import Path

import pytest

from kraft_native.base.errors import (
    CorruptLogError,
    InvalidArgumentError,
    OperationError,
)
from kraft_native.batch.records import BatchBuilder
from kraft_native.batch.records import records as records_of
from kraft_native.compact.cleaner import CleanerStats
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig
from tests.golden import copy_partition, needs_golden, partitions
from tests.oracle import cleaner as oracle

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CODECS = ("none", "none", "lz4", "zstd", "gzip", "snappy")


def config(**settings) -> LogConfig:
    return LogConfig(**{
        "cleanup_policy": "compact", "segment_bytes": 1500, "index_interval_bytes": 200, "delete_retention_ms": 1000,
        "min_cleanable_dirty_ratio": 0.0, "producer_id_expiration_ms": 1 << 60, "segment_ms": 1 << 50,
    } | settings)


def batch(records, *, codec="none", timestamp_ms=START_MS, transactional=False, producer=(-1, -1, -1)) -> bytes:
    """Build a batch. `records`: (key, value) pairs, one offset each."""
    builder = BatchBuilder(codec, transactional=transactional)
    for number, (key, value) in enumerate(records):
        builder.append(value, key, timestamp_ms + number, [("h", b"x")] if number % 3 == 0 else [])
    return builder.build(producer_id=producer[0], producer_epoch=producer[1], base_sequence=producer[2])


def stored(log: Log) -> list[oracle.Facts]:
    """Return every batch of the log's files."""
    return [found for segment in log.segments
            for found in oracle.batches(Path(os.fsdecode(segment.path)).read_bytes()[:segment.size])]


def offsets(facts: list[oracle.Facts]) -> list[int]:
    return [each.base_offset + record.offset_delta for each in facts for record in each.records]


def values(log: Log) -> dict[bytes, tuple[int, bytes | None]]:
    return oracle.committed_values(stored(log))


def expected(log: Log, first_dirty: int, now_ms: int) -> list[oracle.Facts]:
    """Return the oracle's result for the log's files."""
    producers = {state.producer_id: (state.last_offset if state.last_offset >= 0 else None, state.producer_epoch)
                 for state in log.producers.describe()}
    limit = min(log.last_stable_offset, log.segments[-1].base_offset)
    upper = max(segment.base_offset for segment in log.segments if segment.base_offset <= max(limit, first_dirty))
    return oracle.compact(stored(log), oracle.Round(first_dirty, upper, now_ms, log.config.delete_retention_ms,
                                                    producers))


def check_structure(log: Log) -> None:
    """Check the segments' invariants and indexes; every batch can be reached by its offsets and by time."""
    bases = [segment.base_offset for segment in log.segments]
    assert bases == sorted(set(bases))
    assert [segment.next_base for segment in log.segments] == [*bases[1:], -1]
    on_disk = sorted(name for name in os.listdir(log.directory) if name.endswith((".log", ".swap", ".cleaned")))
    assert on_disk == [f"{base:020}.log" for base in bases]
    for segment in log.segments:
        for found in oracle.batches(Path(os.fsdecode(segment.path)).read_bytes()[:segment.size]):
            assert segment.base_offset <= found.base_offset
            assert segment.next_base < 0 or found.last_offset < segment.next_base
            for offset in (found.base_offset, found.last_offset):
                if offset >= log.log_start_offset:
                    piece = log.read(offset, isolation="log_end")
                    assert piece.first_offset == found.base_offset
    # Kafka ends a search by time at a segment without batches, by the time of its file.
    for each in stored(log) if all(segment.size for segment in log.segments) else ():
        for record in each.records:
            assert log.offset_for_time(record.timestamp_ms, "log_end") is not None


def test_records_after_a_truncation_are_dirty_again(tmp_path: Path) -> None:
    """Records that replace truncated ones have never been compacted with the records before them."""
    with Log(tmp_path / "log", config()) as log:
        for number in range(4):
            log.append(batch([(b"k%d" % number, b"old")]))
        log.roll()
        log.compact(START_MS)
        log.truncate_to(2)
        log.append(batch([(b"k0", b"new")]))
        log.append(batch([(b"k1", b"new")]))
        log.roll()
        log.compact(START_MS)
        assert offsets(stored(log)) == [2, 3]


def test_the_latest_value_of_each_key_stays(tmp_path):
    settings = config(segment_bytes=8000)
    with Log(tmp_path, settings) as log:
        for number in range(60):
            log.append(batch([(b"k%d" % (number % 7), b"value %d" % number)] * 3))
            if number % 13 == 12:
                log.roll()
        before = values(log)
        end = log.log_end_offset
        wanted = expected(log, 0, START_MS)
        stats = log.compact(START_MS)
        assert isinstance(stats, CleanerStats)
        assert stored(log) == wanted
        check_structure(log)
        assert values(log) == before
        assert log.log_end_offset == end
        assert stats.rounds == 1
        assert stats.bytes_after == log.size_bytes < stats.bytes_before
        assert stats.segments_after == len(log.segments) < stats.segments_before
        assert stats.map_keys == 7
        assert stats.first_dirty_offset == log.segments[-1].base_offset
        assert stats.records_read == stats.first_dirty_offset
        assert log.compact(START_MS).rounds == 0
    with Log(tmp_path, settings) as log:
        assert values(log) == before
        check_structure(log)
        assert log.compact(START_MS).rounds == 0


def test_tombstones_vanish_after_their_horizon_only(tmp_path):
    with Log(tmp_path, config()) as log:
        log.append(batch([(b"a", b"1"), (b"b", b"1")]))
        log.append(batch([(b"a", None)]))
        log.roll()
        log.append(batch([(b"c", b"1")]))
        log.compact(START_MS)
        assert values(log)[b"a"] == (2, None)
        dead = next(each for each in stored(log) if each.base_offset == 2)
        assert dead.attributes & 0x40
        assert dead.base_timestamp == START_MS + 1000
        assert dead.records[0].timestamp_ms == START_MS
        log.compact(START_MS + 999, force=True)
        assert b"a" in values(log)
        log.compact(START_MS + 1000, force=True)
        assert b"a" not in values(log)
        assert sorted(values(log)) == [b"b", b"c"]
        assert [each.records for each in stored(log) if each.base_offset == 2] == [[]]  # the end of the round


def test_records_without_a_key_go(tmp_path):
    with Log(tmp_path, config(cleanup_policy="delete")) as log:
        log.append(batch([(None, b"1"), (b"a", b"2"), (None, b"3")]))
        log.append(batch([(b"b", b"4")]))
        log.roll()
        with pytest.raises(InvalidArgumentError, match="cleanup_policy: 'delete'"):
            log.compact()
        log.reconfigure(config())
        stats = log.compact(START_MS)
        assert stats.records_without_key == 2
        assert offsets(stored(log)) == [1, 3]


def test_a_log_with_nothing_to_compact_keeps_its_files_as_they_are(tmp_path):
    """A broker checks hundreds of logs repeatedly: none of them may cost a flush."""
    with Log(tmp_path / "log", config()) as log:
        log.begin_epoch(3, at_once=False)
        before = sorted(os.listdir(tmp_path / "log"))
        log.compact(START_MS)
        assert sorted(os.listdir(tmp_path / "log")) == before
        assert log.epochs.latest_epoch == 3


def test_untouched_segments_are_not_rewritten(tmp_path):
    with Log(tmp_path, config(segment_bytes=1200)) as log:
        for number in range(40):
            log.append(batch([(b"key %d" % number, bytes(900))]))
        inodes = {segment.path: os.stat(segment.path).st_ino for segment in log.segments}
        stats = log.compact(START_MS)
        assert (stats.rounds, stats.segments_rewritten, stats.bytes_written) == (1, 0, 0)
        assert {segment.path: os.stat(segment.path).st_ino for segment in log.segments} == inodes


def test_log_append_time_and_codecs(tmp_path):
    settings = {"message_timestamp_type": "LogAppendTime"}
    with Log(tmp_path, config(**settings)) as log:
        for number in range(24):
            log.append(batch([(b"%d" % (number % 5), b"v" * 40), (b"x", b"1"), (b"y%d" % number, None)],
                             codec=CODECS[number % 6], timestamp_ms=START_MS - 5000), now_ms=START_MS + number)
        wanted = expected(log, 0, START_MS)
        log.compact(START_MS)
        assert stored(log) == wanted
        check_structure(log)
        wanted = expected(log, log.compact(START_MS).first_dirty_offset, START_MS + 1000)
        log.compact(START_MS + 1000, force=True)
        assert stored(log) == wanted


def test_large_batches_and_many_index_entries(tmp_path):
    """Batches above the buffers' sizes, runs written in place, more index entries than are buffered at a time."""
    with Log(tmp_path, config(segment_bytes=6 << 20, index_interval_bytes=0, max_message_bytes=4 << 20,
                              decompress_ratio_max=1 << 30)) as log:
        for number in range(700):
            log.append(batch([(b"small %d" % (number % 650), b"v" * 900)]))
        log.append(batch([(b"large %d" % number, bytes(1 << 20)) for number in range(3)]))
        log.append(batch([(b"large 1", b"x"), (b"packed", bytes(2 << 20))], codec="zstd"))
        log.append(batch([(b"packed", b"x"), (b"small 1", b"y")], codec="zstd"))
        log.roll()
        before = values(log)
        log.compact(START_MS)
        assert values(log) == before
        assert len(offsets(stored(log))) == len(before)
        check_structure(log)


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) << 10


def test_a_small_map_takes_several_rounds_and_little_memory(tmp_path):
    """64 MiB of log in eight segments, with four times as many keys as the map holds."""
    settings = config(segment_bytes=8 << 20, max_message_bytes=2 << 20)
    with Log(tmp_path, settings) as log:
        for number in range(64):
            log.append(batch([(b"key %d" % (number * 200 + k), b"w") for k in range(250)]))
            log.append(batch([(b"large %d" % (number % 40), bytes(1 << 20))]))
        log.roll()
    with Log(tmp_path, settings) as log:
        before = resident_bytes()
        sizes = []
        stats = log.compact(START_MS, buffer_bytes=100 << 10, force=True,
                            progress=lambda *_: sizes.append(resident_bytes() - before))
        assert stats.rounds >= 4
        assert stats.map_keys <= (100 << 10) // 24
        assert len(sizes) > 8
        assert max(sizes) < 16 << 20
        assert stats.first_dirty_offset == log.log_end_offset
        assert stats.bytes_before > 64 << 20
        found = {}
        for segment in log.segments:
            for each in records_of(Path(os.fsdecode(segment.path)).read_bytes()):
                assert each.key not in found
                found[each.key] = each.offset
        assert len(found) == 64 * 200 + 50 + 40


def test_lags_and_ratio(tmp_path):
    settings = {"min_cleanable_dirty_ratio": 0.6, "min_compaction_lag_ms": 100}
    with Log(tmp_path, config(**settings)) as log:
        def fill(timestamp_ms):
            for _ in range(20):
                log.append(batch([(b"a", b"v" * 100)], timestamp_ms=timestamp_ms))
            log.roll()

        fill(START_MS)
        assert log.compact(START_MS + 99, force=True).rounds == 0
        stats = log.compact(START_MS + 100)
        assert (stats.rounds, stats.records_kept) == (1, 1)
        log.append(batch([(b"a", b"1")], timestamp_ms=START_MS))
        log.roll()
        stats = log.compact(START_MS + 500)
        assert stats.rounds == 0  # a dirty ratio of about one half
        log.reconfigure(config(**settings, max_compaction_lag_ms=400))
        assert log.compact(START_MS + 400).rounds == 0
        assert log.compact(START_MS + 402).rounds == 1


def test_progress_is_reported_and_may_end_it(tmp_path):
    with Log(tmp_path, config()) as log:
        for number in range(60):
            log.append(batch([(b"k%d" % (number % 7), b"value %d" % number)] * 3))
        before = stored(log)

        def stop(done, total):
            raise KeyboardInterrupt

        reported = []
        with pytest.raises(KeyboardInterrupt):
            log.compact(START_MS, progress=stop)
        assert not [name for name in os.listdir(tmp_path) if "cleaned" in name]
        log.compact(START_MS, force=True, progress=lambda done, total: reported.append((done, total)))
        assert reported
        assert all(0 <= done <= total for done, total in reported)
        assert values(log) == oracle.committed_values(before)


def test_the_log_must_not_change_meanwhile(tmp_path):
    with Log(tmp_path, config(segment_bytes=40 << 20, max_message_bytes=9 << 20)) as log:
        for _ in range(3):
            log.append(batch([(b"%d" % k, bytes(1 << 20)) for k in range(8)]))
        log.append(batch([(b"a", b"1")]))
        log.roll()

        def meddle(done, total):
            if total > log.size_bytes:      # the second walk
                log.truncate_to(9)

        with pytest.raises(OperationError, match="truncated or closed"):
            log.compact(START_MS, progress=meddle)
        assert log.log_end_offset == 8
        assert not [name for name in os.listdir(tmp_path) if "cleaned" in name]


@pytest.mark.parametrize("part", ["records", "base offset"])
def test_damage_ends_it(tmp_path, part):
    with Log(tmp_path, config()) as log:
        for number in range(60):
            log.append(batch([(b"k%d" % (number % 7), b"value %d" % number)] * 3))
        path = Path(os.fsdecode(log.segments[2].path))
        size = log.segments[2].size
    data = bytearray(path.read_bytes())
    data[size // 2 if part == "records" else 3] ^= 1
    path.write_bytes(data)
    with Log(tmp_path, config()) as log:
        before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path) if name.endswith(".log")}
        with pytest.raises(CorruptLogError) as raised:
            log.compact(START_MS)
        assert raised.value.path == str(path)
        assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)
                if name.endswith((".log", ".cleaned"))} == before
        assert log.failure is None
        log.append(batch([(b"a", b"1")]))


def test_slices_and_snapshots(tmp_path):
    """Slices of compacted segments stay readable; snapshots stay only where a segment begins."""
    with Log(tmp_path, config()) as log:
        for number in range(60):
            log.append(batch([(b"k%d" % (number % 7), b"value %d" % number)] * 3))
        pinned = log.read(0)
        copy = bytes(pinned)
        log.compact(START_MS)
        assert bytes(pinned) == copy
        del pinned
        snapshots = {name[:20] for name in os.listdir(tmp_path) if name.endswith(".snapshot")}
        assert snapshots <= {f"{segment.base_offset:020}" for segment in log.segments}


# --- Kafka's compacted logs


@needs_golden
@pytest.mark.parametrize("partition", [each for each in partitions() if each.name.startswith("compacted")], ids=str)
def test_golden(tmp_path, partition):
    """A log that Kafka compacted stays as it is; compacting the rest agrees with the oracle."""
    settings = {"segment_bytes": 2048, "index_interval_bytes": 256,
                "delete_retention_ms": 0 if "notomb" in partition.name else DAY_MS}
    directory = copy_partition(partition, tmp_path)
    for path in directory.iterdir():
        path.chmod(0o644)
    horizons = [each.base_timestamp for name in sorted(os.listdir(directory)) if name.endswith(".log")
                for each in oracle.batches((directory / name).read_bytes()) if each.attributes & 0x40]
    now_ms = max(horizons, default=START_MS) - DAY_MS + 1
    checkpoint = partition.directory.parent / "cleaner-offset-checkpoint"
    shutil.copy(checkpoint, tmp_path / checkpoint.name)
    (tmp_path / checkpoint.name).chmod(0o644)
    with Log(directory, config(**settings), clean=True) as log:
        files = {segment.path: Path(os.fsdecode(segment.path)).read_bytes() for segment in log.segments}
        first_dirty = {"compacted-0": 561, "compacted-notomb-0": 481, "compacted-txn-0": 67}[partition.name]
        before = values(log)
        wanted = expected(log, first_dirty, now_ms)
        stats = log.compact(now_ms, force=True)
        assert stats.first_dirty_offset >= first_dirty
        assert stored(log) == wanted
        check_structure(log)
        if partition.name == "compacted-0":
            assert values(log) == before
            assert [each for each in wanted if each.base_offset < 561] == \
                   [each for path in files for each in oracle.batches(files[path]) if each.base_offset < 561]
