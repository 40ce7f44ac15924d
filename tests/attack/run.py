"""Attack a node and measure it: the second client's latencies, the node's memory and its processor time."""

import contextlib
import os
import re
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.protocol.apis import API_BY_NAME
from kraft.protocol.headers import encode_request_header
from kraft.protocol.message import Message
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.attack.pauses import Interval, Pauses, within
from tests.attack.requests import TOPIC, Hostile
from tests.attack.second import Second
from tests.integration.process import NodeProcess
from tests.ports import free_ports

ANSWER_SECONDS_MAX: Final = 120.0
RECEIVED_BYTES: Final = 1 << 18
RETURN_SECONDS_MAX: Final = 5.0
BASE_BYTES: Final = 96 << 20
"""Memory that a node may use for any one request besides twice its size: a hundred thousand elements as objects."""
KEPT_BYTES: Final = 64 << 20
"""Memory that a node may keep for a while after refused records or unread replies, for the next requests."""
P999_MS_MAX: Final = 25.0
SAMPLES_WANTED: Final = 1_001
"""Requests of the second client beside an attack: the 99.9th percentile of fewer is their maximum, one unlucky wait."""
OBSERVED_SECONDS: Final = 10.0
"""Time for which an attack is repeated, while the second client has fewer samples. It needs 4 to 6 ms for each beside
most attacks, on a slow machine."""
ATTACKER_NICE: Final = 5
"""Priority of the attackers' threads: real ones do not share the node's processors."""
MEMORY_BYTES: Final = 64 << 20
"""Value of kraft.request.memory.max.bytes of the attacked node."""
LONGEST: Final = re.compile(r'^kraft_slice_longest_seconds\{request="(\w*)"\} (\S+)$', re.MULTILINE)


@dataclass
class Row:
    """Result of one attack. Latencies are the second client's, in milliseconds, sorted; `own_ms` are the same without
    the pauses of the machine."""

    name: str
    connections: int = 1
    request_bytes: int = 0
    answer_bytes: int = 0
    seconds: float = 0.0
    end: str = "answered"
    latencies_ms: list[float] = field(default_factory=list)
    own_ms: list[float] = field(default_factory=list)
    memory_bytes: int = 0
    kept_bytes: int = 0
    cpu_seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def set_latencies(self, requests: Sequence[Interval], pauses: Sequence[Interval]) -> None:
        """Set the latencies from the second client's requests and the pauses of the machine meanwhile, in seconds."""
        self.latencies_ms = sorted((end - begin) * 1000 for begin, end in requests)
        self.own_ms = sorted((end - begin - within(pauses, begin, end)) * 1000 for begin, end in requests)

    def __str__(self) -> str:
        wrong = f"  WRONG: {'; '.join(self.wrong)}" if self.wrong else ""
        return (f"{self.name:46}{self.connections:>3}{self.request_bytes / 1e6:>8.2f}{self.answer_bytes / 1e6:>9.2f}"
                f"{self.seconds:>8.2f}{self.cpu_seconds:>7.2f}{self.memory_bytes >> 20:>6}{self.kept_bytes >> 20:>6}"
                f"{percentile(self.latencies_ms, 0.5):>8.2f}{percentile(self.latencies_ms, 0.99):>8.2f}"
                f"{percentile(self.latencies_ms, 0.999):>8.2f}{percentile(self.own_ms, 0.999):>8.2f}  "
                f"{self.end}{wrong}")


def percentile(sorted_ms: Sequence[float], share: float) -> float:
    """Return a percentile of sorted latencies."""
    return sorted_ms[min(len(sorted_ms) - 1, int(share * len(sorted_ms)))]


HEAD: Final = (f"{'request':46}{'on':>3}{'MB':>8}{'answer':>9}{'s':>8}{'cpu s':>7}{'MiB':>6}{'kept':>6}"
               f"{'p50 ms':>8}{'p99':>8}{'p99.9':>8}{'own':>8}")
"""Columns: `kept` in MiB; `own` is the 99.9th percentile without the pauses of the machine."""


def second(port: int) -> Second:
    """Start the second client, whose requests are small, and connect it."""
    return Second(port, [framed(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12), framed(
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[
            ListOffsetsPartition(timestamp=-1)])]), 7)])


def framed(message: Message, version: int) -> bytes:
    """Encode a request as it is sent, with its length."""
    api = API_BY_NAME[type(message).__name__.removesuffix("Request")]
    content = encode_request_header(api, version, 1, "second") + message.encode(version)
    return len(content).to_bytes(4, "big") + content


def receive(connection: socket.socket) -> int:
    """Read one reply, drop it and return its size. Raises `ConnectionError` when the node closes."""
    head = b""
    while len(head) < 4:
        part = connection.recv(4 - len(head))
        if not part:
            raise ConnectionError("closed")
        head += part
    left = size = int.from_bytes(head, "big")
    room = bytearray(min(RECEIVED_BYTES, max(left, 1)))
    while left:
        count = connection.recv_into(room, min(left, len(room)))
        if not count:
            raise ConnectionError("closed")
        left -= count
    return size


class Attacker(threading.Thread):
    """One connection that sends a frame `copies` times and reads the replies."""

    def __init__(self, port: int, frame: bytes, copies: int) -> None:
        super().__init__(name="attacker", daemon=True)
        self._connection = socket.create_connection(("127.0.0.1", port), 10)
        self._connection.settimeout(ANSWER_SECONDS_MAX)
        self._frame, self._copies = frame, copies
        self.answer_bytes = 0
        self.end = "answered"

    def run(self) -> None:
        yield_processor()
        sender = threading.Thread(target=self._send, daemon=True)
        sender.start()
        try:
            for _ in range(self._copies):
                self.answer_bytes += receive(self._connection)
        except TimeoutError:
            self.end = "no answer"
        except OSError:
            self.end = "closed"
        self._connection.close()
        sender.join()

    def _send(self) -> None:
        with contextlib.suppress(OSError):
            for _ in range(self._copies):
                self._connection.sendall(self._frame)


def yield_processor() -> None:
    """Lower the priority of this thread, and of the threads that it starts."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), ATTACKER_NICE)


class Watched:
    """Memory and processor time of the node."""

    def __init__(self, node: NodeProcess) -> None:
        self._process = Path(f"/proc/{node.pid}")

    def reset(self) -> None:
        """Reset the peak of the memory."""
        (self._process / "clear_refs").write_text("5")

    def memory(self, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", (self._process / "status").read_text("ascii"))
        assert found is not None
        return int(found[1]) * 1024

    def cpu_seconds(self) -> float:
        fields = (self._process / "stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


def kept(watched: Watched, base: int) -> int:
    """Return the memory that the node still uses a while after an attack, above `base`."""
    deadline = time.monotonic() + RETURN_SECONDS_MAX
    while (left := watched.memory("VmRSS") - base) > KEPT_BYTES // 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    return max(0, left)


def attack(node: NodeProcess, hostile: Hostile, connections: int = 1, seconds: float = OBSERVED_SECONDS) -> Row:
    """Run one attack over `connections` connections at once, with a second client beside it. Repeat it until that
    client has `SAMPLES_WANTED`, for at most `seconds`."""
    frame = hostile.frame()
    row = Row(hostile.name + (" (controller)" if hostile.controller else ""), connections,
              len(frame) * hostile.copies * connections)
    watched = Watched(node)
    watched.reset()
    base, cpu = watched.memory("VmRSS"), watched.cpu_seconds()
    pauses, beside = Pauses(), second(node.port)
    began = time.monotonic()
    attackers = send(node, hostile, frame, connections)
    row.seconds = time.monotonic() - began
    row.cpu_seconds = watched.cpu_seconds() - cpu
    row.end = attackers[0].end
    while time.monotonic() - began < seconds and row.end != "no answer" and beside.count() < SAMPLES_WANTED:
        row.end = send(node, hostile, frame, connections)[0].end
    row.set_latencies(beside.end(), pauses.end())
    row.answer_bytes = sum(each.answer_bytes for each in attackers)
    row.memory_bytes = max(0, watched.memory("VmHWM") - base)
    row.kept_bytes = kept(watched, base)
    return row


def send(node: NodeProcess, hostile: Hostile, frame: bytes, connections: int = 1) -> list[Attacker]:
    """Send the frames. Return when they are answered, or when it is known that they will not be."""
    port = node.controller_port if hostile.controller else node.port
    attackers = [Attacker(port, frame, hostile.copies) for _ in range(connections)]
    for each in attackers:
        each.start()
    for each in attackers:
        each.join()
    return attackers


def longest_steps(node: NodeProcess, metrics_port: int) -> dict[str, float]:
    """Return the longest steps that the node measured, in seconds, by request; "" is a step of a connection."""
    assert node.running
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=30) as answer:
        return {name: float(value) for name, value in LONGEST.findall(answer.read().decode())}


@contextlib.contextmanager
def attacked_node(directory: Path, topics: Mapping[str, Mapping[str, str]],
                  settings: Mapping[str, str] | None = None) -> Iterator[tuple[NodeProcess, int]]:
    """Start a node with a topic to attack and further topics by name with their settings, and with more settings of its
    own; yield it and its metrics port."""
    metrics_port, = free_ports(1)
    node = NodeProcess(directory, {
        "auto.create.topics.enable": "true", "kraft.metrics.listener": f"127.0.0.1:{metrics_port}",
        "num.partitions": "1", "kraft.request.memory.max.bytes": str(MEMORY_BYTES), **(settings or {})})
    node.start()
    try:
        with Cluster(node.address) as cluster:
            create_topic(cluster, TOPIC, 4)
            for topic, settings in topics.items():
                create_topic(cluster, topic, 1, configs=settings)
        yield node, metrics_port
    finally:
        node.stop()


def judge(row: Row, p999_ms_max: float, base_bytes: int) -> None:
    """Note which bounds were broken."""
    if (p999_ms := percentile(row.own_ms, 0.999)) > p999_ms_max:
        row.wrong.append(f"p99.9 {p999_ms:.1f} ms is above {p999_ms_max:g}")
    allowed = base_bytes + 2 * max(row.request_bytes, 0)
    if row.memory_bytes > allowed:
        row.wrong.append(f"{row.memory_bytes >> 20} MiB are above {allowed >> 20}")
    if row.kept_bytes > KEPT_BYTES:
        row.wrong.append(f"{row.kept_bytes >> 20} MiB are kept, more than {KEPT_BYTES >> 20}")
    if row.end == "no answer":
        row.wrong.append("no answer")
