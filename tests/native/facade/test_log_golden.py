"""Logs that Kafka wrote: opened without a change, answered as Kafka answered, and written again with the same files."""

import functools
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft_native.batch.batch import walk
from kraft_native.batch.records import Record, records
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig
from kraft_native.segment.producer_snapshots import read_snapshot
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


def consumed(log: Log, isolation: str) -> Iterator[Record]:
    """Return the records that a consumer of the isolation level sees."""
    start, end = log.log_start_offset, log.log_end_offset
    aborted = log.aborted_transactions(start, end) if isolation == "read_committed" else []
    for batch in walk(read_all(log, isolation=isolation)):
        hidden = batch.is_transactional and any(
            producer_id == batch.producer_id and first <= batch.base_offset <= last
            for producer_id, first, last, _ in aborted)
        if not batch.is_control and not hidden:
            yield from (record for record in records(batch) if record.offset >= start)


def shown(name: str, value: bytes | None) -> dict[str, object]:
    """Return a key or value in the form of the expectations: large ones by length and digest."""
    if value is None or len(value) <= 64:
        return {name: None if value is None else value.hex()}
    return {f"{name}_ref": {"len": len(value), "sha256": hashlib.sha256(value).hexdigest()}}


def test_records_field_by_field(partition, open_log):
    with open_log() as log:
        found = [{"offset": record.offset, "timestamp": record.timestamp_ms, "timestamp_type": record.timestamp_type,
                  "leader_epoch": record.leader_epoch, **shown("key", record.key), **shown("value", record.value),
                  "headers": [[name, None if value is None else value.hex()] for name, value in record.headers]}
                 for record in consumed(log, "read_uncommitted")]
    assert len(found) == partition.expected["records_uncommitted"]
    assert found == partition.records()


def test_offsets_that_a_committed_consumer_sees(partition, open_log):
    with open_log() as log:
        found = [record.offset for record in consumed(log, "read_committed")]
    ranges = partition.expected["read_committed_offsets"]
    assert found == [offset for first, last in ranges for offset in range(first, last + 1)]


def test_batches_field_by_field(partition, open_log):
    with open_log() as log:
        found = []
        start = log.log_start_offset
        for batch in walk(read_all(log)):
            timestamp = "CreateTime" if batch.timestamp_type == "CreateTime" else "LogAppendTime"
            sequences = (-1, -1) if batch.base_sequence < 0 else (
                batch.base_sequence, batch.base_sequence + batch.last_offset - batch.base_offset)
            found.append({
                "baseOffset": batch.base_offset, "lastOffset": batch.last_offset, "count": batch.record_count,
                "baseSequence": sequences[0], "lastSequence": sequences[1], "producerId": batch.producer_id,
                "producerEpoch": batch.producer_epoch, "partitionLeaderEpoch": batch.leader_epoch,
                "isTransactional": batch.is_transactional, "isControl": batch.is_control,
                "deleteHorizonMs": batch.delete_horizon_ms, timestamp: batch.max_timestamp_ms,
                "size": batch.size_in_bytes, "magic": batch.magic, "compresscodec": batch.codec, "crc": batch.crc,
                "isvalid": True})
    wanted = [{name: value for name, value in fact.items() if name != "position"}
              for file, facts in sorted(partition.files.items()) if file.endswith(".log")
              for fact in facts["batches"] if fact["lastOffset"] >= start]
    assert found == wanted


def test_index_entries(partition, open_log):
    with open_log() as log:
        for segment in log.segments:
            def entries(suffix, base=segment.base_offset):
                return partition.files.get(f"{base:020d}{suffix}", {"entries": []})["entries"]

            assert list(segment.offset_index) == [(fact["offset"], fact["position"]) for fact in entries(".index")]
            assert list(segment.time_index) == [(fact["timestamp"], fact["offset"]) for fact in entries(".timeindex")]
            assert list(segment.txn_index) == [
                (fact["producerId"], fact["firstOffset"], fact["lastOffset"], fact["lastStableOffset"])
                for fact in entries(".txnindex")]


def test_producers_are_those_of_the_snapshot(partition, directory, open_log):
    facts = partition.files.get(f"{partition.expected['latest']:020d}.snapshot", {"entries": []})["entries"]
    recent = [(fact["producerId"], fact["producerEpoch"], fact["coordinatorEpoch"], fact.get("lastSequence", -1),
               fact.get("lastOffset", -1), -1 if fact["currentTxnFirstOffset"] is None
               else fact["currentTxnFirstOffset"])
              for fact in facts]
    with Log(directory, settings_for(partition, producer_id_expiration_ms=1 << 60), clean=True,
             log_start_offset=LOG_STARTS.get(partition.name, -1)) as log:
        assert log.producers.write_snapshot(directory, log.log_end_offset + 1)
    found = read_snapshot(directory / f"{partition.expected['latest'] + 1:020d}.snapshot")
    assert sorted((one.producer_id, one.producer_epoch, one.coordinator_epoch, one.last_sequence, one.last_offset,
                   one.txn_first_offset) for one in found) == sorted(recent)


def test_times(partition, open_log):
    with open_log() as log:
        for query in partition.expected["list_offsets"]:
            expected = (query["offset"], query["timestamp"], query["leader_epoch"]) if query["offset"] >= 0 else None
            if query["query"] >= 0:
                assert log.offset_for_time(query["query"], query["isolation"]) == expected, query
            elif query["query"] == -3:
                assert log.max_timestamp() == expected, query
            elif query["query"] == -1:
                limit = log.high_watermark if query["isolation"] == "read_uncommitted" else log.last_stable_offset
                assert query["offset"] == limit, query
            elif query["query"] in (-2, -4):
                assert query["offset"] == log.log_start_offset, query
            else:
                assert (query["query"], query["offset"]) == (-5, -1), query     # nothing is in remote storage


def test_epochs(partition, open_log):
    with open_log() as log:
        for query in partition.expected["offset_for_leader_epoch"]:
            answer = log.end_offset_for_epoch(query["query_epoch"])
            assert answer == (query["leader_epoch"], query["end_offset"]), query
        lines = partition.expected["dump"]["leader_epoch_checkpoint"].splitlines()[2:]
        wanted = [tuple(map(int, line.split())) for line in lines]
        # The first one is moved up to the log start, as Kafka does when it opens the log.
        assert log.epochs.entries() == [(epoch, max(start, log.log_start_offset)) for epoch, start in wanted
                                        ][-len(log.epochs) or len(wanted):]


def test_replay_finds_kafkas_producers(partition, directory, open_log):
    snapshot = directory / f"{partition.expected['latest']:020d}.snapshot"
    kafkas = read_snapshot(snapshot) if snapshot.exists() else []
    for path in directory.glob("*.snapshot"):
        path.unlink()
    with open_log() as log:
        log.producers.write_snapshot(directory, log.log_end_offset)
    ours = read_snapshot(snapshot) if snapshot.exists() else []
    # At its restarts Kafka forgot producers whose records have old timestamps.
    assert sorted(kafkas) == sorted(found for found in ours if found in kafkas or found.last_timestamp_ms > 1.75e12)


def written_again(partition: GoldenPartition, target: Path, interval_bytes: int) -> dict[str, bytes]:
    """Return the index files of a log with the same batches and the same rolls."""
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
