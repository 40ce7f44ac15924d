"""Successful Produce and Fetch requests on real connections: no Python frame runs on the loop's thread for them.

The kinds of appends and fetches and the versions alternate, with 1,000 requests for each version. The wiring is that of
`runtime.node`; the last test examines a whole node.
"""

import asyncio
import gc
import socket
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import cycle, islice, product
from pathlib import Path
from types import FrameType
from typing import Self
from uuid import UUID

import pytest
import uvloop

from kraft.broker.apis import import_steps
from kraft.client import Cluster
from kraft.client.connection import Connection
from kraft.client.topics import create_topic
from kraft.config.authorizer_settings import STANDARD_AUTHORIZER
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import incremental_alter_configs_request as alter
from kraft.protocol.messages import share_fetch_request as sharing
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.protocol.messages.share_fetch_response import ShareFetchResponse
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from kraft.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse
from kraft.runtime import server_node as runtime_node
from kraft.runtime.base.alarm import Alarm
from kraft.runtime.net.batch_checks import BatchChecks
from kraft.runtime.net.server import Server, ServerLimits
from kraft.runtime.process import import_all
from kraft.steps import finish
from kraft_native.log.flusher import Flusher
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.purgatory import Purgatory, now_ms
from kraft_native.partition.table import PartitionTable
from kraft_native.request.client_quotas import ClientQuotas
from kraft_native.serve.fetch import FetchHandler
from kraft_native.serve.produce import ProduceHandler
from tests.native import serving
from tests.native.log.test_costly_batches import COSTLY
from tests.native.logs import START_MS, batch
from tests.native.serving import topic_id_of
from tests.native.wires import API_VERSIONS, BODIES, INVALID, UNSUPPORTED, request
from tests.runtime.nodes import config

REQUESTS = 1_000
PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
ZSTD_FROM = 7
PRODUCE_BY_ID_FROM = 13
SESSIONS_FROM = 7
FETCH_BY_ID_FROM = 13
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FAR_MS = 60_000
GROUP_RESOURCE = 32


class Node(serving.Node):
    """Partitions and handlers on the running loop, as a node assembles them, and one listener."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = 0
        loop = asyncio.get_running_loop()
        self.alarm = Alarm(now_ms, self.expire)
        self.purgatory = Purgatory(loop.call_soon, self.alarm.set)
        self.table = PartitionTable(self.purgatory)
        self.flusher = Flusher()
        self.cold_reader = ColdReader()
        self.batch_checks = BatchChecks()
        self.failures: list[BaseException] = []
        quotas = ClientQuotas()
        self.produce_handler = ProduceHandler(self.table, self.batch_checks.offload, quotas, self.failures.append)
        self.fetch_handler = FetchHandler(self.table, self.sessions, self.cold_reader, quotas=quotas)
        self.server = Server(ServerLimits(), self.failures.append, call_soon=self.purgatory.call_soon)
        channel = self.server.channel("broker", lambda *_: None)
        channel.limit_clients(quotas)
        for key, handler in ((0, self.produce_handler), (1, self.fetch_handler)):
            api = API_BY_KEY[key]
            channel.serve(key, api.versions.start, api.latest_stable, api.flexible_from, handler)
        channel.serve_api_versions(BODIES, INVALID, UNSUPPORTED)
        self.channel = channel
        self.eventfds = self.flusher.eventfd, self.cold_reader.eventfd
        loop.add_reader(self.eventfds[0], self.purgatory.flush_done, self.eventfds[0])
        loop.add_reader(self.eventfds[1], self.cold_reader.poll)

    def expire(self) -> None:
        self.alarm.set(self.purgatory.expire(now_ms()))


@asynccontextmanager
async def started(directory: Path) -> AsyncIterator[Node]:
    node = Node(directory)
    listener = await node.server.listen("broker", "127.0.0.1", 0, node.channel)
    node.port = listener.port
    assert node.server._sweeper is not None
    node.server._sweeper.cancel()              # it runs by time, not by requests
    try:
        yield node
    finally:
        await node.server.close(timeout_s=0.1)
        node.batch_checks.close()
        for eventfd in node.eventfds:
            asyncio.get_running_loop().remove_reader(eventfd)
        node.cold_reader.close()
        node.alarm.cancel()
        assert node.failures == []
        node.close()


class Client:
    """One blocking connection; a context manager. Requests are encoded before they are measured."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()
        self.socket.close()

    def answer(self) -> bytes:
        return self.stream.read(int.from_bytes(self.stream.read(4), "big"))

    def answer_to(self, frame: bytes) -> bytes:
        self.socket.sendall(frame)
        return self.answer()


def framed(message: Message, version: int) -> bytes:
    api = API_BY_KEY[message.API_KEY]
    tags = b"\0" if api.request_header_version(version) >= 2 else b""
    return request(api.key, version, 1, message.encode(version), tags=tags)


def body(answer: bytes, api_key: int, version: int) -> bytes:
    return answer[4 + API_BY_KEY[api_key].response_header_version(version):]


async def frames_of(port: int, exchange: Callable[[Client, Client], None]) -> list[str]:
    """Return the Python frames of this thread, which is the loop's, while another thread runs its exchange with the
    node. It uses two connections that are open before and after the measurement.

    A node imports the files of its APIs soon after its start. pytest rewrites their assertions then, because the
    distribution has a plugin of pytest: thousands of frames of `ast`. So they are imported before.
    """
    finish(import_steps())
    frames: list[str] = []
    loop = asyncio.get_running_loop()
    opened, done = loop.create_future(), loop.create_future()
    go, end = threading.Event(), threading.Event()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            frames.append(f"{frame.f_code.co_filename}:{frame.f_code.co_qualname}")

    def work() -> None:
        try:
            with Client(port) as one, Client(port) as other:
                for each in (one, other):
                    each.answer_to(request(API_VERSIONS, 0, 0))
                loop.call_soon_threadsafe(opened.set_result, None)
                go.wait()
                exchange(one, other)
                loop.call_soon_threadsafe(done.set_result, None)
                end.wait()
        except BaseException as error:  # noqa: BLE001 - the test reports every error
            loop.call_soon_threadsafe(done.set_exception, error)

    thread = threading.Thread(target=work)
    thread.start()
    await opened
    gc.disable()                       # its callbacks, if any are installed, are frames too
    sys.setprofile(note)
    try:
        go.set()
        await done
    finally:
        sys.setprofile(None)
        gc.enable()
        end.set()
        thread.join()
    own = (__file__, threading.__file__, uvloop.__file__)          # this function, and its awaiter
    return [frame for frame in frames if not frame.startswith(own)]


# --- Produce


def produce(version: int, acks: int, *parts: tuple[int, bytes], topic: str = "t",
            transactional_id: str | None = None) -> bytes:
    data = [PartitionProduceData(index=index, records=records) for index, records in parts]
    by_id = version >= PRODUCE_BY_ID_FROM
    return framed(ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=FAR_MS,
                                 topic_data=[TopicProduceData(
        name="" if by_id else topic, topic_id=UUID(bytes=topic_id_of(topic)) if by_id else UUID(int=0),
        partition_data=data)]), version)


def produces(version: int) -> Iterator[tuple[int, bytes]]:
    """Yield every combination in rotation: acks, codec, one partition and three, without and with a producer id."""
    codecs = CODECS if version >= ZSTD_FROM else CODECS[:-1]
    sequences: Counter[int] = Counter()
    kinds = product((0, 1, -1), codecs, ((0,), (0, 1, 2)), (False, True))
    for acks, codec, indexes, idempotent in cycle(list(kinds)):
        parts = []
        for index in indexes:
            identity = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequences[index]} if idempotent else {}
            parts.append((index, batch(20, value=b"v" * 100, codec=codec, **identity)))
            sequences[index] += 20 * idempotent
        yield acks, produce(version, acks, *parts)


def codes(answers: list[bytes], version: int) -> Counter[int]:
    return Counter(part.error_code for answer in answers
                   for topic in ProduceResponse.decode(body(answer, 0, version), version).responses
                   for part in topic.partition_responses)


def exchange_of(frames: list[tuple[int, bytes]], answers: list[bytes]) -> Callable[[Client, Client], None]:
    """Send one request after the other; without acknowledgement there is no answer."""
    def exchange(client: Client, _other: Client) -> None:
        for acks, frame in frames:
            if acks == 0:
                client.socket.sendall(frame)
            else:
                answers.append(client.answer_to(frame))

    return exchange


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce(version: int, tmp_path: Path) -> None:
    frames = list(islice(produces(version), REQUESTS))
    answers: list[bytes] = []

    async def main() -> list[str]:
        async with started(tmp_path) as node:
            for index in range(3):
                node.partition("t", index).append(batch())     # the first record of an epoch has the epoch written
            found = await frames_of(node.port, exchange_of(frames, answers))
            assert node.channel.requests() == {ApiKey.PRODUCE: REQUESTS, API_VERSIONS: 2}
            assert node.batch_checks.total == 0
        return found

    assert uvloop.run(main()) == []
    assert codes(answers, version).keys() == {ErrorCode.NONE}
    assert len(answers) == sum(acks != 0 for acks, _ in frames)


@pytest.mark.parametrize("version", [3, 11, 13])
def test_produce_into_an_open_transaction(version: int, tmp_path: Path) -> None:
    """The first batch of a transaction is verified; those after it are appended like others."""
    frames = [(acks, produce(version, acks, *((index, batch(producer_id=7, producer_epoch=0, base_sequence=1 + number,
                                                            transactional=True)) for index in range(2)),
                             transactional_id="x"))
              for number, acks in enumerate(islice(cycle((1, -1)), REQUESTS))]
    answers: list[bytes] = []
    queries: list[object] = []

    async def main() -> list[str]:
        async with started(tmp_path) as node:
            node.produce_handler.verifier = lambda *query: queries.append(query)
            for index in range(2):
                node.partition("t", index).append(batch(producer_id=7, producer_epoch=0, base_sequence=0,
                                                        transactional=True))
            return await frames_of(node.port, exchange_of(frames, answers))

    assert uvloop.run(main()) == []
    assert queries == []
    assert codes(answers, version) == {ErrorCode.NONE: 2 * REQUESTS}


def test_produce_of_costly_batches(tmp_path: Path) -> None:
    """Costly batches pass through a thread, which alone has frames. Large uncompressed ones stay on the loop."""
    version = 13
    kinds = [(acks, records) for acks in (1, -1, 0) for records in COSTLY.values()]
    frames = [(acks, produce(version, acks, (0, records))) for acks, records in islice(cycle(kinds), REQUESTS)]
    frames += [(1, produce(version, 1, (0, batch(400, value=bytes(1000)))))] * 50
    answers: list[bytes] = []

    async def main() -> list[str]:
        async with started(tmp_path) as node:
            node.partition().append(batch())
            found = await frames_of(node.port, exchange_of(frames, answers))
            assert node.batch_checks.total == REQUESTS
        return found

    assert uvloop.run(main()) == []
    assert codes(answers, version).keys() == {ErrorCode.NONE}


def test_produce_that_waits_for_a_flush(tmp_path: Path) -> None:
    """Fifty concurrent requests share flushes."""
    version = 9
    pair = produce(version, 1, (0, batch())) + produce(version, -1, (0, batch()))
    answers: list[bytes] = []

    async def main() -> list[str]:
        async with started(tmp_path) as node:
            # The first waiting request sets the timer, which runs for as long as the request could have waited. A flush
            # may end before its request begins to wait.
            node.partition(durability="group-commit")
            while node.purgatory.deadline_ms < 0:
                first = node.produce(batch(), timeout_ms=FAR_MS)
                while not first.answered:  # noqa: ASYNC110 - the loop runs until the flush has ended
                    await asyncio.sleep(0)

            def exchange(client: Client, _other: Client) -> None:
                for _ in range(REQUESTS // 50):
                    client.socket.sendall(pair * 25)
                    answers.extend(client.answer() for _ in range(50))

            found = await frames_of(node.port, exchange)
            assert node.purgatory.parked_total >= REQUESTS // 50
        return found

    assert uvloop.run(main()) == []
    assert codes(answers, version) == {ErrorCode.NONE: REQUESTS}


# --- Fetch


def fetch(version: int, offset: int | None, session_id: int = 0, session_epoch: int = -1, topic: str = "t") -> bytes:
    """Encode a Fetch; with `offset` None it fetches what the session has."""
    by_id = version >= FETCH_BY_ID_FROM
    fetch_topics = [] if offset is None else [FetchTopic(
        topic="" if by_id else topic, topic_id=UUID(bytes=topic_id_of(topic)) if by_id else UUID(int=0),
        partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)])]
    session = {"session_id": session_id, "session_epoch": session_epoch} if version >= SESSIONS_FROM else {}
    return framed(FetchRequest(max_wait_ms=FAR_MS, min_bytes=1, max_bytes=1 << 20, topics=fetch_topics, **session),
                  version)


class Reader:
    """Fetches in rotation: without a session, in one, and with a wait until the writer appends to another topic."""

    def __init__(self, version: int, polled_end: int) -> None:
        self.version = version
        self.polled_end = polled_end
        self.answers: list[bytes] = []

    def exchange(self, reader: Client, writer: Client) -> None:
        plain = fetch(self.version, 0)
        append = produce(3, 1, (0, batch()), topic="polled")
        first = body(reader.answer_to(fetch(self.version, 0, session_epoch=0)), 1, self.version)
        session_id = FetchResponse.decode(first, self.version).session_id
        for number in range(1, REQUESTS // 3 + 1):
            self.answers.append(reader.answer_to(plain))
            in_session = fetch(self.version, None, session_id, number) if session_id else plain
            self.answers.append(reader.answer_to(in_session))
            reader.socket.sendall(fetch(self.version, self.polled_end, topic="polled"))
            writer.answer_to(append)
            self.answers.append(reader.answer())
            self.polled_end += 1

    def check(self) -> None:
        """Check that each request was answered with records."""
        for answer in self.answers:
            response = FetchResponse.decode(body(answer, 1, self.version), self.version)
            [part] = response.responses[0].partitions
            assert (response.error_code, part.error_code) == (ErrorCode.NONE, ErrorCode.NONE)
            assert part.records


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch(version: int, tmp_path: Path) -> None:
    async def main() -> tuple[list[str], Reader]:
        async with started(tmp_path) as node:
            partition, polled = node.partition(), node.partition("polled")
            for _ in range(10):
                partition.append(batch())
            # The first waiting request sets the timer, and the first read of a segment maps its file.
            first = node.fetch(("polled", 0, 0), max_wait_ms=FAR_MS)
            polled.append(batch())
            await asyncio.sleep(0)
            assert first.answered and node.fetch(("t", 0, 0)).answered
            reader = Reader(version, 1)
            found = await frames_of(node.port, reader.exchange)
            assert node.purgatory.parked_total == reader.polled_end == polled.log.log_end_offset
            assert len(node.sessions) == (version >= SESSIONS_FROM)
        return found, reader

    found, reader = uvloop.run(main())
    assert found == []
    reader.check()


@pytest.mark.parametrize("version", [4, 18])
def test_fetch_of_committed_records(version: int, tmp_path: Path) -> None:
    """The answer names the aborted transactions."""
    answers: list[bytes] = []

    async def main() -> list[str]:
        async with started(tmp_path) as node:
            partition = node.partition()
            for epoch in range(10):
                partition.append(batch(producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True))
                partition.append_marker(7, epoch + 1, 0, bool(epoch % 2), transaction_version=2, now_ms=START_MS)
            by_id = version >= FETCH_BY_ID_FROM
            topic_id = UUID(bytes=topic_id_of("t")) if by_id else UUID(int=0)
            committed = framed(FetchRequest(
                max_wait_ms=FAR_MS, min_bytes=1, max_bytes=1 << 20, isolation_level=1, topics=[FetchTopic(
                    topic="" if by_id else "t", topic_id=topic_id,
                    partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])]), version)
            assert node.fetch(("t", 0, 0), isolation_level=1).answered     # the first read maps the segment's file

            def exchange(reader: Client, _writer: Client) -> None:
                answers.extend(reader.answer_to(committed) for _ in range(REQUESTS))

            return await frames_of(node.port, exchange)

    assert uvloop.run(main()) == []
    for answer in answers:
        [part] = FetchResponse.decode(body(answer, 1, version), version).responses[0].partitions
        assert (part.error_code, part.last_stable_offset) == (ErrorCode.NONE, 20)
        assert [aborted.first_offset for aborted in part.aborted_transactions or []] == [0, 4, 8, 12, 16]


@pytest.mark.parametrize("settings", [
    {}, {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": "true"}])
def test_a_whole_node(settings: dict[str, str], tmp_path: Path) -> None:
    """The node's periodic work continues meanwhile; nothing is called once per request."""
    version = 12

    def prepare(port: int) -> None:
        with Cluster(f"127.0.0.1:{port}") as cluster:
            for topic in ("t", "polled"):
                create_topic(cluster, topic, 1)
        with Client(port) as client:
            client.answer_to(produce(3, -1, (0, batch())))

    async def main() -> tuple[list[str], Reader]:
        node = runtime_node.ServerNode(config(tmp_path / "data", **settings))
        await node.start()
        try:
            port = node.listeners["PLAINTEXT"].port
            await asyncio.to_thread(prepare, port)
            reader = Reader(version, 0)
            return await frames_of(port, reader.exchange), reader
        finally:
            node.stop()
            await node.run()

    found, reader = uvloop.run(main())
    often = {frame: count for frame, count in Counter(found).items() if count >= REQUESTS // 10}
    assert often == {}
    reader.check()


def test_share_fetches_on_a_whole_node(tmp_path: Path) -> None:
    """Records are acquired and delivered without Python. Acknowledgements need it: they are written."""
    version, count = 2, 400
    answers: list[bytes] = []

    def prepare(port: int) -> UUID:
        with Cluster(f"127.0.0.1:{port}") as cluster:
            create_topic(cluster, "t", 1)
        with Client(port) as client:
            for _ in range(count):
                client.answer_to(produce(12, 1, (0, batch())))
        with Connection("127.0.0.1", port) as connection:
            connection.send(alter.IncrementalAlterConfigsRequest(resources=[alter.AlterConfigsResource(
                resource_type=GROUP_RESOURCE, resource_name="g", configs=[alter.AlterableConfig(
                    name="share.auto.offset.reset", config_operation=0, value="earliest")])]),
                IncrementalAlterConfigsResponse)
            join(connection)
            found = connection.send(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), MetadataResponse)
            topic_id: UUID = found.topics[0].topic_id
            return topic_id

    def join(connection: Connection) -> None:
        """Join until a partition is assigned: then its state exists."""
        connection.send(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse)
        epoch = 0
        while True:
            response = connection.send(ShareGroupHeartbeatRequest(
                group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=["t"]),
                ShareGroupHeartbeatResponse)
            if response.assignment is not None and response.assignment.topic_partitions:
                return
            epoch = response.member_epoch

    async def main() -> list[str]:
        node = runtime_node.ServerNode(config(tmp_path / "data"))
        await node.start()
        try:
            port = node.listeners["PLAINTEXT"].port
            topic_id = await asyncio.to_thread(prepare, port)

            def exchange(reader: Client, _writer: Client) -> None:
                for epoch in range(count):
                    answers.append(reader.answer_to(framed(sharing.ShareFetchRequest(
                        group_id="g", member_id="m", share_session_epoch=epoch, max_wait_ms=FAR_MS, min_bytes=1,
                        max_bytes=1 << 20, max_records=1, batch_size=1, topics=[] if epoch else [sharing.FetchTopic(
                            topic_id=topic_id, partitions=[sharing.FetchPartition(partition_index=0)])]), version)))

            return await frames_of(port, exchange)
        finally:
            node.stop()
            await node.run()

    import_all()                       # the first request of a share group imports files, too
    found = uvloop.run(main())
    assert {frame: often for frame, often in Counter(found).items() if often >= count // 4} == {}
    acquired = [each.first_offset for answer in answers
                for topic in ShareFetchResponse.decode(body(answer, 78, version), version).responses
                for part in topic.partitions for each in part.acquired_records]
    assert acquired == list(range(count))
