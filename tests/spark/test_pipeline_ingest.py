"""Ingest into a running node: every row once, in librdkafka's choice of partition, whatever died meanwhile."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from kraft.cli.command import run
from kraft.client import Cluster
from kraft.client import producer as client_producer
from kraft.client.groups import delete_group
from kraft.client.transactional_producer import TransactionalProducer
from kraft.client.transactions import Transactions
from kraft.pipeline import ingest, split_writers
from kraft.pipeline.ingest import Plan, open_job, run_job
from kraft.pipeline.on_spark import SparkWorkers
from kraft.pipeline.origins import origin_of
from kraft.pipeline.producing import Appended, History, IngestError
from kraft.pipeline.row_files import files_in
from kraft.pipeline.row_records import Columns
from kraft.pipeline.workers import Threads
from kraft_native.base.errors import InvalidArgumentError, UnsupportedVersionError
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT = 500


def records(topics: Topics, topic: str) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Return (partition, offset, key, value) of all committed records of the topic."""
    topics.settle()
    origin = origin_of({"kafka.bootstrap.servers": topics.address, "subscribe": topic,
                        "kafka.isolation.level": "read_committed"})
    ends = origin.latest(origin.partitions())
    found = []
    for piece in origin.ranges({name: (0, end) for name, end in ends.items()}):
        for columns in origin.read(piece, ("offset", "key", "value")):
            rows = pa.record_batch(columns).to_pydict()
            found += [(piece.partition, *row) for row in zip(rows["offset"], rows["key"], rows["value"], strict=True)]
    origin.close()
    return sorted(found)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Two files of 500 rows, in row groups of 100; every tenth row has no key."""
    directory = tmp_path / "rows"
    directory.mkdir()
    for number in range(2):
        ids = range(number * COUNT, (number + 1) * COUNT)
        table = pa.table({"id": pa.array([None if row % 10 == 0 else f"key-{row}" for row in ids]),
                          "text": pa.array([b"value %d" % row for row in ids])})
        pq.write_table(table, directory / f"{number}.parquet", row_group_size=100)
    return directory


def job(topics: Topics, topic: str, directory: Path, rows: Path, **given: Any) -> ingest.Ingested:
    with Cluster(topics.address) as cluster:
        plan = open_job(directory, cluster, files_in([rows]), topic, Columns("text", "id"), split_bytes=1, **given)
    return run_job(directory, topics.address, plan, Threads(2))


def check(topics: Topics, topic: str) -> None:
    found = records(topics, topic)
    assert sorted(value for *_, value in found) == sorted(b"value %d" % row for row in range(2 * COUNT))


def test_every_row_once_and_where_librdkafka_puts_it(topics: Topics, topic: str, tmp_path: Path, rows: Path) -> None:
    topics.create(topic, 3)
    topics.create(f"{topic}-theirs", 3)
    assert job(topics, topic, tmp_path / "job", rows) == (2 * COUNT, 0)
    check(topics, topic)
    producer = Producer({"bootstrap.servers": topics.address, "partitioner": "murmur2_random"})
    for row in range(2 * COUNT):
        if row % 10:
            producer.produce(f"{topic}-theirs", b"", f"key-{row}")
    assert producer.flush(20) == 0
    ours, theirs = ({key: partition for partition, _, key, _ in records(topics, each) if key is not None}
                    for each in (topic, f"{topic}-theirs"))
    assert ours == theirs and len(ours) == 900
    assert job(topics, topic, tmp_path / "job", rows) == (0, 0)


def dies(monkeypatch: pytest.MonkeyPatch, at: int, after: bool, owner: type = client_producer.Producer,
         step: str = "send") -> None:
    """Simulate a worker's death: before a request, or after it was answered."""
    real, calls = getattr(owner, step), itertools.count()

    def take(*arguments: Any, **named: Any) -> Any:
        last = next(calls) == at
        if last and not after:
            raise KeyboardInterrupt
        found = real(*arguments, **named)
        if last:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(owner, step, take)
    # A dead worker aborts nothing.
    monkeypatch.setattr(TransactionalProducer, "__exit__", lambda *_: None)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("way", ["transactions", "sequences", "forgotten sequences"])
def test_killed_at_every_request(topics: Topics, topic: str, tmp_path: Path, rows: Path,
                                 monkeypatch: pytest.MonkeyPatch, after: bool, way: str) -> None:
    """One job dies again and again, each time a request later; also when the broker has meanwhile forgotten the
    producers."""
    topics.create(topic, 2)
    monkeypatch.setattr(ingest, "CHUNK_ROWS", 30)
    if way == "forgotten sequences":
        monkeypatch.setattr(History, "_appended",
                            lambda history, partition: Appended(history._scanned(partition), False))
    died = at = 0
    while True:
        with monkeypatch.context() as patch:
            dies(patch, at, after)
            try:
                job(topics, topic, tmp_path / "job", rows, transactions=way == "transactions")
                break
            except KeyboardInterrupt:
                died += 1
                at += 1
    assert died >= 3
    check(topics, topic)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("owner", "step"), [(Transactions, "begin"), (Transactions, "commit_offsets"),
                                             (Transactions, "end")])
def test_killed_at_every_step_of_a_transaction(topics: Topics, topic: str, tmp_path: Path, rows: Path,
                                               monkeypatch: pytest.MonkeyPatch, owner: type, step: str,
                                               after: bool) -> None:
    """Each chunk is a transaction. A worker dies at each third one."""
    topics.create(topic, 2)
    monkeypatch.setattr(ingest, "CHUNK_ROWS", 30)
    monkeypatch.setattr(split_writers, "TRANSACTION_BYTES", 1)
    died = 0
    while True:
        with monkeypatch.context() as patch:
            dies(patch, 3, after, owner, step)
            try:
                job(topics, topic, tmp_path / "job", rows, transactions=True)
                break
            except KeyboardInterrupt:
                died += 1
    assert died >= 3
    check(topics, topic)


def test_a_job_whose_progress_is_forgotten_ends(topics: Topics, topic: str, tmp_path: Path, rows: Path,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    """The cluster has dropped the offsets of the splits' groups: nobody knows which rows are in the topic."""
    topics.create(topic)
    with monkeypatch.context() as patch:
        dies(patch, 0, True)
        with pytest.raises(KeyboardInterrupt):
            job(topics, topic, tmp_path / "job", rows)
    before = records(topics, topic)
    with Cluster(topics.address) as cluster:
        plan = Plan.read(tmp_path / "job" / "plan.json")
        for split in plan.splits:
            delete_group(cluster, f"{plan.transactional_id}-{split.number}")
    with pytest.raises(IngestError, match="the cluster has forgotten how much of the split is in the topic"):
        job(topics, topic, tmp_path / "job", rows)
    after = records(topics, topic)      # splits that had not begun may be written meanwhile
    assert set(before) <= set(after)
    assert len({each[-1] for each in after}) == len(after)


def test_the_cluster_decides_on_transactions_unless_the_caller_does(
    topics: Topics, topic: str, tmp_path: Path, rows: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics.create(topic)

    def is_transactional(directory: str, transactions: bool | None) -> bool:
        job(topics, topic, tmp_path / directory, rows, transactions=transactions)
        return bool(Plan.read(tmp_path / directory / "plan.json").transactional_id)

    assert is_transactional("as the cluster", None)
    assert not is_transactional("excluded", False)
    with pytest.raises(IngestError, match="begun with transactions False"):
        is_transactional("excluded", True)
    monkeypatch.setattr(ingest, "has_transactions", lambda _: False)
    assert not is_transactional("as an old cluster", None)
    with pytest.raises(UnsupportedVersionError, match="transactions: required, but the cluster has none"):
        is_transactional("required", True)


def test_a_job_keeps_to_its_plan(topics: Topics, topic: str, tmp_path: Path, rows: Path) -> None:
    topics.create(topic)
    job(topics, topic, tmp_path / "job", rows)
    with pytest.raises(IngestError, match="begun with topic"):
        job(topics, f"{topic}x", tmp_path / "job", rows)
    (rows / "2.parquet").write_bytes((rows / "1.parquet").read_bytes())
    with pytest.raises(IngestError, match="begun with files"):
        job(topics, topic, tmp_path / "job", rows)
    (rows / "2.parquet").unlink()
    (rows / "1.parquet").touch()
    (tmp_path / "job" / "done" / "9.json").unlink()
    with pytest.raises(IngestError, match="changed since the job began"):
        job(topics, topic, tmp_path / "job", rows)


def test_csv_and_json_and_times(topics: Topics, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topics.create(topic, 2, retention_ms="-1")
    table = pa.table({"id": [1, 2], "name": ["a", None], "at": pa.array([10, 20], pa.timestamp("ms")), "p": [1, 0]})
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    (tmp_path / "b.jsonl").write_text('{"id": 3, "name": "c", "at": "1970-01-01T00:00:00.030", "p": 1}\n')
    arguments = ["--topic", topic, "--bootstrap", topics.address, "--timestamp", "at", "--partition", "p", "--json"]
    files = [str(tmp_path / "a.csv"), str(tmp_path / "b.jsonl")]
    assert run(["pipeline", "ingest", *files, "--job", str(tmp_path / "job"), *arguments, "--type", "id=int64",
                "--no-transactions"]) == 0
    assert Plan.read(tmp_path / "job" / "plan.json").transactional_id == ""
    assert json.loads(capsys.readouterr().out)["rows"] == 3
    found = sorted(((partition, json.loads(value or b"")) for partition, _, _, value in records(topics, topic)),
                   key=lambda each: (each[0], each[1]["id"]))
    assert [(partition, each["id"], each["name"]) for partition, each in found] == [(0, 2, None), (1, 1, "a"),
                                                                                     (1, 3, "c")]
    for wrong, text in ((["--partition", "q"], "column 'q' is not among"),
                        (["--key", "p", "--partition", "id"], "row 3: column id: 2, and the topic has partitions")):
        assert run(["pipeline", "ingest", files[0], "--job", str(tmp_path / wrong[1]), *arguments[:4], *wrong]) == 1
        assert text in capsys.readouterr().err
    with pytest.raises(InvalidArgumentError, match="not one of"):
        files_in([Path(__file__)])


def test_no_row_is_written_while_one_is_bad_and_the_job_continues_without_it(
    topics: Topics, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    topics.create(topic, 2)
    lines = [b'{"id": %d}' % row for row in range(2_000)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*lines[:1_500], b'{"id": "x', *lines[1_500:]]))
    (tmp_path / "b.jsonl").write_bytes(b'{"id": 1}\n')
    command = ["pipeline", "ingest", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), "--topic", topic, "--job",
               str(tmp_path / "job"), "--bootstrap", topics.address, "--json"]
    assert run(command) == 1
    assert "a.jsonl, row 1501: a text without an end, at byte 10 of the line" in capsys.readouterr().err
    assert records(topics, topic) == []
    assert run([*command, "--on-bad-row", "dead-letter"]) == 0
    assert json.loads(capsys.readouterr().out) | {"topic": ""} == {
        "topic": "", "files": 2, "splits": 2, "rows": 2_001, "rows_before": 0, "bad_rows": 1}
    assert sorted(value or b"" for *_, value in records(topics, topic)) == sorted([*lines, b'{"id": 1}'])
    [letter] = map(json.loads, (tmp_path / "job" / "bad" / "0.jsonl").read_text().splitlines())
    assert (letter["row"], letter["content"]) == (1_501, '{"id": "x')
    assert run([*command, "--on-bad-row", "dead-letter"]) == 0  # nothing is left to do


def test_refused_records_are_an_error_and_not_done(
    topics: Topics, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    """Every record is refused by a topic that accepts none without a key."""
    topics.create("refusing", 2, cleanup_policy="compact")
    (tmp_path / "a.jsonl").write_text('{"id": 1}\n{"id": 2}\n')
    command = ["pipeline", "ingest", str(tmp_path / "a.jsonl"), "--job", str(tmp_path / "job"), "--topic", "refusing",
               "--bootstrap", topics.address, "--json"]
    for _ in range(2):                 # a repeated run does not treat it as done either
        assert run(command) == 1
        found = capsys.readouterr()
        assert found.out == "" and "INVALID_RECORD" in found.err
        assert list((tmp_path / "job" / "done").iterdir()) == []
    assert records(topics, "refusing") == []


def test_values_are_the_same_in_the_workers_of_spark(topics: Topics, topic: str, tmp_path: Path,
                                                     spark: SparkSession) -> None:
    table = pa.table({"i": [2**53 + 1, None], "f": [1e-12, 0.1], "t": pa.array([1, -1], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_bytes(b"zip,p\n01234,x\n")
    for suffix, workers in (("threads", Threads(2)), ("spark", SparkWorkers(spark))):
        name, job_directory = f"{topic}-{suffix}", tmp_path / suffix
        topics.create(name)
        with Cluster(topics.address) as cluster:
            plan = open_job(job_directory, cluster, files_in([tmp_path / "a.parquet", tmp_path / "b.csv"]), name,
                            Columns())
        run_job(job_directory, topics.address, plan, workers)
        assert sorted(value or b"" for *_, value in records(topics, name)) == [
            b'{"i":9007199254740993,"f":1e-12,"t":"1970-01-01T00:00:00.000001"}',
            b'{"i":null,"f":0.1,"t":"1969-12-31T23:59:59.999999"}', b'{"zip":"01234","p":"x"}']
