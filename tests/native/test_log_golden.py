"""Logs that Kafka wrote: opened without a change, answered as Kafka answered, and written again with the same files."""

import functools
import hashlib
import os
from pathlib import Path

import pytest

from kraft_native.batch import walk
from kraft_native.config import LogConfig
from kraft_native.log import Log
from kraft_native.producer_snapshots import read_snapshot
from tests.golden import GoldenPartition, copy_partition, needs_golden, partitions
from tests.native.logs import files, read_all

pytestmark = needs_golden

# From log-start-offset-checkpoint beside the partitions.
LOG_STARTS = {"delrec-0": 123, "delall-0": 30}


def settings_for(partition: GoldenPartition, **settings) -> LogConfig:
    compacted = partition.name.startswith(("compacted", "__"))
    return LogConfig(cleanup_policy="compact" if compacted else "delete", **settings)


@pytest.fixture(params=partitions(), ids=str)
def partition(request: pytest.FixtureRequest) -> GoldenPartition:
    return request.param


@pytest.fixture
def directory(partition: GoldenPartition, tmp_path: Path) -> Path:
    copied = copy_partition(partition, tmp_path)
    for path in (copied, *copied.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copied


@pytest.fixture
def open_log(partition: GoldenPartition, directory: Path):
    return functools.partial(Log, directory, settings_for(partition), clean=True,
                             log_start_offset=LOG_STARTS.get(partition.name, -1))


def test_opening_and_closing_changes_no_file(partition, directory):
    before = files(directory)
    with Log(directory, settings_for(partition), clean=True) as log:
        read_all(log)
    assert files(directory) == before


def test_offsets(partition, open_log):
    with open_log() as log:
        expected = partition.expected
        assert log.recovery.ignored == []
        assert log.log_start_offset == expected["earliest"]
        assert log.log_end_offset == log.high_watermark == expected["latest"]
        assert log.last_stable_offset == expected["last_stable_offset"]


def test_every_byte_of_every_batch(partition, open_log):
    with open_log() as log:
        for segment in log.segments:
            facts = partition.files[os.fsdecode(os.path.basename(segment.path))]["batches"]
            data = Path(os.fsdecode(segment.path)).read_bytes()
            if segment.next_base >= 0 and segment.next_base <= log.log_start_offset:
                continue
            for fact in facts:
                if fact["lastOffset"] < log.log_start_offset:
                    continue
                piece = log.read(max(fact["baseOffset"], log.log_start_offset), 0, "log_end")
                assert piece.first_offset == fact["baseOffset"]
                assert piece.next_offset == fact["lastOffset"] + 1
                assert bytes(piece) == data[fact["position"]:fact["position"] + fact["size"]]
            assert segment.damage == []


@pytest.mark.parametrize(("trace", "isolation"),
                         [("fetch_trace_read_committed", "read_committed"), ("fetch_trace_small", "read_uncommitted")])
def test_fetches(partition, open_log, trace, isolation):
    with open_log() as log:
        max_bytes = partition.expected[f"{trace}_max_bytes"]
        for fetch in partition.expected[trace]:
            piece = log.read(fetch["fetch_offset"], max_bytes, isolation)
            assert len(piece) == fetch["complete_batches_bytes"]
            assert piece.next_offset == fetch["next_offset"]
            if len(piece) == fetch["records_bytes"]:
                assert hashlib.sha256(piece).hexdigest() == fetch["records_sha256"]
            if fetch["aborted"] is not None:
                aborted = log.aborted_transactions(fetch["fetch_offset"], piece.next_offset)
                assert [{"producerId": entry[0], "firstOffset": entry[1]} for entry in aborted] == fetch["aborted"]


def test_times(partition, open_log):
    with open_log() as log:
        for query in partition.expected["list_offsets"]:
            expected = (query["offset"], query["timestamp"], query["leader_epoch"]) if query["offset"] >= 0 else None
            if query["query"] >= 0:
                assert log.offset_for_time(query["query"], query["isolation"]) == expected, query
            elif query["query"] == -3:
                assert log.max_timestamp() == expected, query


def test_epochs(partition, open_log):
    with open_log() as log:
        for query in partition.expected["offset_for_leader_epoch"]:
            answer = log.end_offset_for_epoch(query["query_epoch"])
            assert answer == (query["leader_epoch"], query["end_offset"]), query


def test_replay_finds_kafkas_producers(partition, directory, open_log):
    snapshot = directory / f"{partition.expected['latest']:020d}.snapshot"
    if partition.name.startswith(("compacted", "empty", "delall")) or not snapshot.exists():
        pytest.skip("its producers are not all in its batches")
    kafkas = read_snapshot(snapshot)
    for path in directory.glob("*.snapshot"):
        path.unlink()
    with open_log() as log:
        log.producers.write_snapshot(directory, log.log_end_offset)
    ours = read_snapshot(snapshot) if snapshot.exists() else []
    # At its restarts Kafka forgot producers whose records carry times long past.
    assert sorted(kafkas) == sorted(found for found in ours if found in kafkas or found.last_timestamp_ms > 1.75e12)


def written_again(partition: GoldenPartition, target: Path, interval_bytes: int) -> dict[str, bytes]:
    """The index files of a log with the same batches and the same rolls."""
    starts = sorted(int(name[:20]) for name in partition.files if name.endswith(".log"))
    with Log(target, settings_for(partition, index_interval_bytes=interval_bytes)) as log:
        if starts[0] > 0:
            log.truncate_fully_and_start_at(starts[0])
        for start in starts:
            if start > starts[0]:
                log.roll()
            data = (partition.directory / f"{start:020d}.log").read_bytes()
            for batch in walk(data):
                log.append_as_follower(bytes(batch))
    return files(target, ".log", ".index", ".timeindex", ".txnindex")


@pytest.mark.parametrize("name", ["plain-0", "txn-0", "idem-0", "java-none-0", "java-zstd-0", "rdk-lz4-0", "timeroll-0",
                                  "multi-0", "txn-multi-0", "txn-open-0", "headers-0", "delrec-0"])
def test_writing_the_same_batches_gives_the_same_files(name, tmp_path):
    partition = next(found for found in partitions() if found.name == name)
    kafkas = files(partition.directory, ".log", ".index", ".timeindex", ".txnindex")
    ours = [written_again(partition, tmp_path / str(interval), interval) for interval in (256, 512, 4096)]
    assert kafkas in ours, [sorted(name for name in kafkas if kafkas[name] != mine.get(name)) for mine in ours]
