"""`kraft pipeline export`: every committed record once, in files by hour, whatever died meanwhile."""

import datetime as dt
import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from kraft import LogConfig, LogDir
from kraft.cli.command import run as command
from kraft.pipeline import export
from kraft.pipeline.decoders import DecoderSpec
from kraft.pipeline.merge import merge_small
from kraft.pipeline.origins import origin_of
from kraft.pipeline.parquet import FileSettings
from kraft.pipeline.table import Commit, Table, TableError, commit_files, commits, covered, live_files
from kraft.pipeline.workers import Threads
from kraft.spark.errors import DataLossError
from kraft_native.base.crc import checksum
from kraft_native.base.errors import InvalidRecordError
from kraft_native.batch.batch import ATTRIBUTES_AT, CRC_AT
from kraft_native.batch.records import BatchBuilder
from tests.golden import golden, needs_golden, partitions
from tests.pipeline.replicas import START_MS, batches, write

SETTINGS = FileSettings()


def run(table: Path, logs: Path, settings: FileSettings = SETTINGS, *, workers: Any = None,
        **plan: Any) -> Commit | None:
    """Export one batch; None when nothing is left."""
    source = {"path": str(logs), "kafka.isolation.level": "read_committed"}
    origin = origin_of(source)
    with Table(table, {"files": settings_fields(settings)}) as opened:
        batch = export.plan_batch(origin, table, opened.last(), **plan)
        if not batch.spans:
            return None
        return export.run_batch(opened, source, settings, workers or Threads(2), batch)


def settings_fields(settings: FileSettings) -> Any:
    return settings._replace(value=list(settings.value), key=list(settings.key))._asdict()


def rows(table: Path, *columns: str) -> list[dict[str, Any]]:
    """Rows that a reader which does not know commits sees."""
    found = ds.dataset(table, format="parquet", partitioning="hive").to_table(columns=list(columns) or None)
    return found.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """200 records of one partition over 40 seconds, 100 of another."""
    write(tmp_path / "logs", 1, batches(40), segment_bytes=1500)
    write(tmp_path / "logs", 1, batches(20), partition=1)
    return tmp_path / "logs"


def test_every_record_once(logs: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    first = run(table, logs)
    assert first is not None and first.number == 0
    found = rows(table)
    assert [(row["partition"], row["offset"]) for row in found] == (
        [(0, offset) for offset in range(200)] + [(1, offset) for offset in range(100)])
    assert (found[7]["key"], found[7]["value"], found[7]["topic"]) == (b"k2", b"value 7", "orders")
    assert found[7]["timestamp"] == dt.datetime.fromtimestamp((START_MS + 1002) / 1000, dt.UTC)
    assert run(table, logs) is None
    assert sum(file.rows for file in live_files(table)) == 300


def test_a_second_batch_continues(logs: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    for _ in range(20):
        if run(table, logs, records_max=47) is None:
            break
    assert len(commit_files(table)) >= 300 // 47
    write(logs, 1, batches(1, value=b"more"), partition=1)
    run(table, logs)
    assert [row["offset"] for row in rows(table, "partition", "offset")] == [*range(200), *range(105)]
    assert {name.partition: span[2:4] for name, span in covered(table).items()} == {0: (0, 200), 1: (0, 105)}


def test_days_and_hours_and_no_time(tmp_path: Path) -> None:
    hour = 3_600_000
    builder = BatchBuilder()
    for time in (START_MS, START_MS + hour, START_MS, START_MS + 24 * hour, START_MS + 1):
        builder.append(b"value", timestamp_ms=time)
    without = BatchBuilder()
    without.append(b"no time", timestamp_ms=-1)
    write(tmp_path / "logs", 1, [builder.build(), without.build()])
    run(tmp_path / "table", tmp_path / "logs")
    found = [(row["day"], row["hour"], row["timestamp"] is None) for row in rows(tmp_path / "table")]
    assert found == [("2023-11-14", 22, False), ("2023-11-14", 23, False), ("2023-11-14", 22, False),
                     ("2023-11-15", 22, False), ("2023-11-14", 22, False), (None, None, True)]
    run(tmp_path / "days", tmp_path / "logs", SETTINGS._replace(by="day"))
    assert {row["day"] for row in rows(tmp_path / "days")} == {"2023-11-14", "2023-11-15", None}
    run(tmp_path / "plain", tmp_path / "logs", SETTINGS._replace(by="none", codec="none"))
    assert "day" not in rows(tmp_path / "plain")[0]


def at_time(time_ms: int) -> bytes:
    """A batch of one record with any time, also one that our own builder refuses."""
    builder = BatchBuilder()
    builder.append(b"value", timestamp_ms=0)
    batch = bytearray(builder.build())
    struct.pack_into(">qq", batch, 27, time_ms, time_ms)
    struct.pack_into(">I", batch, CRC_AT, checksum(bytes(batch[ATTRIBUTES_AT:])))
    return bytes(batch)


def test_times_that_no_calendar_has_are_kept(tmp_path: Path) -> None:
    """Times before 1970 and after 9999 stay whole in the column; a day without a name has none."""
    day, late = 24 * 3_600_000, 253_402_300_800_000
    times = [-2, -day, -day - 1, late - 1, late, 2**62, -1, 5]
    made = [at_time(time) for time in times]
    with LogDir(tmp_path / "logs", node_id=1) as logs:
        log = logs.log("orders", 0, config=LogConfig(message_timestamp_after_max_ms=2**63 - 1))
        for batch in made:
            log.append(batch)
    for by, names in (("day", ["1969-12-31", "1969-12-31", "1969-12-30", "9999-12-31", None, None, None, "1970-01-01"]),
                      ("hour", [23, 0, 23, 23, None, None, None, 0])):
        run(tmp_path / by, tmp_path / "logs", SETTINGS._replace(by=by))
        found = ds.dataset(tmp_path / by, format="parquet", partitioning="hive").to_table()
        found = found.sort_by("offset")
        assert found["timestamp"].cast("int64").to_pylist() == [None if time == -1 else time for time in times]
        assert found[by].to_pylist() == names
    with pytest.raises(InvalidRecordError, match=f"orders-0 offset 5: its time of {2**62} ms does not fit"):
        run(tmp_path / "us", tmp_path / "logs", SETTINGS._replace(time_unit="us"))


class Dies:
    """Workers that do some of the work and then die."""

    def __init__(self, after: int) -> None:
        self.after = after

    def run(self, function: Any, tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        for task in [part for each in tasks for part in _split(each)][:self.after]:
            yield task, function(task)
        raise RuntimeError("gone")


def _split(task: Any) -> list[Any]:
    return [task._replace(ranges=(each,)) for each in task.ranges]


def test_uncommitted_records_are_removed(logs: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    for after in (0, 1, 2):
        with pytest.raises(RuntimeError):
            run(table, logs, workers=Dies(after))
        assert not list(table.glob("topic=*"))
    run(table, logs)
    assert len(rows(table)) == 300
    assert not [path for path in (table / "_kraft" / "staging").rglob("*") if path.is_file()]


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_commit_is_finished_by_the_next_run(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                              moved: int) -> None:
    """The driver dies between the decision and the last of the moves."""
    table = tmp_path / "table"
    real = Table._publish

    def publish(self: Table, commit: Commit) -> None:
        for file in commit.files[:moved]:
            target = self.path / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            (self.path / file.staged).rename(target)
        raise RuntimeError("gone")

    monkeypatch.setattr(Table, "_publish", publish)
    with pytest.raises(RuntimeError):
        run(table, logs)
    monkeypatch.setattr(Table, "_publish", real)
    assert run(table, logs) is None
    assert len(rows(table)) == 300
    assert len(list(commits(table))) == 1


def test_the_same_batch_again_changes_nothing(logs: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    source = {"path": str(logs)}
    origin = origin_of(source)
    with Table(table, {}) as opened:
        batch = export.plan_batch(origin, table, None, records_max=100)
        made = export.run_batch(opened, source, SETTINGS, Threads(1), batch, query_id="q", batch_id=3)
        again = export.run_batch(opened, source, SETTINGS, Threads(1), batch, query_id="q", batch_id=3)
        assert made == again
        with pytest.raises(TableError, match="what was to be added begins at 0"):
            export.run_batch(opened, source, SETTINGS, Threads(1), batch, query_id="another", batch_id=3)
    assert len(commit_files(table)) == 1


def test_one_writer_at_a_time_and_one_way_to_make_files(logs: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    run(table, logs)
    with Table(table, {}), pytest.raises(TableError, match="another process is writing"), Table(table, {}):
        pass
    with pytest.raises(TableError, match="which stays"):
        run(table, logs, SETTINGS._replace(by="day"))


def test_lost_offsets_are_named(logs: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    run(table, logs, records_max=30)
    with LogDir(logs) as opened:
        opened.log("orders", 0, create=False).delete_records(150)
    with pytest.raises(DataLossError, match=r"orders-0 \[20, 150\)"):
        run(table, logs)
    made = run(table, logs, allow_loss=True)
    assert made is not None and [span.lost for span in made.spans] == [130, 0]
    assert [row["offset"] for row in rows(table) if row["partition"] == 0] == [*range(20), *range(150, 200)]


def test_decoded_values_and_those_that_cannot_be(tmp_path: Path) -> None:
    values = [b'{"id": 1, "owner": {"name": "a"}}', b'{"id": 2,\n "other": 3}', None, b"no json", b'{"id": "x"}', b"{}"]
    with LogDir(tmp_path / "logs", node_id=1) as logs:
        logs.log("orders", 0).append_records((value, None, START_MS, ()) for value in values)
    spec = DecoderSpec("json", '{"id": "long", "owner": {"name": "string"}}')
    with pytest.raises(InvalidRecordError, match="orders-0 offset 3: its value cannot be decoded"):
        run(tmp_path / "table", tmp_path / "logs", SETTINGS._replace(value=spec))
    run(tmp_path / "table2", tmp_path / "logs", SETTINGS._replace(value=spec, on_error="keep"))
    found = rows(tmp_path / "table2")
    assert [row["value"] for row in found] == [{"id": 1, "owner": {"name": "a"}}, {"id": 2, "owner": None}, None, None,
                                               None, {"id": None, "owner": None}]
    assert [row["value_undecoded"] for row in found] == [None, None, None, b"no json", b'{"id": "x"}', None]


def test_headers(tmp_path: Path) -> None:
    with LogDir(tmp_path / "logs", node_id=1) as logs:
        logs.log("orders", 0).append_record(b"v", headers=[("a", b"1"), ("b", None)])
        logs.log("orders", 0).append_record(b"v")
    run(tmp_path / "table", tmp_path / "logs", SETTINGS._replace(headers=True))
    assert rows(tmp_path / "table")[0]["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert rows(tmp_path / "table")[1]["headers"] is None


@needs_golden
def test_files_of_kafka_are_read(tmp_path: Path) -> None:
    """Every codec, transactions, gaps of compaction: exactly the records that a read_committed consumer returns."""
    table = tmp_path / "table"
    source = {"path": str(golden("log", "data")), "kafka.isolation.level": "read_committed"}
    origin = origin_of(source)
    with Table(table, {}) as opened:
        batch = export.plan_batch(origin, table, None)
        export.run_batch(opened, source, SETTINGS, Threads(2), batch)
    found: dict[str, list[int]] = {}
    for row in rows(table, "topic", "partition", "offset"):
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row["offset"])
    wanted = {}
    for each in partitions():
        ranges = each.expected["read_committed_offsets"]
        offsets = [offset for first, last in ranges for offset in range(first, last + 1)]
        if offsets and not each.name.startswith("__"):
            wanted[each.name] = offsets
    assert found == wanted


def test_small_files_are_merged(logs: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    while run(table, logs, records_max=31) is not None:
        pass
    before, files = rows(table), live_files(table)
    with Table(table, {}) as opened:
        made = merge_small(opened, SETTINGS, 1 << 20)
        assert made is not None
        assert merge_small(opened, SETTINGS, 1 << 20) is None
    assert rows(table) == before
    assert (len(files) > 10, len(live_files(table)), len(made.removed)) == (True, 1, len(files))
    assert {path.name for path in table.rglob("*.parquet")} == {Path(file.path).name for file in live_files(table)}
    write(logs, 1, batches(1, value=b"more"))
    run(table, logs)
    assert len(rows(table)) == len(before) + 5


def test_the_command(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["pipeline", "export", str(tmp_path / "table"), "--from", str(logs), "--json", "--batch-records", "100"]
    assert command(arguments) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(each["rows"] for each in printed) == 300 == len(rows(tmp_path / "table"))
    assert command([*arguments, "--merge-below", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] > 1
    assert command([*arguments, "--by", "day"]) == 1
    assert "which stays" in capsys.readouterr().err
    assert command(["pipeline", "export", str(logs), "--from", str(logs)]) == 1
    assert "not a table of kraft's" in capsys.readouterr().err
    assert command(["pipeline", "export", str(tmp_path / "other")]) == 2
    assert command(["pipeline", "export", str(tmp_path / "other"), "--from", str(logs), "--checkpoint", "c"]) == 2
    assert not (tmp_path / "other").exists()
