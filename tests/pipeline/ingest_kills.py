"""Ingest under fire: it and the broker are killed again and again; in the end every row is a record once."""

import random
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.client import Cluster
from kraft.pipeline.ingest import open_job, run_job
from kraft.pipeline.origins import origin_of
from kraft.pipeline.row_files import files_in
from kraft.pipeline.row_records import Columns
from kraft.pipeline.workers import Threads
from kraft_native.base.errors import KraftError
from tests.integration.process import NodeProcess
from tests.pipeline.kills import PROCESSES, in_process
from tests.spark.topics import UNFINISHED, settle

TOPIC = "rows"
SECONDS = 20.0


def run_ingest(bootstrap: str, job: Path, files: Path, transactions: bool) -> None:
    """Run the whole job, or what is left of it. Ends with 1 when the broker dies."""
    try:
        with Cluster(bootstrap) as cluster:
            plan = open_job(job, cluster, files_in([files]), TOPIC, Columns("value", "key"), split_bytes=1,
                            transactions=transactions)
        run_job(job, bootstrap, plan, Threads(2))
    except KraftError as error:
        raise SystemExit(1) from error


def records_of(bootstrap: str) -> Counter[bytes]:
    """Count how often each value is in the topic, once all transactions have ended."""
    settle(bootstrap, UNFINISHED)
    origin = origin_of({"kafka.bootstrap.servers": bootstrap, "subscribe": TOPIC,
                        "kafka.isolation.level": "read_committed"})
    found: Counter[bytes] = Counter()
    for piece in origin.ranges({name: (0, end) for name, end in origin.latest(origin.partitions()).items()}):
        for columns in origin.read(piece, ("value",)):
            found.update(pa.record_batch(columns)["value"].to_pylist())
    origin.close()
    return found


def one_run(seed: int, top: Path, *, transactions: bool) -> tuple[int, list[str]]:
    """Run a job of some files; return (kills, also of the broker, and faults in the end)."""
    chance = random.Random(seed)
    rows = chance.randint(5_000, 60_000)
    files = top / "files"
    files.mkdir()
    pq.write_table(pa.table({"key": [f"key {row % 977}" for row in range(rows)],
                             "value": [b"row %d" % row for row in range(rows)]}),
                   files / "rows.parquet", row_group_size=chance.choice([1_000, 10_000, 100_000]))
    node = NodeProcess(top / "data")
    node.start()
    try:
        admin = AdminClient({"bootstrap.servers": node.address, "log_level": 2})
        for made in admin.create_topics([NewTopic(TOPIC, chance.randint(1, 4), 1)]).values():
            made.result(SECONDS)
        kills = _attempts(chance, node, top / "job", files, transactions)
        code = in_process(run_ingest, node.address, top / "job", files, transactions)
        if code:
            return kills + node.kills, [f"the last attempt ended with {code}"]
        found = in_records(node.address, rows)
    finally:
        node.kill()
    return kills + node.kills - 1, found


def in_records(bootstrap: str, rows: int) -> list[str]:
    """Faults of the topic: values that are missing or duplicate."""
    wanted, found = Counter(b"row %d" % row for row in range(rows)), records_of(bootstrap)
    return [f"{value.decode()}: {found[value]} times, not {wanted[value]}" for value in (wanted | found)
            if found[value] != wanted[value]]


def _attempts(chance: random.Random, node: NodeProcess, job: Path, files: Path, transactions: bool) -> int:
    """Make attempts that are killed at random moments, some together with the broker; return their number."""
    kills = 0
    whole = 1.0
    for _ in range(chance.randint(2, 5)):
        begin, seconds = time.monotonic(), chance.uniform(0, whole)
        process = PROCESSES.Process(target=run_ingest, args=(node.address, job, files, transactions))
        process.start()
        if chance.random() < 0.4:
            process.join(seconds / 2)
            node.kill_and_start()
        process.join(seconds)
        if process.is_alive():
            process.kill()
            kills += 1
        process.join()
        if process.exitcode == 0:
            whole = max(time.monotonic() - begin, 0.2)
        process.close()
    return kills
