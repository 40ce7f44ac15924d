"""Log directories: logs in use and at rest, their visible records, the bounds of reading."""

from __future__ import annotations

import os
import shutil
import threading
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pytest

from kraft import CorruptLogError, Log, LogConfig, LogDir, LogReader
from kraft.spark import directories, segments
from kraft.spark.errors import DataLossError
from kraft.spark.options import read_options
from kraft.spark.segments import Window, log_files
from kraft_native.base.errors import InvalidArgumentError, InvalidRecordError
from kraft_native.segment import checkpoints
from tests.golden import golden, needs_golden
from tests.spark.reading import offsets, reader, rows, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=2_000, index_interval_bytes=200)


def fill(log: Log, count: int, size: int = 40) -> None:
    """Batches of one record each, a second apart."""
    first = log.log_end_offset
    for number in range(first, first + count):
        log.append_record(b"v" * size, b"key %d" % number, timestamp_ms=START_MS + 1_000 * number)


@pytest.fixture
def log_dir(tmp_path: Path) -> Iterator[LogDir]:
    with LogDir(tmp_path / "data", config=CONFIG) as directory:
        yield directory


def test_a_query_over_a_log_in_use(spark: SparkSession, log_dir: LogDir) -> None:
    for partition in (0, 1):
        fill(log_dir.log("orders", partition), 50)
    fill(log_dir.log("others", 0), 5)
    frame = spark.read.format("kraft").option("path", str(log_dir.path)).option("subscribe", "orders").load()
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    found = frame.where("partition = 1").selectExpr("min(offset)", "max(offset)", "count(*)", "max(timestamp)").first()
    assert found is not None and tuple(found)[:3] == (0, 49, 50)
    assert {row.topic for row in frame.select("topic").distinct().collect()} == {"orders"}
    # A DataFrame is a snapshot: it gives the same rows again, a new one sees more.
    fill(log_dir.log("orders", 0), 10)
    assert frame.count() == 100
    again = spark.read.format("kraft").load(str(log_dir.path))
    assert again.count() == 115


def test_a_schema_picks_columns(spark: SparkSession, log_dir: LogDir) -> None:
    fill(log_dir.log("orders", 3), 30)
    frame = (spark.read.format("kraft").schema("partition int, timestamp timestamp, offset long")
             .load(str(log_dir.path)))
    assert frame.columns == ["partition", "timestamp", "offset"]
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(30))
    assert frame.where("unix_millis(timestamp) = 1700000007000").collect()[0].offset == 7


def test_sql_over_a_view(spark: SparkSession, log_dir: LogDir) -> None:
    fill(log_dir.log("orders", 0), 7)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING kraft OPTIONS (path '{log_dir.path}')")
    assert [tuple(row) for row in spark.sql("SELECT topic, count(*) FROM orders GROUP BY topic").collect()] == [
        ("orders", 7)]


def test_an_error_reaches_the_user(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="option startingofsets: there is no such option"):
        spark.read.format("kraft").option("startingOfsets", "earliest").load(str(tmp_path)).count()


@pytest.mark.parametrize(("schema", "what"), [
    ("nothing", "there is no column 'topi'"), ("types", "column offset is bigint, not int"),
    ("headers", "column headers needs the option includeHeaders"),
])
def test_a_wrong_schema_is_refused(schema: str, what: str, tmp_path: Path) -> None:
    from pyspark.sql.types import IntegerType, StringType, StructType

    from kraft.spark.schema import TYPES, check_schema

    wrong = {"nothing": StructType().add("topi", StringType()), "types": StructType().add("offset", IntegerType()),
             "headers": StructType().add("headers", TYPES["headers"])}[schema]
    with pytest.raises(InvalidArgumentError, match=what):
        check_schema(wrong, include_headers=False)


def test_every_column_alone_and_in_any_order(log_dir: LogDir) -> None:
    log = log_dir.log("orders", 2)
    log.append_record(b"value", b"key", timestamp_ms=START_MS, headers=[("a", b"1"), ("a", None)])
    log.append_record(None, None, timestamp_ms=START_MS)
    options = {"path": str(log_dir.path), "includeHeaders": "true"}
    everything = rows(options)
    for name in everything[0]:
        assert [row[name] for row in rows(options, name)] == [row[name] for row in everything]
    names = list(reversed(everything[0]))
    assert rows(options, *names) == everything
    assert everything[0]["headers"] == [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert everything[1]["headers"] is None and everything[1]["key"] is None and everything[1]["value"] is None


def test_offsets_and_times_bound_a_read(log_dir: LogDir) -> None:
    fill(log_dir.log("orders", 0), 100)
    path = {"path": str(log_dir.path)}
    at = '{"orders":{"0":%d}}'
    assert offsets(path | {"startingOffsets": at % 13, "endingOffsets": at % 77}) == list(range(13, 77))
    assert offsets(path | {"startingOffsets": at % -2, "endingOffsets": at % -1}) == list(range(100))
    assert offsets(path | {"startingTimestamp": str(START_MS + 50_500)}) == list(range(51, 100))
    assert offsets(path | {"startingOffsetsByTimestamp": at % (START_MS + 90_000),
                           "endingOffsetsByTimestamp": at % (START_MS + 95_000)}) == list(range(90, 95))
    assert offsets(path | {"endingTimestamp": str(START_MS + 10**9)}) == list(range(100))


def test_a_log_at_rest_ends_at_its_checkpoint(tmp_path: Path) -> None:
    with LogDir(tmp_path / "data", config=CONFIG) as directory:
        fill(directory.log("orders", 0), 60)
    options = {"path": str(tmp_path / "data")}
    assert offsets(options) == list(range(60))
    checkpoints.write_offsets(tmp_path / "data" / "replication-offset-checkpoint", {("orders", 0): 41})
    assert offsets(options) == list(range(41))


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_planning_opens_each_log_once(isolation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening a log without an owner reads everything that its owner may have left unchecked: a whole segment."""
    looked = []

    def look(directory: Path, **options: str) -> LogReader:
        looked.append(directory.name)
        return LogReader(directory, **options)

    with LogDir(tmp_path / "data", config=CONFIG) as directory:
        for partition in (0, 1):
            fill(directory.log("orders", partition), 60)
    monkeypatch.setattr(directories, "LogReader", look)
    assert len(offsets({"path": str(tmp_path / "data"), "kafka.isolation.level": isolation})) == 120
    assert sorted(looked) == ["orders-0", "orders-1"]


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the bytes of each segment file that tasks read."""
    found: dict[str, int] = {}
    preadv = os.preadv

    def counting(descriptor: int, buffers: list[memoryview], position: int) -> int:
        size = preadv(descriptor, buffers, position)
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        found[name] = found.get(name, 0) + size
        return size

    monkeypatch.setattr(os, "preadv", counting)
    return found


@pytest.mark.parametrize(("bounds", "first", "after"), [
    ({"startingOffsets": '{"orders":{"0":450}}', "endingOffsets": '{"orders":{"0":460}}'}, 450, 460),
    ({"startingTimestamp": str(START_MS + 450_000), "endingTimestamp": str(START_MS + 460_000)}, 450, 460),
    ({"startingTimestamp": str(START_MS + 595_000)}, 595, 600),
])
def test_only_segments_with_what_is_wanted_are_read(bounds: dict[str, str], first: int, after: int, log_dir: LogDir,
                                                    bytes_read: dict[str, int]) -> None:
    fill(log_dir.log("orders", 0), 600)
    files = log_files(log_dir.path / "orders-0")
    assert len(files) > 30
    assert offsets({"path": str(log_dir.path), **bounds}) == list(range(first, after))
    bases = [each.base_offset for each in files]
    wanted = files[bisect_right(bases, first) - 1:bisect_right(bases, after - 1)]
    assert sorted(bytes_read) == [each.path.name for each in wanted]
    assert len(wanted) <= 2


def test_within_a_segment_the_index_says_where_to_begin(tmp_path: Path, bytes_read: dict[str, int]) -> None:
    with Log(tmp_path / "orders-0") as log:
        fill(log, 200, size=100_000)
    path = {"path": str(tmp_path / "orders-0")}
    assert offsets(path | {"startingOffsets": '{"orders":{"0":190}}'}) == list(range(190, 200))
    assert sum(bytes_read.values()) < 15 * 100_000


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_rows_come_in_batches_of_about_4_mb(tmp_path: Path, codec: str) -> None:
    """This holds also when a small log decompresses to much: Java holds each batch as a whole."""
    with Log(tmp_path / "orders-0") as log:
        log.append_records(((b"v" * 10_000, None, None, ()) for _ in range(1_500)), codec=codec)
    batches = reader({"path": str(tmp_path / "orders-0")})
    [task] = batches.partitions()
    *sizes, last = (batch.nbytes / 2**20 for batch in batches.read(task))
    assert sum(sizes) + last > 14
    assert all(2.5 < size < 5 for size in sizes) and last < 5


def test_a_single_log_needs_no_name(tmp_path: Path) -> None:
    with Log(tmp_path / "forms", CONFIG) as log:
        fill(log, 25)
    assert offsets({"path": str(tmp_path / "forms")}) == list(range(25))
    assert {row["topic"] for row in rows({"path": str(tmp_path / "forms")}, "topic")} == {"forms"}


def test_of_replicas_the_one_that_knows_most_is_read(tmp_path: Path) -> None:
    for node, count in (("a", 10), ("b", 30), ("c", 20)):
        with LogDir(tmp_path / node, config=CONFIG) as directory:
            fill(directory.log("orders", 0), count)
    paths = ",".join(str(tmp_path / node) for node in "abc")
    assert offsets({"path": paths}) == list(range(30))


def test_deleted_offsets_fail_or_are_passed_over(log_dir: LogDir) -> None:
    log = log_dir.log("orders", 0)
    fill(log, 100)
    log.delete_records(40)
    options = {"path": str(log_dir.path), "startingOffsets": '{"orders":{"0":10}}'}
    with pytest.raises(DataLossError, match=r"orders-0 \[10, 40\): .*failOnDataLoss"):
        offsets(options)
    assert offsets(options | {"failOnDataLoss": "false"}) == list(range(40, 100))
    beyond = {"path": str(log_dir.path), "endingOffsets": '{"orders":{"0":130}}'}
    with pytest.raises(DataLossError, match=r"orders-0 \[100, 130\)"):
        offsets(beyond)
    assert offsets(beyond | {"failOnDataLoss": "false"}) == list(range(40, 100))


def test_records_deleted_between_planning_and_reading_are_reported(log_dir: LogDir) -> None:
    log = log_dir.log("orders", 0)
    fill(log, 100)
    batches = reader({"path": str(log_dir.path)}, "offset")
    task = batches.partitions()[0]
    log.roll()
    log.delete_records(60)
    start = log_files(log_dir.path / "orders-0")[0].base_offset
    assert 0 < start <= 60 == log.log_start_offset
    with pytest.raises(DataLossError, match=r"orders-0 \[0, 60\): .*failOnDataLoss"):
        list(batches.read(task))
    lenient = reader({"path": str(log_dir.path), "failOnDataLoss": "false"}, "offset")
    assert [offset for batch in lenient.read(task) for offset in batch["offset"].to_pylist()] == list(range(60, 100))


def test_records_truncated_between_planning_and_reading_are_reported(log_dir: LogDir) -> None:
    log = log_dir.log("orders", 0)
    fill(log, 100)
    strict, lenient = (reader({"path": str(log_dir.path), "failOnDataLoss": value}, "offset")
                       for value in ("true", "false"))
    [task] = strict.partitions()
    log.truncate_to(70)
    with pytest.raises(DataLossError, match=r"orders-0 \[70, 100\)"):
        list(strict.read(task))
    assert [offset for batch in lenient.read(task) for offset in batch["offset"].to_pylist()] == list(range(70))


def test_damage_is_reported_and_not_skipped(tmp_path: Path) -> None:
    with Log(tmp_path / "orders-0", CONFIG) as log:
        fill(log, 100)
    file = log_files(tmp_path / "orders-0")[1]
    content = bytearray(file.path.read_bytes())
    content[300] ^= 0xFF
    file.path.write_bytes(content)
    batches = reader({"path": str(tmp_path / "orders-0")}, "offset")
    found = []
    with pytest.raises(CorruptLogError, match=file.path.name):
        for task in batches.partitions():
            for batch in batches.read(task):
                found += batch["offset"].to_pylist()
    assert found == list(range(found[-1] + 1)) and found[-1] >= file.base_offset


def test_malformed_record_timestamp(tmp_path: Path) -> None:
    """The time of the record is outside the range of Spark's timestamps."""
    with Log(tmp_path / "orders-0", LogConfig(message_timestamp_after_max_ms=2**63 - 1)) as log:
        log.append_record(b"1", timestamp_ms=2**62)
    with pytest.raises(InvalidRecordError, match="orders-0: a record has a timestamp that is too far from 1970"):
        rows({"path": str(tmp_path / "orders-0")})


def test_a_compacted_log_is_read_over_its_gaps(tmp_path: Path) -> None:
    with Log.open(tmp_path / "rows-0", cleanup_policy="compact", segment_bytes=1_000) as log:
        for number in range(100):
            log.append_record(b"version %d" % number, b"row %d" % (number % 3), timestamp_ms=START_MS)
        log.roll()
        log.compact(force=True)
    assert offsets({"path": str(tmp_path / "rows-0")}) == [97, 98, 99]


@needs_golden
def test_a_compacted_log_of_kafkas_without_what_is_beside_it(tmp_path: Path) -> None:
    """The gaps look like losses without the files beside the log, unless an option says that they are none."""
    shutil.copytree(golden("log", "data", "compacted-0"), tmp_path / "compacted-0")
    whole = offsets({"path": str(golden("log", "data")), "subscribe": "compacted"})
    alone = {"path": str(tmp_path / "compacted-0")}
    with pytest.raises(CorruptLogError):
        offsets(alone)
    assert offsets(alone | {"cleanupPolicy": "compact"}) == whole
    with pytest.raises(InvalidArgumentError, match="option cleanupPolicy: 'both' is not allowed"):
        offsets(alone | {"cleanupPolicy": "both"})
    with pytest.raises(InvalidArgumentError, match=r"option cleanupPolicy: .* in a path"):
        offsets({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "cleanupPolicy": "compact"})


def test_a_wrong_index_is_only_a_hint(tmp_path: Path) -> None:
    with Log(tmp_path / "orders-0", CONFIG) as log:
        fill(log, 100)
    options = {"path": str(tmp_path / "orders-0"), "startingOffsets": '{"orders":{"0":33}}'}
    for garbage in (b"", b"\0" * 80, b"\x7f" * 80, bytes(range(80))):
        for file in log_files(tmp_path / "orders-0"):
            file.path.with_suffix(".index").write_bytes(garbage)
        assert offsets(options) == list(range(33, 100))


def test_missing_partitions_are_named(log_dir: LogDir, tmp_path: Path) -> None:
    fill(log_dir.log("orders", 0), 1)
    path = {"path": str(log_dir.path)}
    for options, what in (
        (path | {"subscribe": "orders,payments"}, "option subscribe: payments: not in"),
        (path | {"assign": '{"orders":[0,1]}'}, "option assign: orders-1: not in"),
        ({"path": str(tmp_path / "nowhere")}, "nowhere is not a directory"),
    ):
        with pytest.raises(InvalidArgumentError, match=what):
            table(options)
    assert rows(path | {"subscribePattern": "pay.*"}) == []


def test_a_log_at_rest_is_examined_once_per_query_until_something_changes(tmp_path: Path,
                                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(directories, "LogReader", lambda directory, **options: (
        looked.append(directory.name), LogReader(directory, **options))[1])
    with LogDir(tmp_path / "data", config=CONFIG) as directory:
        for partition in (0, 1):
            fill(directory.log("orders", partition), 60)
    source = directories.Directories(read_options({"path": str(tmp_path / "data")}, streaming=True))
    for _ in range(3):
        source.refresh()
        assert list(source.latest(source.partitions()).values()) == [60, 60]
    assert sorted(looked) == ["orders-0", "orders-1"]
    checkpoints.write_offsets(tmp_path / "data" / "replication-offset-checkpoint",
                              {("orders", 0): 41, ("orders", 1): 60})
    source.refresh()
    assert list(source.latest(source.partitions()).values()) == [41, 60]
    with LogDir(tmp_path / "data", config=CONFIG) as directory:
        fill(directory.log("orders", 1), 5)
        source.refresh()
        assert list(source.latest(source.partitions()).values())[1] == 65


def test_a_task_reads_all_its_segments_through_one_window(log_dir: LogDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of its own for each of many small files would cost more than reading them."""
    made: list[Window] = []

    class Counting(Window):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(directories, "Window", Counting)
    monkeypatch.setattr(segments, "Window", Counting)
    for partition in range(20):
        fill(log_dir.log("orders", partition), 30)
    assert len(log_files(log_dir.path / "orders-0")) > 1
    tasks = len(reader({"path": str(log_dir.path)}).partitions())
    found = offsets({"path": str(log_dir.path)})
    log_dir.close()
    assert found == sorted([*range(30)] * 20)
    assert len(made) == tasks < 20


def test_a_window_grows_to_a_batch_and_stays_so(log_dir: LogDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "WINDOW_BYTES", 100)
    log = log_dir.log("orders", 0)
    sizes = [10, 500, 10, 1_500, 10]
    for size in sizes:
        log.append_record(b"v" * size, timestamp_ms=START_MS)
    assert [len(row["value"]) for row in rows({"path": str(log_dir.path)}, "value")] == sizes


def test_checkpoints_beside_logs_are_parsed_once_per_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They name every partition: parsing them for each log would make planning of many partitions quadratic."""
    parsed: list[str] = []
    read = checkpoints.read_offsets
    with LogDir(tmp_path / "data", config=CONFIG) as directory:
        for partition in range(20):
            fill(directory.log("orders", partition), 2)
    checkpoints.write_offsets(tmp_path / "data" / "cleaner-offset-checkpoint", {("orders", 0): 0})
    monkeypatch.setattr(checkpoints, "read_offsets", lambda path: (parsed.append(Path(path).name), read(path))[1])
    assert len(offsets({"path": str(tmp_path / "data")})) == 40
    assert 1 <= len(parsed) == len(set(parsed)) <= 4


def test_logs_that_are_examined_at_a_time_have_bounded_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds for any number of threads. A log larger than the limit is examined while no other is."""
    sizes = {}
    with LogDir(tmp_path / "data", config=LogConfig(segment_bytes=1 << 20)) as directory:
        for partition, count in enumerate((100, 10, 10, 10, 300, 10, 10)):
            fill(directory.log("orders", partition), count, size=1_000)
            sizes[f"orders-{partition}"] = count * 1_000
    source = directories.Directories(read_options({"path": str(tmp_path / "data")}, streaming=False))
    source._memory = directories.MemoryLimit(150_000)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    never = threading.Event()
    examined: list[str] = []
    peaks: list[tuple[int, int]] = []

    class Watched(LogReader):
        def __enter__(self) -> Self:
            examined.append(Path(self.directory).name)
            never.wait(0.02)       # others would come in this time, if they could
            peaks.append((len(examined), sum(sizes[name] for name in examined)))
            return self

        def __exit__(self, *exception: object) -> None:
            examined.remove(Path(self.directory).name)
            self.close()

    monkeypatch.setattr(directories, "LogReader", Watched)
    assert len(source.partitions()) == 7
    assert source._memory.bytes_held == 0
    assert all(size <= 150_000 or count == 1 for count, size in peaks)
    assert any(size > 150_000 for _, size in peaks)


def test_small_segments_become_as_few_batches_as_large_ones(log_dir: LogDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window reads as many files as fit; bytes after the last batch of a file do not matter."""
    log = log_dir.log("orders", 0)
    fill(log, 200)
    files = log_files(log_dir.path / "orders-0")
    assert len(files) > 5
    options = {"path": str(log_dir.path), "startingOffsets": '{"orders":{"0":3}}'}
    batches = reader(options, "offset")
    [task] = batches.partitions()
    assert [batch["offset"].to_pylist() for batch in batches.read(task)] == [list(range(3, 200))]
    with files[2].path.open("ab") as file:
        file.write(bytes(100))
    monkeypatch.setattr(segments, "_attached", lambda *_: pytest.fail("files are not read directly"))
    assert [batch["offset"].to_pylist() for batch in batches.read(task)] == [
        list(range(3, files[3].base_offset)), list(range(files[3].base_offset, 200))]
    monkeypatch.setattr(segments, "WINDOW_BYTES", 3_000)
    found = [batch["offset"].to_pylist() for batch in batches.read(task)]
    assert [offset for batch in found for offset in batch] == list(range(3, 200)) and len(found) > 2
