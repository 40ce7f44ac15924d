"""Apache Kafka 4.3.1 as a peer: its command-line tools and a whole node, started from the jars that Maven resolves.

Nothing here runs where Java or Maven are missing: `require_kafka()` skips the test and says why.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraft.client import Cluster
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from tests.ports import free_ports

HERE = Path(__file__).parent
START_SECONDS = 60
STOP_SECONDS = 60
ENDING = ("PrepareCommit", "PrepareAbort")
# For processes that live for seconds, on few cores.
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


@functools.cache
def missing(directory: Path = HERE) -> str | None:
    """Return why the artifacts of that `pom.xml`, by default Kafka, cannot be run, or None."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    try:
        classpath(directory)
    except subprocess.CalledProcessError as error:
        return f"Maven could not resolve it: {error.stdout[-500:]}"
    return None


def require_kafka(directory: Path = HERE) -> None:
    """Skip the calling test, visibly, when the peer is not available."""
    if (reason := missing(directory)) is not None:
        pytest.skip(f"needs Apache Kafka as a peer: {reason}")


def classpath(directory: Path = HERE) -> str:
    """Class path of the artifacts of that `pom.xml`, by default Kafka and its tools.

    It is resolved once per checkout, and again when a jar is missing.
    """
    file = directory / ".cache" / "classpath.txt"
    if file.exists():
        text = file.read_text()
        if all(os.path.exists(jar) for jar in text.split(":")):
            return text
    file.parent.mkdir(exist_ok=True)
    subprocess.run(
        ["mvn", "-q", "-B", "-f", str(directory / "pom.xml"), "dependency:build-classpath",
         f"-Dmdep.outputFile={file}"],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
    )
    return file.read_text()


def java(main_class: str, *arguments: str, timeout: float = 120, heap: str = "512m") -> str:
    """Run one of Kafka's tools to its end; return its standard output."""
    done = subprocess.run(
        ["java", f"-Xmx{heap}", *QUICK_START, "-cp", f"{HERE}:{classpath()}", main_class, *arguments],
        capture_output=True, text=True, timeout=timeout, check=False,
    )
    if done.returncode != 0:
        raise AssertionError(f"{main_class} exited with {done.returncode}:\n"
                             f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def dump_log(files: Sequence[Path]) -> str:
    """Run `kafka-dump-log --deep-iteration --print-data-log` over the files."""
    return java("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log",
                "--files", ",".join(map(str, files)))


class KafkaProcess:
    """One process of Kafka's, with a `server.properties` of the given settings. `start` and `stop` may alternate."""

    def __init__(self, home: Path, settings: dict[str, str], heap: str = "512m", options: Sequence[str] = ()) -> None:
        self.home = home
        self.properties = home / "server.properties"
        home.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.process: subprocess.Popen[str] | None = None
        self.output: list[str] = []
        self.heap = heap
        self.java_options = options

    def format(self, *options: str, cluster_id: str = "") -> None:
        """Run Kafka's own `kafka-storage format`; by default for a single node."""
        cluster_id = cluster_id or java("kafka.tools.StorageTool", "random-uuid").strip()
        java("kafka.tools.StorageTool", "format", *(options or ("--standalone",)), "-t", cluster_id, "-c",
             str(self.properties))

    def start(self) -> None:
        """Start the process and wait until it reports that it serves."""
        self.launch()
        self.await_ready()

    def await_ready(self) -> None:
        """Wait until a launched process reports that it serves."""
        assert self.process is not None
        if not self._ready.wait(START_SECONDS) or self.process.poll() is not None:
            tail = "".join(self.output[-40:])
            self.kill()
            raise AssertionError(f"Kafka did not start:\n{tail}")

    def launch(self) -> subprocess.Popen[str]:
        """Start the process without waiting."""
        self.output = []
        self._ready = threading.Event()
        self.process = subprocess.Popen(
            ["java", f"-Xmx{self.heap}", *self.java_options, "-cp", f"{HERE}:{classpath()}", "kafka.Kafka",
             str(self.properties)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.home,
        )
        self._collector = threading.Thread(target=self._collect, args=(self.process, self._ready), daemon=True)
        self._collector.start()
        return self.process

    def _collect(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self.output.append(line)
                if "Kafka Server started" in line:
                    ready.set()
        ready.set()

    def stop(self) -> None:
        """End it cleanly, so that it leaves its clean-shutdown marker."""
        if self.process is not None:
            self.process.terminate()
            self._ended()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self._ended()

    def _ended(self) -> None:
        """Wait for the process and for the reader of its output, and close the output."""
        if self.process is not None:
            self.process.wait(STOP_SECONDS)
            self._collector.join(STOP_SECONDS)
            self.process = None


class KafkaNode(KafkaProcess):
    """One combined node (broker and controller) on loopback."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.data = home / "data"
        self.port, controller_port = free_ports(2)
        base = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.dirs": str(self.data),
            "log.initial.task.delay.ms": "600000",
        }
        base.update({name.replace("_", "."): value for name, value in settings.items()})
        super().__init__(home, base)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def settle(self, *states: str) -> None:
        """Wait until no transaction is in one of these states.

        By default, wait until every ended transaction is marked as ended in its partitions: Kafka answers before that.
        """
        with Cluster(self.bootstrap) as cluster:
            listing = ListTransactionsRequest(state_filters=states or ENDING)
            while cluster.send(listing, ListTransactionsResponse).transaction_states:
                pass

    def create_topic(self, name: str, **configs: str) -> None:
        options = [piece for key, value in configs.items()
                   for piece in ("--config", f"{key.replace('_', '.')}={value}")]
        java("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.bootstrap, "--create", "--topic", name,
             "--partitions", "1", "--replication-factor", "1", *options)

    def consume(self, topic: str, *, count: int, isolation: str = "read_uncommitted") -> list[str]:
        """Return the first `count` records of partition 0 as `CreateTime:t|Offset:o|Headers|key|value` lines."""
        text = java(
            "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", self.bootstrap, "--topic", topic,
            "--partition", "0", "--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "20000",
            "--isolation-level", isolation, "--formatter-property", "print.timestamp=true", "--formatter-property",
            "print.offset=true", "--formatter-property", "print.headers=true", "--formatter-property", "print.key=true",
            "--formatter-property", "key.separator=|", "--formatter-property", "headers.separator=,",
        )
        return [line for line in text.splitlines() if line.startswith(("CreateTime:", "LogAppendTime:"))]


@contextmanager
def kafka_node(home: Path, **settings: str) -> Iterator[KafkaNode]:
    """A formatted node, not yet started; killed at the end if it still runs."""
    node = KafkaNode(home, **settings)
    node.format()
    try:
        yield node
    finally:
        node.kill()
