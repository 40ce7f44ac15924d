"""Checks of transactions by the coordinator on this node, and by another broker over a connection."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from kraft.broker.broker import Broker
from kraft.broker.coordinator.shard import Producer
from kraft.broker.groups.ports import Transaction
from kraft.broker.transactions.ports import Query
from kraft.metadata.image import Endpoint
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_request
from kraft.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from kraft.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from kraft.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.replicas.transaction_checks import OffsetsTransactions, TransactionChecks

OWN, OTHER = 1, 2
LISTENER = "PLAINTEXT"


def confirmed(request: AddPartitionsToTxnRequest, code: int = ErrorCode.NONE) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_transaction=[AddPartitionsToTxnResult(
        transactional_id=each.transactional_id, topic_results=[AddPartitionsToTxnTopicResult(
            name=topic.name, results_by_partition=[AddPartitionsToTxnPartitionResult(
                partition_index=index, partition_error_code=code) for index in topic.partitions])
            for topic in each.topics]) for each in request.transactions])


class Peer(asyncio.Protocol):
    """A broker that coordinates transactions. While `held`, it answers nothing."""

    def __init__(self, versions: tuple[int, int] = (0, 5)) -> None:
        self.versions = versions
        self.requests: list[AddPartitionsToTxnRequest] = []
        self.held = False
        self.requested = asyncio.Event()
        self.connections: list[asyncio.Transport] = []
        self._held_frames: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connections.append(cast("asyncio.Transport", transport))
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while len(self.buffer) >= 4 and len(self.buffer) >= 4 + int.from_bytes(self.buffer[:4]):
            size = 4 + int.from_bytes(self.buffer[:4])
            frame, self.buffer = self.buffer[4:size], self.buffer[size:]
            self._serve(frame)

    def _serve(self, frame: bytes) -> None:
        key, version = int.from_bytes(frame[:2]), int.from_bytes(frame[2:4])
        if key == ApiKey.API_VERSIONS:
            answer = ApiVersionsResponse(api_keys=[ApiVersion(
                api_key=ApiKey.ADD_PARTITIONS_TO_TXN, min_version=self.versions[0], max_version=self.versions[1])])
            self._send(frame[4:8] + answer.encode(version))
            return
        request = AddPartitionsToTxnRequest.decode(decode_request(frame).body, version)
        self.requests.append(request)
        self.requested.set()
        self._held_frames.append(frame[4:8] + b"\0" + confirmed(request).encode(version))
        if not self.held:
            self.release()

    def release(self) -> None:
        frames, self._held_frames = self._held_frames, []
        for frame in frames:
            self._send(frame)

    def _send(self, body: bytes) -> None:
        self.connections[-1].write(len(body).to_bytes(4) + body)


class World:
    """A broker's checks. `leader` coordinates every transaction."""

    def __init__(self, port: int) -> None:
        self.leader = OTHER
        self.topic: Any = SimpleNamespace(partitions=[SimpleNamespace(leader=OTHER)])
        self.settings: dict[str, Any] = {
            "request.timeout.ms": 10_000, "add.partitions.to.txn.retry.backoff.ms": 1,
            "add.partitions.to.txn.retry.backoff.max.ms": 10_000, "transaction.partition.verification.enable": True}
        self.image = SimpleNamespace(
            topic=lambda _name: self.topic,
            brokers={OTHER: SimpleNamespace(endpoints=(Endpoint(LISTENER, "127.0.0.1", port, 0),))})
        broker = SimpleNamespace(
            node_id=OWN, image=self.image, config=SimpleNamespace(inter_broker_listener=LISTENER),
            integer=self.settings.__getitem__, setting=self.settings.__getitem__)
        self.failures: list[BaseException] = []
        self.checks = TransactionChecks(cast(Broker, broker), Dialer(), self.failures.append)

    def lead(self, node_id: int) -> None:
        self.topic.partitions[0].leader = node_id

    def verify(self, transactional_id: str = "x", *partitions: tuple[str, int],
               adds: bool = True) -> "asyncio.Future[list[int]]":
        answer: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()

        def done(codes: Sequence[int]) -> None:
            answer.set_result(list(codes))

        self.checks.verify(transactional_id, 7, 1, list(partitions) or [("t", 0)], adds, done)
        return answer


@asynccontextmanager
async def world(peer: Peer | None = None):  # type: ignore[no-untyped-def]
    made = peer or Peer()
    async with await asyncio.get_running_loop().create_server(lambda: made, "127.0.0.1", 0) as server:
        it = World(server.sockets[0].getsockname()[1])
        try:
            yield it, made
        finally:
            it.checks.close()
            for connection in made.connections:
                connection.abort()
    assert it.failures == []


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(30):
            await work()

    uvloop.run(limited())


def test_another_broker_is_requested_over_one_connection() -> None:
    async def work() -> None:
        async with world() as (it, peer):
            assert await it.verify("x", ("t", 0), ("u", 1)) == [0, 0]
            assert await it.verify("y", adds=False) == [0]
            assert [[(each.transactional_id, each.verify_only) for each in request.transactions]
                    for request in peer.requests] == [[("x", False)], [("y", True)]]
            assert len(peer.connections) == 1
            assert (it.checks.total, it.checks.refused_total) == (3, 0)

    run(work)


def test_checks_that_come_meanwhile_share_the_next_request() -> None:
    async def work() -> None:
        async with world() as (it, peer):
            peer.held = True
            answers = [it.verify("a")]
            await peer.requested.wait()
            answers += [it.verify(name) for name in ("b", "c", "b")]
            peer.held = False
            peer.release()
            assert await asyncio.gather(*answers) == [[0]] * 4
            assert [[each.transactional_id for each in request.transactions] for request in peer.requests] == [
                ["a"], ["b", "c"], ["b"]]

    run(work)


def test_a_broken_connection_is_an_error_that_clients_retry() -> None:
    async def work() -> None:
        async with world() as (it, peer):
            peer.held = True
            answer = it.verify("a")
            await peer.requested.wait()
            peer.connections[-1].abort()
            assert await answer == [ErrorCode.NETWORK_EXCEPTION]
            peer.held = False
            peer._held_frames.clear()
            assert await it.verify("a") == [0]
            assert len(peer.connections) == 2
            assert it.checks.refused_total == 1

    run(work)


def test_an_unresponsive_broker_is_given_up() -> None:
    async def work() -> None:
        async with world() as (it, peer):
            it.settings["request.timeout.ms"] = 50
            peer.held = True
            assert await it.verify("a") == [ErrorCode.NETWORK_EXCEPTION]

    run(work)


@pytest.mark.parametrize("change", ["no topic", "no leader", "not registered", "own, without a coordinator"])
def test_without_a_coordinator_nothing_is_confirmed(change: str) -> None:
    async def work() -> None:
        async with world() as (it, peer):
            if change == "no topic":
                it.topic = None
            elif change == "not registered":
                it.image.brokers.clear()
            else:
                it.lead(-1 if change == "no leader" else OWN)
            assert await it.verify() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            assert peer.requests == []

    run(work)


def test_a_broker_that_cannot_verify_confirms_nothing() -> None:
    async def work() -> None:
        async with world(Peer(versions=(0, 3))) as (it, peer):
            assert await it.verify() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            assert peer.requests == []

    run(work)


def test_the_coordinator_on_this_node_needs_no_connection() -> None:
    async def work() -> None:
        async with world() as (it, peer):
            it.lead(OWN)
            it.checks.local = lambda query, respond: respond(
                [ErrorCode.TRANSACTION_ABORTABLE] * len(query.partitions))
            assert await it.verify("x", ("t", 0), ("t", 1)) == [ErrorCode.TRANSACTION_ABORTABLE] * 2
            assert peer.connections == []

    run(work)


@pytest.mark.parametrize(("adds", "limit_ms", "expected"), [
    (True, 10_000, ErrorCode.NONE), (True, 0, ErrorCode.CONCURRENT_TRANSACTIONS),
    (False, 10_000, ErrorCode.CONCURRENT_TRANSACTIONS)])
def test_partitions_are_added_again_while_the_previous_transaction_ends(adds: bool, limit_ms: int,
                                                                        expected: ErrorCode) -> None:
    async def work() -> None:
        async with world() as (it, _peer):
            it.settings["add.partitions.to.txn.retry.backoff.max.ms"] = limit_ms
            it.lead(OWN)
            codes = itertools.chain([ErrorCode.CONCURRENT_TRANSACTIONS] * 3, itertools.repeat(ErrorCode.NONE))
            it.checks.local = lambda _query, respond: respond([next(codes)])
            assert await it.verify(adds=adds) == [expected]

    run(work)


def test_offsets_are_verified_unless_their_transaction_is_open() -> None:
    async def work() -> None:
        async with world() as (it, _peer):
            it.lead(OWN)
            code = ErrorCode.NONE
            queries: list[Query] = []

            def local(query: Query, respond: Callable[[Sequence[int]], None]) -> None:
                queries.append(query)
                respond([code])

            it.checks.local = local
            is_open = False
            table = SimpleNamespace(get=lambda *_: SimpleNamespace(has_open_transaction=lambda *_: is_open))
            port = OffsetsTransactions(cast(Any, table), lambda: 99, lambda: None)
            port.checks = it.checks
            found: list[tuple[ErrorCode, int]] = []

            async def verify(*, knows_abortable: bool = True, adds: bool = True) -> ErrorCode:
                port.verify(3, Transaction("x", Producer(7, 1)), adds=adds, knows_abortable=knows_abortable,
                            done=lambda *answer: found.append(answer))
                await asyncio.sleep(0)
                error, now_ms = found.pop()
                assert now_ms == 99
                return error

            assert await verify() == ErrorCode.NONE
            assert list(queries[0].partitions) == [("__consumer_offsets", 3)]
            code = ErrorCode.PRODUCER_FENCED
            assert await verify() == ErrorCode.INVALID_PRODUCER_EPOCH
            code = ErrorCode.TRANSACTION_ABORTABLE
            assert await verify() == ErrorCode.TRANSACTION_ABORTABLE
            assert await verify(knows_abortable=False) == ErrorCode.INVALID_TXN_STATE
            is_open = True
            assert await verify() == ErrorCode.NONE
            is_open, it.settings["transaction.partition.verification.enable"] = False, False
            assert await verify(adds=False) == ErrorCode.NONE
            assert len(queries) == 4
            assert await verify() == ErrorCode.TRANSACTION_ABORTABLE, "the coordinator still has to add the partition"

    run(work)
