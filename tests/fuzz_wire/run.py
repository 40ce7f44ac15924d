"""Send frames to a node and watch it: it lives, it replies, its replies can be decoded, its memory stays flat."""

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.headers import decode_response_header
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_groups_response import DeleteGroupsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.list_groups_request import ListGroupsRequest
from kraft.protocol.messages.list_groups_response import ListGroupsResponse
from kraft_native.base.errors import KraftError
from tests.fuzz_wire.frames import PARTITIONS, TOPICS, TURN_FRAMES, Corpus, Frame, framed
from tests.integration.process import NodeProcess

SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "kraft.request.timeout.ms": "2000",
    "transaction.max.timeout.ms": "60000",
    "max.incremental.fetch.session.cache.slots": "100",
    "log.segment.bytes": str(16 << 20),
    "log.retention.bytes": "1",
}
THREADS: Final = 6
REPLY_SECONDS: Final = 0.3
ANSWER_SECONDS_MAX: Final = 10.0
CHECK_SECONDS: Final = 5.0
# Three runs of 65,000 frames each grew by 10 to 13 MiB, and not further over their last third.
GROWTH_BYTES_MAX: Final = 24 << 20
# Neither every frame nor every valid frame gets a reply: some requests wait for others.
ROUNDS_MIN: Final = 2
PING_ID: Final = 0x7ABCDEF
PING: Final = framed(struct.pack(">hhih", 18, 0, PING_ID, -1))


class Served(NamedTuple):
    """A version of an API on one of the node's listeners."""

    listener: str
    api: str
    version: int


@dataclass
class Report:
    """Counts and findings. `answers`: how frames ended. `served`: number of replies per announced API and version."""

    frames: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    served: Counter[Served] = field(default_factory=Counter)
    announced: set[Served] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    resident_bytes: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        ends = ", ".join(f"{count} {what}" for what, count in sorted(self.answers.items()))
        memory = " ".join(f"{each >> 20}" for each in self.resident_bytes)
        return (f"{self.frames} frames, {len(self.served)} of {len(self.announced)} versions of APIs answered: {ends}\n"
                f"resident MiB: {memory}\n" + "".join(f"WRONG: {each}\n" for each in self.wrong))


class Target(NamedTuple):
    """A listener of the node, and the frames for it."""

    listener: str
    port: int
    corpus: Corpus


class Feeder(threading.Thread):
    """One connection after another. Each frame is followed by a request that only a living node answers. The frame's
    number selects the target."""

    def __init__(self, targets: tuple[Target, ...], next_number: Callable[[], int | None], report: Report,
                 lock: threading.Lock) -> None:
        super().__init__(name="feeder", daemon=True)
        self.targets, self.next_number, self.report, self.lock = targets, next_number, report, lock
        self.port = -1
        self.connection: socket.socket | None = None
        self.current = -1

    def run(self) -> None:
        try:
            self._run()
        except BaseException as error:
            with self.lock:
                self.report.wrong.append(f"frame {self.current}: the feeder failed: {error!r}")
            raise

    def _run(self) -> None:
        while (number := self.next_number()) is not None:
            self.current = number
            target = self.targets[number % len(self.targets)]
            if target.port != self.port:
                self._hang_up()
                self.port = target.port
            frame = target.corpus.frame(number)
            try:
                end, wrong = self._feed(frame)
            except ConnectionRefusedError:
                end, wrong = "refused", f"frame {number}: nobody listens"
            with self.lock:
                self.report.frames += 1
                self.report.answers[end] += 1
                if end == "answered" and frame.intact:
                    served = Served(target.listener, API_BY_KEY[frame.api_key].name, frame.version)
                    if served in self.report.announced:
                        self.report.served[served] += 1
                if wrong:
                    self.report.wrong.append(wrong)
        self._hang_up()

    def _feed(self, frame: Frame) -> tuple[str, str]:
        """Send one frame; return how it ended and what is wrong with that."""
        answered = ""
        try:
            connection = self._connected()
            connection.sendall(frame.data + PING)
            while True:
                reply = self._reply(connection)
                if reply is None:
                    self._hang_up()
                    return "closed", ""
                if int.from_bytes(reply[:4], "big") == PING_ID:
                    return "answered" if answered else "skipped", ""
                answered = "yes"
                if problem := self._examine(frame, reply):
                    self._hang_up()
                    return "answered", f"frame {frame.correlation_id}: {problem}"
        except TimeoutError:
            self._hang_up()
            return "waiting", ""
        except ConnectionRefusedError:
            raise
        except OSError:
            self._hang_up()
            return "closed", ""

    def _examine(self, frame: Frame, reply: bytes) -> str:
        if not frame.intact:
            return ""
        api = API_BY_KEY[frame.api_key]
        version = frame.version
        if api.name == "ApiVersions" and reply[4:6] == b"\0\x23":
            version = 0
        try:
            header, body = decode_response_header(reply, api, version)
            if header.correlation_id != frame.correlation_id:
                return f"{api.name} {version}: correlation id {header.correlation_id}"
            api.response.decode(body, version, exact=True)
        except KraftError as error:
            return f"{api.name} {version}: the answer cannot be read: {error}"
        return ""

    def _connected(self) -> socket.socket:
        if self.connection is None:
            self.connection = socket.create_connection(("127.0.0.1", self.port), 5)
            self.connection.settimeout(REPLY_SECONDS)
        return self.connection

    def _hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    @staticmethod
    def _reply(connection: socket.socket) -> bytes | None:
        head = _exactly(connection, 4)
        return None if head is None else _exactly(connection, int.from_bytes(head, "big"))


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def tidy_up(cluster: Cluster) -> None:
    """Delete the topics and groups that the frames legitimately created."""
    names = [topic.name for topic in cluster.metadata().topics if topic.name not in TOPICS and not topic.is_internal]
    if names:
        cluster.controller().send(DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names], timeout_ms=5000), DeleteTopicsResponse)
    groups = [group.group_id for group in cluster.any().send(ListGroupsRequest(), ListGroupsResponse).groups]
    if groups:
        cluster.any().send(DeleteGroupsRequest(groups_names=groups), DeleteGroupsResponse)


def fuzz(directory: Path, seed: int, *, seconds: float, frames_max: int = 10**9, first: int = 0) -> Report:
    """Feed a new node in `directory` until the time is over or something is wrong."""
    node = NodeProcess(directory, SETTINGS)
    node.start()
    report = Report()
    try:
        _prepare(node)
        _fuzz(node, report, seed, seconds, frames_max, first)
    finally:
        if node.running and not report.wrong:
            node.stop()
        else:
            node.kill()
    return report


def _prepare(node: NodeProcess) -> None:
    with Cluster(node.address, timeout=ANSWER_SECONDS_MAX) as cluster:
        for topic in TOPICS:
            create_topic(cluster, topic, partitions=PARTITIONS)


def _fuzz(node: NodeProcess, report: Report, seed: int, seconds: float, frames_max: int, first: int) -> None:
    with Cluster(node.address, timeout=ANSWER_SECONDS_MAX) as cluster:
        ids = tuple(cluster.topic(topic).topic_id for topic in TOPICS)
        broker = Target("broker", node.port, Corpus(seed, ids, cluster.any().versions))
        with cluster.connect("127.0.0.1", node.controller_port) as connection:
            controller = Target("controller", node.controller_port, Corpus(seed, ids, connection.versions))
    targets = (broker,) * (TURN_FRAMES - 1) + (controller,)
    report.announced = {Served(target.listener, API_BY_KEY[key].name, version)
                        for target in (broker, controller) for key, version in target.corpus.served_targets}
    lock = threading.Lock()
    deadline = time.monotonic() + seconds
    numbers = iter(range(first, first + frames_max))
    stop = threading.Event()

    def next_number() -> int | None:
        with lock:
            return None if stop.is_set() or time.monotonic() > deadline else next(numbers, None)

    feeders = [Feeder(targets, next_number, report, lock) for _ in range(THREADS)]
    for feeder in feeders:
        feeder.start()
    while any(feeder.is_alive() for feeder in feeders) and not report.wrong:
        next(feeder for feeder in (*filter(threading.Thread.is_alive, feeders), feeders[0])).join(CHECK_SECONDS)
        _check(node, report, feeders)
    stop.set()
    for feeder in feeders:
        feeder.join()
    if not report.wrong:
        _check(node, report, feeders)
    rounds = report.frames // (TURN_FRAMES * len(report.announced))
    missing = sorted(report.announced - report.served.keys())
    if not report.wrong and rounds >= ROUNDS_MIN and missing:
        report.wrong.append(f"no answer in {rounds} rounds: {missing}")


def _tidied_up(node: NodeProcess) -> str:
    """Return why the node cannot be used. A broker that a frame unregistered returns with one of its next
    heartbeats."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        try:
            with Cluster(node.address, timeout=ANSWER_SECONDS_MAX) as cluster:
                tidy_up(cluster)
        except KraftError as error:
            if time.monotonic() > deadline:
                return str(error)
            time.sleep(0.1)
        else:
            return ""


def _check(node: NodeProcess, report: Report, feeders: list[Feeder]) -> None:
    current = [feeder.current for feeder in feeders]
    if not node.running:
        report.wrong.append(f"the node died around the frames {current}:\n{node.log(40)}")
        return
    if alarms := node.alarms():
        report.wrong.append(f"the node logged {alarms[:5]}:\n{node.log(40)}")
        return
    if problem := _tidied_up(node):
        report.wrong.append(f"the node does not serve around the frames {current}: {problem}")
        return
    report.resident_bytes.append(node.resident_bytes())
    # The first checks see caches and code that are loaded on first use.
    settled = report.resident_bytes[min(1, len(report.resident_bytes) - 1)]
    if report.resident_bytes[-1] - settled > GROWTH_BYTES_MAX:
        report.wrong.append(f"memory grew: {report.resident_bytes}")
