"""Exactly once under fire, in Spark: queries restart at their checkpoints after kills.

A topic becomes Parquet files and Parquet files become a topic. Meanwhile executors, their Python workers, the driver
and the broker are killed with -9.

`python -m tests.pipeline spark` is the long form; every run has a seed.
"""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kraft.pipeline.origins import origin_of
from kraft.pipeline.table import covered, live_files
from kraft.spark.home import make_home
from tests.golden import REPOSITORY
from tests.integration.process import NodeProcess
from tests.pipeline.spark_driver import IN, OUT, Job
from tests.spark.topics import UNFINISHED, settle

SECONDS: Final = 20.0
START_SECONDS: Final = 600.0
JOB_SECONDS: Final = 900.0
ATTEMPTS_MAX: Final = 20
STARTS_MAX: Final = 3
# Longest time from one fault to the next, until a job without any has shown its duration.
FAULT_SECONDS: Final = 8.0

# Drivers alternate between these: executors in processes of their own, and one executor in the driver's process. Both
# retry a failed task as often.
MASTERS: Final = ("local-cluster[2,1,1024]", "local[2,4]")
# Processes of a driver's session by kind, recognized by their command lines.
KINDS: Final = {"driver": ("tests.pipeline.spark_driver", "SparkSubmit"), "executor": ("CoarseGrainedExecutorBackend",),
                "worker": ("pyspark.daemon", "pyspark.sql")}
# Drivers take longest to restart.
FAULTS: Final = ("driver", "executor", "worker", "broker")
WEIGHTS: Final = (2, 2, 3, 3)

Rows = Counter[tuple[int, int, bytes]]


class Driver:
    """The driver's process and its children. It starts when it is needed, and again after a kill."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.starts = 0
        self._process: subprocess.Popen[str] | None = None
        self._replies: queue.Queue[dict[str, Any]] = queue.Queue()
        self._home = top / "spark"
        make_home(self._home, Path(pyspark.__file__).parent)

    def ready(self) -> None:
        """Start it unless it runs. Spark gives up by itself when a machine is too slow for its time limits."""
        for _ in range(STARTS_MAX):
            if self._process is not None:
                return
            self._start()
            if (answer := self.reply(START_SECONDS)) is None or "ready" not in answer:
                self.end()
        if self._process is None:
            raise AssertionError(f"Spark did not start:\n{(self.top / 'driver.log').read_text()[-3_000:]}")

    def _start(self) -> None:
        master = MASTERS[self.starts % len(MASTERS)]
        self.starts += 1
        with (self.top / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.spark_driver", master], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=log, text=True, cwd=REPOSITORY, start_new_session=True,
                env={**os.environ, "SPARK_HOME": str(self._home), "SPARK_LOCAL_DIRS": str(self.top / "local")})
        self._replies = queue.Queue()
        threading.Thread(target=_collect, args=(self._process.stdout, self._replies), daemon=True).start()

    def submit(self, job: Job) -> None:
        assert self._process is not None and self._process.stdin is not None, "the driver does not run"
        self._process.stdin.write(json.dumps(job._asdict()) + "\n")
        self._process.stdin.flush()

    def reply(self, seconds: float) -> dict[str, Any] | None:
        """Return the driver's reply within so many seconds, or None; it has `gone` when the driver ended by itself."""
        try:
            found = self._replies.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return None
        if "gone" in found:
            self.end()
        return found

    def kill(self, kind: str, chance: random.Random) -> bool:
        """Kill the driver, or one process of another kind; return whether one existed.

        Orphans of a driver find out by themselves, as on other machines.
        """
        found = [pid for pid, command in self._processes() if any(part in command for part in KINDS[kind])]
        for pid in found if kind == "driver" else found and [chance.choice(found)]:
            _kill(pid)
        if kind == "driver":
            self._forget()
        return bool(found)

    def end(self) -> None:
        """Kill it and its children."""
        if self._process is not None:
            for pid, _ in self._processes():
                _kill(pid)
            self._forget()

    def _forget(self) -> None:
        assert self._process is not None and self._process.stdin is not None, "the driver does not run"
        self._process.wait()
        with suppress(BrokenPipeError):     # a job that was not read
            self._process.stdin.close()
        self._process = None

    def _processes(self) -> Iterator[tuple[int, str]]:
        """Return (pid, command line) of all processes of the driver's session."""
        assert self._process is not None, "the driver does not run"
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if session == self._process.pid:
                    yield int(entry.name), command


def _collect(lines: IO[str], replies: queue.Queue[dict[str, Any]]) -> None:
    with lines:
        for line in lines:
            if line.startswith("{"):
                replies.put(json.loads(line))
    replies.put({"gone": True})


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):      # it ended by itself
        os.kill(pid, signal.SIGKILL)


class Topics:
    """Topics of one run: filled, and read to compare."""

    def __init__(self, node: NodeProcess, partitions: int) -> None:
        self.node = node
        admin = AdminClient({"bootstrap.servers": node.address, "log_level": 2})
        for made in admin.create_topics([NewTopic(name, partitions, 1) for name in (IN, OUT)]).values():
            made.result(SECONDS)

    def send(self, values: range) -> None:
        producer = Producer({"bootstrap.servers": self.node.address, "log_level": 2, "enable.idempotence": True})
        for value in values:
            producer.produce(IN, b"record %d" % value, b"key %d" % (value % 97))
        assert producer.flush(SECONDS) == 0, "the node does not answer"

    def send_in_transactions(self, values: range, chance: random.Random) -> None:
        """Send the values in transactions, and others in aborted ones between them."""
        producer = Producer({"bootstrap.servers": self.node.address, "log_level": 2, "transactional.id": IN})
        producer.init_transactions(SECONDS)
        cuts = sorted({values.start, values.stop, *(chance.randrange(values.start, values.stop) for _ in range(4))})
        for start, stop in pairwise(cuts):
            for what, end in ((b"aborted", producer.abort_transaction), (b"record", producer.commit_transaction)):
                producer.begin_transaction()
                for value in range(start, stop):
                    producer.produce(IN, b"%s %d" % (what, value), b"key %d" % (value % 97))
                assert producer.flush(SECONDS) == 0, "the node does not answer"
                end(SECONDS)

    def rows(self, topic: str) -> Rows:
        """Count the committed rows of a topic, once all transactions have ended."""
        settle(self.node.address, UNFINISHED)
        origin = origin_of({"kafka.bootstrap.servers": self.node.address, "subscribe": topic,
                            "kafka.isolation.level": "read_committed"})
        found: Rows = Counter()
        for piece in origin.ranges({name: (0, end) for name, end in origin.latest(origin.partitions()).items()}):
            for columns in origin.read(piece, ("offset", "value")):
                rows = pa.record_batch(columns).to_pydict()
                found.update((piece.partition, *row) for row in zip(rows["offset"], rows["value"], strict=True))
        origin.close()
        return found


def write_files(directory: Path, values: range, chance: random.Random) -> None:
    """Write some Parquet files with these rows; each appears whole or not at all."""
    directory.mkdir(parents=True)
    cuts = sorted({values.start, values.stop, *(chance.randrange(values.start, values.stop) for _ in range(4))})
    for start, stop in pairwise(cuts):
        table = pa.table({"key": [f"key {value % 97}" for value in range(start, stop)],
                          "value": [b"row %d" % value for value in range(start, stop)]})
        draft = directory / f".{start}"
        pq.write_table(table, draft, row_group_size=500)
        draft.rename(directory / f"{start}.parquet")


def exported(top: Path, how: str) -> Rows:
    """Rows that a reader sees: of a table by its commits, of Spark's files by the log of Spark's sink."""
    names = [str(top / "table" / file.path) for file in live_files(top / "table")] if how == "table" else sink_files(
        top / "parquet")
    found: Rows = Counter()
    for name in names:
        rows = pq.read_table(name, columns=["partition", "offset", "value"], partitioning=None).to_pydict()
        found.update(zip(rows["partition"], rows["offset"], rows["value"], strict=True))
    return found


def sink_files(directory: Path) -> list[str]:
    """The files that Spark's own reader would read: each batch has its own list, every tenth batch one of all files."""
    lists = {int(path.name.partition(".")[0]): path for path in (directory / "_spark_metadata").glob("[0-9]*")
             if not path.name.endswith(".crc")}
    whole = max((number for number, path in lists.items() if path.suffix == ".compact"), default=-1)
    entries = [json.loads(line) for number, path in sorted(lists.items()) if number >= whole
               for line in path.read_text().splitlines()[1:]]
    return [entry["path"].removeprefix("file://") for entry in entries]


def compare(what: str, wanted: Counter[Any], found: Counter[Any]) -> list[str]:
    return [f"{what}: {row}: {found[row]} times, not {wanted[row]}" for row in (wanted | found)
            if found[row] != wanted[row]]


class Outcome(NamedTuple):
    """Number of killed processes, and the faults in the end."""

    kills: int
    wrong: list[str]


class SparkRuns:
    """Runs, one after the other. A driver that survives one serves the next, as its start takes longest."""

    def __init__(self, top: Path) -> None:
        self.driver = Driver(top)
        self.kills = 0
        self.job_seconds = FAULT_SECONDS

    def one_run(self, seed: int, top: Path, *, transactions: bool) -> Outcome:
        """Add more records and more files twice, and kill processes while they are moved."""
        chance = random.Random(seed)
        node = NodeProcess(top / "data")
        node.start()
        try:
            topics = Topics(node, chance.randint(1, 3))
            job = Job(str(top), node.address, chance.choice(["sink", "table"]), chance.choice(["sink", "job"]),
                      transactions)
            self.kills = records = rows = 0
            for number in range(2):
                more, files = chance.randint(500, 4_000), chance.randint(500, 4_000)
                if transactions:
                    topics.send_in_transactions(range(records, records + more), chance)
                else:
                    topics.send(range(records, records + more))
                settle(node.address)
                write_files(top / "files" / str(number), range(rows, rows + files), chance)
                records, rows = records + more, rows + files
                self._moved(job, node, chance)
            return Outcome(self.kills, _wrong(topics, job, records, rows))
        finally:
            node.kill()

    def _moved(self, job: Job, node: NodeProcess, chance: random.Random) -> None:
        """Repeat until the job is done."""
        faults = [(chance.uniform(0, self.job_seconds), what)
                  for what in chance.choices(FAULTS, WEIGHTS, k=chance.randint(1, 3))]
        for _ in range(ATTEMPTS_MAX):
            answer = self._attempt(job, faults, node, chance)
            if answer is not None and "done" in answer:
                return
        raise AssertionError(f"{job}: not done after {ATTEMPTS_MAX} attempts; the last one: {answer}")

    def _attempt(self, job: Job, faults: list[tuple[float, str]], node: NodeProcess,
                 chance: random.Random) -> dict[str, Any] | None:
        """Return the driver's answer; None when the driver was killed.

        The delay of each fault counts from the previous one. A fault that occurs is removed from the list; those that
        come too late remain.
        """
        self.driver.ready()
        self.driver.submit(job)
        begun, undisturbed = time.monotonic(), True
        while faults:
            delay, what = faults[0]
            if (answer := self.driver.reply(delay)) is not None:
                if undisturbed:
                    self.job_seconds = time.monotonic() - begun
                return answer
            faults.pop(0)
            undisturbed = False
            if what == "broker":
                node.kill_and_start()
                self.kills += 1
            else:
                self.kills += self.driver.kill(what, chance)
            if what == "driver":
                return None
        answer = self.driver.reply(JOB_SECONDS)
        assert answer is not None, f"{job}: neither done nor failed after {JOB_SECONDS:.0f} s"
        return answer


def _wrong(topics: Topics, job: Job, records: int, rows: int) -> list[str]:
    source, top = topics.rows(IN), Path(job.top)
    sent = Counter({b"record %d" % value: 1 for value in range(records)})
    wrong = compare("topic to send", sent, Counter(value for _, _, value in source.elements()))
    wrong += compare(f"topic to Parquet ({job.export})", source, exported(top, job.export))
    if job.export == "table":
        covered(top / "table")
    arrived = Counter(value for _, _, value in topics.rows(OUT).elements())
    return wrong + compare(f"Parquet to topic ({job.ingest})", Counter({b"row %d" % row: 1 for row in range(rows)}),
                           arrived)


@contextmanager
def spark_runs(top: Path) -> Iterator[SparkRuns]:
    runs = SparkRuns(top)
    try:
        yield runs
    finally:
        runs.driver.end()
