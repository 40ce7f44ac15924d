"""Attacks of hostile peers on connections and memory. After each test the node lives, serves, and logged no fault of
its own. Attacks in record batches: `test_hostile_records.py`."""

import os
import random
import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigResource, ConfigSource

from kraft.client import Cluster
from kraft.client.fetcher import Limits, fetch_request
from kraft.client.producer import produce_request
from kraft.client.topics import create_topic
from kraft.client.transactions import TRANSACTION
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.produce_request import ProduceRequest
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft_native.batch.records import BatchBuilder
from tests.integration.admin import alter, configs, wait_until
from tests.integration.hostile import Peer, closed_without_a_word, descriptors, framed, many_descriptors, request
from tests.integration.process import NodeProcess

MIB = 1 << 20
HELLO = request("ApiVersions", 0, b"")
FRAME_MS, IDLE_MS, READER_MS = 400, 2_000, 800
CONNECTIONS, PER_IP = 60, 5
FEW_DESCRIPTORS = 256
INTERNAL_PARTITIONS = {"offsets.topic.num.partitions": "8", "transaction.state.log.num.partitions": "4"}
INTERNAL_FILES = sum(map(int, INTERNAL_PARTITIONS.values())) + 2    # and of the metadata: its log, the flight recorder
SETTINGS = INTERNAL_PARTITIONS | {
    "kraft.request.timeout.ms": str(FRAME_MS), "connections.max.idle.ms": str(IDLE_MS),
    "kraft.slow.reader.timeout.ms": str(READER_MS), "kraft.request.memory.max.bytes": str(16 * MIB),
    "socket.listen.backlog.size": "1024",
}


def one_record(topic: str, size: int = 10) -> ProduceRequest:
    builder = BatchBuilder()
    builder.append(os.urandom(size))
    return produce_request({(topic, 0): builder.build()}, -1, 1000)


@pytest.fixture(scope="module")
def victim_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node with short time-outs and little memory for requests, and a topic with some data."""
    with many_descriptors(4096):
        node = NodeProcess(tmp_path_factory.mktemp("victim") / "data", SETTINGS)
        node.start()
        with Cluster(node.address) as cluster:
            create_topic(cluster, "events", partitions=1)
            answer = cluster.leader("events", 0).send(one_record("events", MIB // 2), ProduceResponse, version=9)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            cluster.coordinator("group")    # creates the internal topics, whose files stay open from now on
            cluster.coordinator("transactional id", TRANSACTION)
        wait_until(lambda: sum("/__" in name for name in descriptors(node)) == INTERNAL_FILES,
                   "the log of every internal partition is open")
        with Peer(node) as peer:
            peer.send(request("Fetch", 11, fetch_body(max_wait_ms=0)))
            assert len(peer.reply()) > MIB // 2    # opens the file a second time; the replies consist of its pages
        yield node
        node.stop()


@pytest.fixture
def victim(victim_process: NodeProcess) -> Iterator[NodeProcess]:
    """A node that is alive and serving after the test, with no more memory and no more descriptors than before."""
    before, open_before = victim_process.resident_bytes(), descriptors(victim_process)
    yield victim_process
    assert victim_process.running, victim_process.log()
    with Cluster(victim_process.address) as cluster:
        assert cluster.topic("events").error_code == ErrorCode.NONE
    assert victim_process.alarms() == []
    assert victim_process.resident_bytes() - before < 40 * MIB
    for _ in range(500):
        if not descriptors(victim_process) - open_before:
            break
        time.sleep(0.01)  # the node closes its side when it receives our close
    assert descriptors(victim_process) - open_before == Counter()


def fetch_body(max_wait_ms: int, offset: int = 0) -> bytes:
    """Build a Fetch of version 11 of up to 1 MiB of the topic."""
    return fetch_request("events", 0, offset, Limits(MIB, MIB, wait_ms=max_wait_ms)).encode(11)


# --- frames


@pytest.mark.parametrize("length", [-1, -(2**31), 100 * MIB + 1, 2**31 - 1])
def test_length_out_of_range(victim: NodeProcess, length: int) -> None:
    with Peer(victim) as peer:
        peer.send(HELLO + struct.pack(">i", length) + bytes(1000))
        assert peer.reply()[:4] == struct.pack(">i", 7), "what came before is answered"
        assert peer.rest() == b""


def test_a_thousand_connections_announce_100_mib_each(victim: NodeProcess) -> None:
    """Memory follows what arrives, never what is announced; others are served meanwhile."""
    before = victim.resident_bytes()
    with many_descriptors(4096), ExitStack() as peers:
        crowd = [peers.enter_context(Peer(victim)) for _ in range(1000)]
        for peer in crowd:
            peer.send(struct.pack(">i", 100 * MIB) + bytes(1000))
        with Peer(victim) as other:
            answer = other.exchange(MetadataRequest(topics=[]), 12)
            assert answer is not None
        assert victim.resident_bytes() - before < 24 * MIB
        for peer in crowd:
            assert peer.rest() == b"", "cut off by the time-out for one request"


def test_memory_of_large_frames_is_bounded_for_all_together(victim: NodeProcess) -> None:
    """400 MiB arrive in 40 requests that never complete. The node holds 16 MiB, and the largest frame that may
    continue."""
    before = victim.resident_bytes()
    with ExitStack() as peers:
        crowd = [peers.enter_context(Peer(victim)) for _ in range(40)]
        piece = bytes(MIB)
        for peer in crowd:
            peer.socket.setblocking(False)
            peer.socket.send(struct.pack(">i", 11 * MIB))
        peak = 0
        for _ in range(10):
            for peer in crowd:
                try:
                    peer.socket.send(piece)
                except OSError:
                    continue
            peak = max(peak, victim.resident_bytes())
        assert peak - before < 48 * MIB


FLEXIBLE_BODIES = {
    "array longer than the rest": b"\xff\xff\xff\x7f",
    "array count beyond int32": b"\xff\xff\xff\xff\x0f",
    "varint without an end": b"\xff" * 12,
    "string longer than the rest": b"\x02" + bytes(16) + b"\xff\x7f" + b"abc",
    "no body": b"",
    "unknown tag longer than the rest": b"\x01\x01\x00\x01\x63\xff\xff\x03x",
    "more tags than bytes": b"\x01\x01\x00\xff\xff\xff\xff\x0f",
}
OLD_BODIES = {
    "array longer than the rest": struct.pack(">i", 2**31 - 1),
    "array of a negative length": struct.pack(">i", -2),
    "string longer than the rest": struct.pack(">ih", 1, 32767) + b"abc",
    "string of a negative length": struct.pack(">ih", 1, -5) + b"abc",
    "string that is no UTF-8": struct.pack(">ih", 1, 2) + b"\xc3\x28\x01",
    "no body": b"",
}


@pytest.mark.parametrize(("version", "body"), [
    *((12, body) for body in FLEXIBLE_BODIES.values()), *((8, body) for body in OLD_BODIES.values()),
], ids=[*(f"flexible-{name}" for name in FLEXIBLE_BODIES), *OLD_BODIES])
def test_lengths_inside_a_request(victim: NodeProcess, version: int, body: bytes) -> None:
    closed_without_a_word(victim, request("Metadata", version, body))


@pytest.mark.parametrize("filling", [b"\xff", b"\x7f", b"\x80", b"\x00", b"\x01"])
def test_nonsense_for_every_api_and_version(victim: NodeProcess, filling: bytes) -> None:
    """Each request is answered or its connection is closed, and none keeps the next connection from being served."""
    ends = {"answered": 0, "closed": 0}
    with Cluster(victim.address) as cluster:
        served = cluster.any().versions
    for key, (low, high) in sorted(served.items()):
        api = API_BY_KEY[key]
        for version in range(max(low, api.versions.start), high + 1):
            if api.name in ("JoinGroup", "Fetch") and filling in (b"\x00", b"\x01"):
                continue  # proper requests that may wait
            with Peer(victim) as peer:
                peer.send(request(api.name, version, filling * 200) + request("ApiVersions", 0, b"", 8))
                try:
                    peer.reply()
                    ends["answered"] += 1
                except (AssertionError, ConnectionError):
                    ends["closed"] += 1
    assert sum(ends.values()) > 150
    if filling == b"\xff":
        assert ends["closed"] > 100


def test_unknown_tags_are_skipped(victim: NodeProcess) -> None:
    tags = b"\x02\x63\x03abc\x64\x00"
    with Peer(victim) as peer:
        peer.send(request("Metadata", 12, b"\x01\x01\x00" + tags))
        assert len(peer.reply()) > 20


@pytest.mark.parametrize("key", [-1, 4, 94, 999, 32767], ids=lambda key: f"key-{key}")
def test_apis_that_are_unknown_or_not_served(victim: NodeProcess, key: int) -> None:
    """4 was for a ZooKeeper controller; 94 is not assigned."""
    closed_without_a_word(victim, framed(struct.pack(">hhih", key, 0, 1, -1)))


@pytest.mark.parametrize("name", ["Metadata", "Produce", "Fetch", "ListOffsets"])
@pytest.mark.parametrize("version", [-1, 99, 32767])
def test_versions_that_are_not_served(victim: NodeProcess, name: str, version: int) -> None:
    closed_without_a_word(victim, request(name, version, bytes(40)))


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_of_the_future_is_answered_in_version_0(victim: NodeProcess, version: int) -> None:
    """KIP-511: the answer is UNSUPPORTED_VERSION and the served versions; the client then repeats the request on the
    same connection."""
    with Peer(victim) as peer:
        peer.send(framed(struct.pack(">hhih", 18, version, 7, -1) + b"\x00what comes here is not known"))
        reply = peer.reply()
        assert reply[:6] == struct.pack(">ih", 7, 35)
        answer = peer.exchange(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
        assert answer is not None


@pytest.mark.parametrize("data", [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(506),
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/8.0\r\nAccept: */*\r\n\r\n",
    b"POST /topics HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
], ids=["tls", "http-get", "http-post", "http2", "ssh"])
def test_other_protocols(victim: NodeProcess, data: bytes) -> None:
    closed_without_a_word(victim, data)


def test_random_bytes(victim: NodeProcess) -> None:
    """The connection is closed whatever the first four bytes say: at once, or when the announced frame does not
    come."""
    source = random.Random(7)
    with ExitStack() as peers:
        crowd = [peers.enter_context(Peer(victim)) for _ in range(200)]
        for peer in crowd:
            peer.send(source.randbytes(source.randrange(1, 600)))
        for peer in crowd:
            assert peer.rest() == b""


# --- time


def test_a_request_that_comes_drop_by_drop(victim: NodeProcess) -> None:
    """Slowloris: each byte is progress, but the request has a time limit."""
    began = time.monotonic()
    with Peer(victim) as peer:
        for byte in HELLO[:-1] * 100:
            try:
                peer.socket.sendall(bytes([byte]))
            except ConnectionError:
                break
            time.sleep(0.05)
        else:
            raise AssertionError("the node let a request take indefinitely")
    assert FRAME_MS / 1000 * 0.9 < time.monotonic() - began < 20


@pytest.mark.parametrize("data", [b"\0", HELLO[:4], HELLO[:11], HELLO[:-1]], ids=len)
def test_a_request_that_never_ends(victim: NodeProcess, data: bytes) -> None:
    began = time.monotonic()
    closed_without_a_word(victim, data)
    assert FRAME_MS / 1000 * 0.9 < time.monotonic() - began < IDLE_MS / 1000 + 1


def test_silence(victim: NodeProcess) -> None:
    """Connections that send nothing at all, or nothing after an answer, meet the idle time-out; a connection in use
    stays."""
    with Peer(victim) as silent, Peer(victim) as once, Peer(victim) as busy:
        once.send(HELLO)
        once.reply()
        began = time.monotonic()
        while time.monotonic() - began < IDLE_MS / 1000 * 1.5:
            busy.send(HELLO)
            busy.reply()
            time.sleep(IDLE_MS / 1000 / 10)
        assert silent.rest() == once.rest() == b""
        busy.send(HELLO)
        assert busy.reply()


def test_readers_that_never_read(victim: NodeProcess) -> None:
    """The readers request 1 GiB and read none of it. Each costs one reply in memory and is closed; other clients do not
    notice."""
    data = request("Fetch", 11, fetch_body(max_wait_ms=0)) * 200
    before = victim.resident_bytes()
    with ExitStack() as peers:
        crowd = [peers.enter_context(Peer(victim)) for _ in range(10)]
        for peer in crowd:
            peer.send(data)
        slowest = 0.0
        left = list(crowd)
        began = time.monotonic()
        while left and time.monotonic() - began < 30:
            for peer in list(left):
                try:
                    peer.socket.send(HELLO, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    continue
                except ConnectionError:
                    left.remove(peer)
            sent_s = time.monotonic()
            with Peer(victim) as other:
                other.send(HELLO)
                other.reply()
            slowest = max(slowest, time.monotonic() - sent_s)
            assert victim.resident_bytes() - before < 32 * MIB
            time.sleep(0.02)
        assert not left, "the node waits indefinitely for them to read"
        assert slowest < 5


# --- numbers of connections


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that accepts few connections."""
    node = NodeProcess(tmp_path_factory.mktemp("small") / "data", {
        "max.connections": str(CONNECTIONS), "max.connections.per.ip": str(CONNECTIONS - 10),
        "max.connections.per.ip.overrides": f"127.0.0.9:{PER_IP}"})
    node.start()
    yield node
    node.stop()
    assert node.alarms() == []


def is_served(peer: Peer) -> bool:
    peer.send(HELLO)
    try:
        return bool(peer.reply())
    except (AssertionError, ConnectionError):
        return False


def test_too_many_connections(small: NodeProcess) -> None:
    """Connections above the limit are closed at once, those below continue, and when some leave others are served."""
    with ExitStack() as peers:
        crowd = [peers.enter_context(Peer(small, f"127.0.0.{2 + index % 4}")) for index in range(CONNECTIONS)]
        assert all(map(is_served, crowd))
        for _ in range(500):
            with Peer(small) as late:
                assert late.rest() == b""
        assert all(map(is_served, crowd))
        crowd[0].socket.close()
        for _ in range(500):
            with Peer(small) as late:
                if is_served(late):
                    break
            time.sleep(0.01)
        else:
            raise AssertionError("nobody is served after the storm")


def test_the_number_of_connections_changes_while_running(small: NodeProcess) -> None:
    """An unreadable value is refused and changes nothing."""
    def change(name: str, value: str | None) -> None:
        broker = ConfigResource.Type.BROKER
        alter(small, "1", name, value, AlterConfigOpType.SET if value else AlterConfigOpType.DELETE, broker)

        def in_force() -> bool:
            found = configs(small, "1", broker).get(name)
            if value:
                return found is not None and found.value == value
            return found is None or found.source != ConfigSource.DYNAMIC_BROKER_CONFIG.value

        wait_until(in_force, f"{name}: {value}")

    with ExitStack() as peers:
        crowd = [peers.enter_context(Peer(small, "127.0.0.9")) for _ in range(PER_IP)]
        assert all(map(is_served, crowd))
        change("max.connections.per.ip.overrides", f"127.0.0.9:{PER_IP + 1}")
        assert is_served(peers.enter_context(Peer(small, "127.0.0.9")))
        with pytest.raises(KafkaException, match="not host:count pairs"):
            change("max.connections.per.ip.overrides", "nonsense")
        with Peer(small, "127.0.0.9") as refused:
            assert refused.rest() == b""
    change("max.connections.per.ip.overrides", None)
    change("max.connection.creation.rate", "5")
    begun = time.monotonic()
    with ExitStack() as peers:
        # Eleven windows of a second: fifty may come at once.
        crowd = [peers.enter_context(Peer(small, f"127.0.0.{2 + index % 4}")) for index in range(54)]
        assert all(map(is_served, crowd))
    assert time.monotonic() - begun > 0.5, "four wait for a fifth of a second each"
    change("max.connection.creation.rate", None)
    # The administrator's own connections count as well.
    change("listener.name.plaintext.max.connections", "10")
    with ExitStack() as peers:
        crowd = [peers.enter_context(Peer(small, f"127.0.0.{2 + index % 4}")) for index in range(14)]
        assert 4 <= [is_served(peer) for peer in crowd].count(True) <= 10
    change("listener.name.plaintext.max.connections", None)
    with ExitStack() as peers:
        assert all(is_served(peers.enter_context(Peer(small, f"127.0.0.{2 + index % 4}"))) for index in range(14))


def test_few_descriptors_are_not_used_up_by_connections(tmp_path: Path) -> None:
    """Connections use three quarters of the descriptors by default; the rest is for logs."""
    node = NodeProcess(tmp_path / "data")
    node.launcher = ["prlimit", f"--nofile={FEW_DESCRIPTORS}:{FEW_DESCRIPTORS}", "--"]
    node.start()
    with ExitStack() as peers:
        crowd = [peers.enter_context(Peer(node)) for _ in range(FEW_DESCRIPTORS + 50)]
        assert sum(map(is_served, crowd)) == FEW_DESCRIPTORS * 3 // 4
        with Peer(node) as late:
            assert late.rest() == b""
        crowd[0].socket.close()
        crowd[1].socket.close()
        with Cluster(node.address) as cluster:
            create_topic(cluster, "events", partitions=1)
            answer = cluster.leader("events", 0).send(one_record("events"), ProduceResponse, version=9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert sum(map(is_served, crowd[2:])) == FEW_DESCRIPTORS * 3 // 4 - 2
    node.stop()
    assert node.alarms() == []


def test_too_many_connections_of_one_address(small: NodeProcess) -> None:
    with ExitStack() as peers:
        crowd = [peers.enter_context(Peer(small, "127.0.0.9")) for _ in range(PER_IP)]
        assert all(map(is_served, crowd))
        with Peer(small, "127.0.0.9") as refused:
            assert refused.rest() == b""
        with Peer(small, "127.0.0.10") as other:
            assert is_served(other)
        assert is_served(crowd[0])


def test_connections_that_come_and_go(victim: NodeProcess) -> None:
    """Half of the connections are reset."""
    for index in range(1000):
        with Peer(victim) as peer:
            peer.send(HELLO[: index % len(HELLO) + 1])
            if index % 2:
                peer.socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER: closing resets
