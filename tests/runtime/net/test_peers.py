"""Connections to other replicas, against a peer that answers as the test requires."""

import asyncio
import os
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Self

import pytest
import uvloop

from kraft.metadata.versions import SUPPORTED
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_request, encode_response_header
from kraft.protocol.message import Message as WireMessage
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from kraft.protocol.messages.describe_quorum_response import DescribeQuorumResponse
from kraft.protocol.messages.fetch_request import FetchRequest as FetchMessage
from kraft.raft.messages import (
    FetchRequest,
    FetchResponse,
    Loss,
    Lost,
    Message,
    VersionsRequest,
    VersionsResponse,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.ready import FollowLease, OutgoingRequest
from kraft.raft.types import Endpoint, OffsetAndEpoch
from kraft.raft.voters import KRAFT_VERSIONS
from kraft.raft.wire import FETCH_CODEC
from kraft.raft.wire_changes import CODECS
from kraft.runtime.net.api_versions import api_versions_answers
from kraft.runtime.net.controller_channel import ControllerChannel
from kraft.runtime.net.dialer import Dialer
from kraft.runtime.net.peers import Peers
from kraft_native.batch.records import BatchBuilder
from kraft_native.replica.leased_follower import LeasedFollower
from tests.raft.world import key

SECONDS = 10.0
VOTE = CODECS[VoteRequest]
FETCHED = FetchResponse(epoch=3, leader_id=2, high_watermark=5)


class FakePeer:
    """Reports its versions, and answers votes while `answers` is set. `keys` are the APIs that it knows."""

    def __init__(self, keys: tuple[int, ...] = (ApiKey.API_VERSIONS, VOTE.key),
                 context: ssl.SSLContext | None = None) -> None:
        self.keys = keys
        self.context = context
        self.answers = True
        self.fetched = FETCHED
        self.piece_bytes = 1 << 30
        """Size of the pieces in which an answer is sent; each is received by itself."""
        self.connections = 0
        self.requests: list[WireMessage] = []
        self.requested = asyncio.Event()
        self.closed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.serving: list[tuple[asyncio.Task[None] | None, asyncio.StreamWriter]] = []
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.context)
        self.address = Endpoint("C", "127.0.0.1", self.server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()
        for task, writer in self.serving:
            writer.transport.abort()
            if task is not None:
                await task

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.serving.append((asyncio.current_task(), writer))
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                request = decode_request(frame)
                version = request.header.request_api_version
                self.requests.append(request.api.request.decode(bytes(request.body), version))
                if request.api.key == ApiKey.API_VERSIONS:
                    body = api_versions_answers(self.keys, SUPPORTED, {}, 0, controller=True).answers[version]
                else:
                    self.requested.set()
                    if not self.answers:
                        continue
                    body = (FETCH_CODEC.encode_response(self.fetched, version).encode(version)
                            if request.api.key == FETCH_CODEC.key else
                            VOTE.encode_response(VoteResponse(granted=True, epoch=3), version).encode(version))
                header = encode_response_header(request.api, version, request.header.correlation_id)
                answer = (len(header) + len(body)).to_bytes(4, "big") + header + body
                for at in range(0, len(answer), self.piece_bytes):
                    writer.write(answer[at:at + self.piece_bytes])
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed.set()
            writer.close()


class Receiver:
    """Messages that were delivered, in order."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[tuple[int, int, Message]] = asyncio.Queue()

    def __call__(self, node_id: int, correlation: int, message: Message) -> None:
        self.messages.put_nowait((node_id, correlation, message))

    async def next(self) -> tuple[int, int, Message]:
        async with asyncio.timeout(SECONDS):
            return await self.messages.get()


def vote(correlation: int, address: Endpoint | None, *, pre_vote: bool = False) -> OutgoingRequest:
    return OutgoingRequest(2, address, correlation, VoteRequest(
        candidate=key(1), epoch=3, log_end=OffsetAndEpoch(0, 0), voter=key(2), pre_vote=pre_vote))


def test_requests_are_sent_answered_and_lost() -> None:
    async def run() -> None:
        receiver = Receiver()
        peers = Peers("test", receiver, Dialer())
        async with FakePeer() as peer:
            peers.send(vote(1, peer.address))
            assert await receiver.next() == (2, 1, VoteResponse(granted=True, epoch=3))
            peers.send(vote(2, None))
            assert (await receiver.next())[:2] == (2, 2)
            peers.send(OutgoingRequest(2, None, 3, VersionsRequest()))
            assert await receiver.next() == (2, 3, VersionsResponse(kraft_versions=KRAFT_VERSIONS))
            assert peer.connections == 1
        old_address = peer.address
        peers.close()
        peers = Peers("test", receiver, Dialer())
        peers.send(vote(4, old_address))
        assert await receiver.next() == (2, 4, Lost(Loss.DISCONNECTED))
        peers.send(OutgoingRequest(9, None, 5, VersionsRequest()))
        assert await receiver.next() == (9, 5, Lost(Loss.DISCONNECTED))
        peers.close()

    asyncio.run(run())


def test_a_repeated_request_uses_a_new_connection() -> None:
    """Answers come in order: the pending answer to the abandoned request would delay the next one."""
    async def run() -> None:
        receiver = Receiver()
        peers = Peers("test", receiver, Dialer())
        async with FakePeer() as peer:
            peer.answers = False
            peers.send(vote(1, peer.address))
            async with asyncio.timeout(SECONDS):
                await peer.requested.wait()
            peer.answers = True
            peers.send(vote(2, peer.address))
            assert (await receiver.next())[:2] == (2, 2)
            assert (peer.connections, receiver.messages.empty()) == (2, True)
            peers.close()

    asyncio.run(run())


def fetch(correlation: int, address: Endpoint | None, offset: int) -> OutgoingRequest:
    return OutgoingRequest(2, address, correlation, FetchRequest(
        replica=key(1), epoch=3, fetch_offset=offset, last_fetched_epoch=3, high_watermark=5))


def lease(correlation: int, offset: int, address: Endpoint | None = None, *, is_sent: bool = False) -> FollowLease:
    return FollowLease(2, 3, offset, fetch(correlation, address, offset), is_sent)


class Sent:
    """A log whose flusher's thread sends each message at once."""

    def take_back(self) -> bool:
        return True

    def send_when_durable(self, end_offset: int, fd: int, message: bytes) -> bool:
        os.write(fd, message)
        return True


def not_followed() -> LeasedFollower:
    """Build a follower that must not get an answer."""
    return LeasedFollower(Sent(), pytest.fail, pytest.fail)


def test_a_fetch_that_the_flusher_sent_is_answered_like_any_other() -> None:
    """The answer may arrive before the request is known to have left."""
    async def run() -> None:
        receiver = Receiver()
        peers = Peers("test", receiver, Dialer())
        async with FakePeer(keys=(ApiKey.API_VERSIONS, FETCH_CODEC.key)) as peer:
            assert not peers.follow(granted := lease(-1, 7, peer.address), not_followed()), "no connection"
            peers.end_lease = lambda: peers.unfollow(granted, granted.fetch)
            peers.send(OutgoingRequest(2, peer.address, 1, VersionsRequest()))
            await receiver.next()
            for correlation in (2, 3):
                granted, follower = lease(correlation, 7), not_followed()
                assert peers.follow(granted, follower)
                if correlation == 2:
                    assert follower.end() == (7, -1, True)
                    peers.end_lease()
                    assert not peers.follow(lease(9, 7), not_followed()), "it waits for its answer"
                assert await receiver.next() == (2, correlation, FETCHED)
            assert peer.connections == 1
        peers.close()

    asyncio.run(run())


@pytest.mark.parametrize("is_sent", [True, False])
def test_answers_that_are_like_the_one_before_go_to_the_follower(is_sent: bool) -> None:
    async def run() -> None:
        receiver, taken, came = Receiver(), list[bytes](), asyncio.Event()
        peers = Peers("test", receiver, Dialer())

        def append(records: object) -> int:
            taken.append(bytes(records))  # type: ignore[call-overload]
            return 7 + len(taken)

        async with FakePeer(keys=(ApiKey.API_VERSIONS, FETCH_CODEC.key)) as peer:
            builder = BatchBuilder()
            builder.append(b"r")
            peer.fetched = replace(FETCHED, records=builder.build(6, leader_epoch=3), high_watermark=100)
            peers.send(fetch(1, peer.address, 6))
            await receiver.next()
            granted = lease(2, 7, is_sent=is_sent)

            def on_accepted(_sends: bool) -> None:
                if len(taken) == 3:
                    assert follower.end() == (10, 100, True)
                    peers.unfollow(granted, fetch(5, None, 10))
                    came.set()

            follower = LeasedFollower(Sent(), append, on_accepted)
            if is_sent:
                peers.send(granted.fetch)
            assert peers.follow(granted, follower)
            async with asyncio.timeout(SECONDS):
                await came.wait()
            assert (await receiver.next())[:2] == (2, 5)
            assert receiver.messages.empty()
            assert taken == [peer.fetched.records] * 3
            parts = [request.topics[0].partitions[0] for request in peer.requests if isinstance(request, FetchMessage)]
            assert [(part.fetch_offset, part.high_watermark, part.last_fetched_epoch) for part in parts] == [
                (6, 5, 3), (7, 5, 3), (8, 8, 3), (9, 9, 3), (10, 10, 3)]
            assert peer.connections == 1
        peers.close()

    asyncio.run(run())


def test_a_sent_fetch_whose_answer_the_follower_refuses_is_answered_like_any_other() -> None:
    async def run() -> None:
        receiver = Receiver()
        peers = Peers("test", receiver, Dialer())
        async with FakePeer(keys=(ApiKey.API_VERSIONS, FETCH_CODEC.key)) as peer:
            builder = BatchBuilder()
            builder.append(b"r")
            peer.fetched = replace(FETCHED, records=builder.build(6, leader_epoch=3))
            ends: list[int] = []

            def end_lease() -> None:
                ends.append(granted.fetch.correlation)
                peers.unfollow(granted, granted.fetch)

            peers.end_lease = end_lease
            peers.send(fetch(1, peer.address, 6))
            await receiver.next()
            for correlation in (2, 3):
                granted, follower = lease(correlation, 7, is_sent=True), LeasedFollower(
                    Sent(), lambda _records: -1, pytest.fail)
                peers.send(granted.fetch)
                assert peers.follow(granted, follower)
                assert (await receiver.next())[:2] == (2, correlation)
            assert (peer.connections, ends) == (1, [2, 3])
            peers.end_lease = lambda: None
        peers.close()

    asyncio.run(run())


@pytest.mark.parametrize("like", [FetchResponse(epoch=4, leader_id=2), FetchResponse(epoch=3, leader_id=1), None])
def test_nothing_goes_to_the_follower_after_another_answer(like: FetchResponse | None) -> None:
    async def run() -> None:
        receiver = Receiver()
        peers = Peers("test", receiver, Dialer())
        async with FakePeer(keys=(ApiKey.API_VERSIONS, FETCH_CODEC.key)) as peer:
            peer.fetched = like or FetchResponse(epoch=3, leader_id=2, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
            granted = lease(2, 7)
            peers.end_lease = lambda: peers.unfollow(granted, granted.fetch)
            peers.send(fetch(1, peer.address, 7))
            await receiver.next()
            builder = BatchBuilder()
            builder.append(b"r")
            peer.fetched = replace(FETCHED, records=builder.build(7, leader_epoch=3))
            assert peers.follow(granted, not_followed())
            assert (await receiver.next())[:2] == (2, 2)
            if like is not None:
                peer.fetched = like
                peers.send(fetch(3, None, 7))
                await receiver.next()
                peers.send(fetch(4, None, 7))
                assert not peers.follow(lease(4, 7, is_sent=True), not_followed()), "the lease would be of no use"
        peers.close()

    asyncio.run(run())


@pytest.mark.parametrize("piece_bytes", [1, 1000, 70_000, 1 << 30])
def test_records_of_any_size_in_any_pieces(piece_bytes: int) -> None:
    """Records are valid while they are delivered; a later access raises an error."""
    async def run() -> None:
        seen: list[bytes | None] = []
        kept: list[memoryview] = []
        receiver = Receiver()

        def deliver(node_id: int, correlation: int, message: Message) -> None:
            if isinstance(message, FetchResponse):
                seen.append(None if message.records is None else bytes(message.records))  # type: ignore[call-overload]
                if isinstance(message.records, memoryview):
                    kept.append(message.records)
            receiver(node_id, correlation, message)

        peers = Peers("test", deliver, Dialer())
        async with FakePeer(keys=(ApiKey.API_VERSIONS, FETCH_CODEC.key)) as peer:
            peer.piece_bytes = piece_bytes
            sizes = [0, 10, 3_000, 0, 100] if piece_bytes == 1 else [10, 65_000, 300_000, 0, 3_000_000, 20, 300_000]
            for correlation, size in enumerate(sizes):
                builder = BatchBuilder()
                builder.append(bytes([correlation]) * size)
                records = builder.build(7, leader_epoch=3) if size else None
                peer.fetched = replace(FETCHED, records=records)
                peers.send(fetch(correlation, peer.address, 7))
                assert (await receiver.next())[:2] == (2, correlation)
                assert seen[-1] == records
            assert peer.connections == 1
        peers.close()
        assert kept
        for records in kept:
            with pytest.raises(ValueError, match="released"):
                bytes(records)

    asyncio.run(run())


def test_a_request_after_the_fetch_that_the_flusher_sent_gets_its_own_answer() -> None:
    async def run() -> None:
        receiver = Receiver()
        peers = Peers("test", receiver, Dialer())
        async with FakePeer(keys=(ApiKey.API_VERSIONS, FETCH_CODEC.key, VOTE.key)) as peer:
            peers.send(OutgoingRequest(2, peer.address, 1, VersionsRequest()))
            await receiver.next()
            granted = lease(2, 7)
            assert peers.follow(granted, not_followed())
            peers.unfollow(granted, granted.fetch)
            peers.send(vote(3, None))
            assert await receiver.next() == (2, 3, VoteResponse(granted=True, epoch=3))
            assert (peer.connections, receiver.messages.empty()) == (2, True)
        peers.close()

    asyncio.run(run())


def test_the_pause_counts_from_the_last_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that was offline for long is reached at once when it is back: elections wait for that."""
    async def run() -> None:
        pauses = []

        async def sleep(seconds: float) -> None:
            pauses.append(round(seconds, 1))

        monkeypatch.setattr("kraft.runtime.net.peers.PAUSE_SECONDS", 100.0)
        monkeypatch.setattr("kraft.runtime.net.peers.PAUSE_SECONDS_MAX", 1000.0)
        monkeypatch.setattr("kraft.runtime.net.peers.asyncio.sleep", sleep)
        receiver = Receiver()
        peers = Peers("test", receiver, Dialer())
        async with FakePeer() as peer:
            old_address = peer.address
        for correlation in range(2):
            peers.send(vote(correlation, old_address))
            assert await receiver.next() == (2, correlation, Lost(Loss.DISCONNECTED))
        peers.send(vote(2, old_address))
        await receiver.next()
        assert pauses == [100.0, 200.0]
        loop, time = asyncio.get_running_loop(), asyncio.get_running_loop().time
        monkeypatch.setattr(loop, "time", lambda: time() + 399.9)
        peers.send(vote(3, old_address))
        await receiver.next()
        assert pauses[2:] == [0.1]
        peers.close()

    asyncio.run(run())


def test_a_host_that_is_none() -> None:
    """The node that announces itself as the leader also announces its host."""
    async def run() -> None:
        receiver = Receiver()
        peers = Peers("test", receiver, Dialer())
        for correlation in range(2):
            peers.send(vote(correlation, Endpoint("CONTROLLER", "a..b", 9093)))
            assert await receiver.next() == (2, correlation, Lost(Loss.DISCONNECTED))
        peers.close()

    uvloop.run(run())


def test_peer_that_does_not_know_the_request() -> None:
    async def run() -> None:
        receiver = Receiver()
        peers = Peers("test", receiver, Dialer())
        async with FakePeer(keys=(ApiKey.API_VERSIONS,)) as peer:
            peers.send(vote(1, peer.address))
            assert await receiver.next() == (2, 1, Lost(Loss.UNSUPPORTED))
            peers.close()

    asyncio.run(run())


def refused(request: WireMessage, version: int) -> WireMessage:
    """Return the answer of a broker if no controller is found in time."""
    async def run() -> WireMessage:
        found: asyncio.Future[WireMessage] = asyncio.get_running_loop().create_future()
        channel = ControllerChannel("test", Dialer(), lambda: None, lambda *_: False, timeout_seconds=0.01)
        channel.submit(request, version, found.set_result)
        async with asyncio.timeout(SECONDS):
            return await found

    return asyncio.run(run())


def test_no_address_to_send_to() -> None:
    topics = refused(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1)]), 7)
    assert isinstance(topics, CreateTopicsResponse)
    assert [each.error_code for each in topics.topics] == [ErrorCode.REQUEST_TIMED_OUT]
    quorum = refused(DescribeQuorumRequest(), 2)
    assert isinstance(quorum, DescribeQuorumResponse)
    assert quorum.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_controller_in_the_same_node_is_called_directly() -> None:
    async def run() -> None:
        requested: list[Callable[[WireMessage], None]] = []

        def here(_request: WireMessage, _version: int, answer: Callable[[WireMessage], None],
                 _client_id: str | None) -> bool:
            requested.append(answer)
            return True

        channel = ControllerChannel("test", Dialer(), lambda: None, here, timeout_seconds=SECONDS)
        answered: list[WireMessage] = []
        channel.submit(CreateTopicsRequest(), 7, answered.append)
        requested[0](CreateTopicsResponse())
        assert answered == [CreateTopicsResponse()]

    asyncio.run(run())


def test_a_closed_controller_connection_is_reported() -> None:
    """The broker then sends its next heartbeat at once: the controller considers it dead after a short grace."""
    async def run() -> None:
        lost = asyncio.Event()
        async with FakePeer((ApiKey.API_VERSIONS, CreateTopicsRequest.API_KEY, ApiKey.ENVELOPE)) as peer:
            peer.answers = False
            channel = ControllerChannel("test", Dialer(), lambda: peer.address, lambda *_: False, SECONDS, lost.set)
            channel.submit(CreateTopicsRequest(), 7, lambda _answer: None)
            async with asyncio.timeout(SECONDS):
                await peer.requested.wait()
                assert not lost.is_set()
                peer.serving[0][1].transport.abort()
                await lost.wait()
                peer.requested.clear()
                await peer.requested.wait()        # on a new connection
            assert peer.connections == 2
            lost.clear()
            channel.close()
            await asyncio.sleep(0)
            assert not lost.is_set()

    asyncio.run(run())
