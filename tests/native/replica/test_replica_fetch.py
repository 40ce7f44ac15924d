"""A follower's fetcher against a leader's handlers, both in this process: the test carries bytes between them."""

import gc
import random
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest, ReplicaState
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.request_header import RequestHeader
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.batch.batch import walk
from kraft_native.log.flusher import Flusher
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import Purgatory, now_ms
from kraft_native.partition.table import PartitionTable
from kraft_native.replica.replica_fetch import ReplicaFetcher
from tests.native.logs import batch
from tests.native.serving import Node, body_of
from tests.oracle.legacy import sample

LEADER, FOLLOWER = 1, 2


def parted(frame: bytes) -> tuple[RequestHeader, bytes]:
    """Return a request's header and body."""
    header = RequestHeader.decode(frame, 2)
    return header, frame[len(header.encode(2)):]


class Line:
    """The follower's transport. `requests`: requests that it wrote and that have no reply yet."""

    def __init__(self, leader: Node, follower: Node, **settings: Any) -> None:
        self.leader = leader
        self.follower = follower
        self.requests: deque[bytes] = deque()
        self.errors: list[tuple[Partition | None, int]] = []
        self.lost: list[ReplicaFetcher] = []
        self.cuts: list[tuple[int, int, str]] = []
        self.closed = False
        self.socket: socket.socket | None = None
        self.fetcher = ReplicaFetcher(
            node_id=FOLLOWER, broker_epoch=7, client_id="follower", on_lost=self.lost.append,
            on_error=lambda partition, code, _cause: self.errors.append((partition, code)),
            on_cut=lambda partition, before, why: self.cuts.append((before, partition.log.log_end_offset, why)),
            **settings)

    def get_extra_info(self, name: str) -> socket.socket | None:
        return self.socket if name == "socket" else None

    def write(self, frame: bytes) -> None:
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        self.requests.append(frame[4:])

    def abort(self) -> None:
        self.closed = True

    def connect(self) -> None:
        self.fetcher.connection_made(cast(Any, self))

    def next_request(self) -> FetchRequest:
        """Decode the next pending request; it stays pending."""
        header, body = parted(self.requests[0])
        assert (header.request_api_key, header.request_api_version, header.client_id) == (ApiKey.FETCH, 17, "follower")
        request = FetchRequest.decode(body, 17)
        assert request.encode(17) != b"" and request.replica_state.replica_epoch == 7
        return request

    def serve(self) -> Any:
        """Pass the next request to the leader and return the reply, answered or not."""
        frame = self.requests.popleft()
        header, body = parted(frame)
        reply = self.leader.reply(1, header.request_api_version)
        self.leader.fetch_handler.handle_bytes(reply, body)
        return header.correlation_id, reply

    def take(self, served: Any, chunk: int = 1 << 20) -> None:
        correlation_id, reply = served
        self.give(correlation_id.to_bytes(4, "big") + body_of(reply)[4:], chunk)

    def give(self, response: bytes | memoryview, chunk: int = 1 << 20) -> None:
        stream = memoryview(len(response).to_bytes(4, "big") + bytes(response))
        while stream:
            window = memoryview(cast(Any, self.fetcher.get_buffer(-1)))
            count = min(len(window), len(stream), chunk)
            window[:count] = stream[:count]
            self.fetcher.buffer_updated(count)
            stream = stream[count:]

    def round(self, **how: int) -> None:
        """Exchange one request and its reply, which must not wait."""
        self.take(self.serve(), **how)


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    (tmp_path / "leader").mkdir()
    (tmp_path / "follower").mkdir()
    leader, follower = Node(tmp_path / "leader"), Node(tmp_path / "follower")
    made = Line(leader, follower, max_wait_ms=0)
    yield made
    made.fetcher.close()
    leader.close()
    follower.close()
    vars(made).clear()


def pair(line: Line, index: int = 0, epoch: int = 0, isr: tuple[int, ...] = (1, 2), **config: Any,
         ) -> tuple[Partition, Partition]:
    """Create a partition on both nodes, led by the first."""
    leading = line.leader.partition(index=index, leader=False, high_watermark="manual", **config)
    leading.become_leader(epoch, node_id=LEADER, replicas=(1, 2), isr=isr)
    following = line.follower.partition(index=index, leader=False, high_watermark="manual", **config)
    following.become_follower(epoch, LEADER)
    line.fetcher.follow(following)
    return leading, following


def content(partition: Partition) -> bytes:
    end = partition.log.log_end_offset
    return bytes(partition.log.read(partition.log.log_start_offset, 1 << 20, "log_end")) if end else b""


def test_records_of_the_leader_are_replicated_and_committed(line: Line) -> None:
    leading, following = pair(line)
    line.connect()
    leading.append(batch(3))
    leading.append(batch(2))
    assert leading.high_watermark == 0
    line.round()
    assert content(following) == content(leading) != b""
    assert (following.log.log_end_offset, following.high_watermark, leading.high_watermark) == (5, 0, 0)
    line.round()
    assert (leading.high_watermark, following.high_watermark) == (5, 5)
    assert leading.broker_epoch_of(FOLLOWER) == 7
    assert line.fetcher.bytes_total == leading.log.size_bytes
    assert following.log.end_offset_for_epoch(0) == (0, 5)


def test_a_session_names_only_what_moved(line: Line) -> None:
    first, _ = pair(line, 0)
    pair(line, 1)
    line.connect()
    request = line.next_request()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert [each.partition for each in request.topics[0].partitions] == [0, 1]
    line.round()
    assert line.next_request().topics == []
    first.append(batch())
    line.round()
    request = line.next_request()
    assert request.session_epoch == 2
    assert [(each.partition, each.fetch_offset, each.last_fetched_epoch)
            for each in request.topics[0].partitions] == [(0, 1, 0)]


def test_a_request_leaves_at_once_when_nothing_of_an_earlier_one_can_wait(line: Line) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)       # the system uses its minimum
        line.socket = ours
        waits: list[bytes] = []
        line.write = waits.append  # type: ignore[method-assign]
        leading = [pair(line, index)[0] for index in range(200)]
        line.connect()
        frame = theirs.recv(1 << 20) + waits.pop()
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4 > 200 * 32
        line.requests.append(frame[4:])
        line.round()
        frame = theirs.recv(1 << 20)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert waits == []
        line.requests.append(frame[4:])
        held = line.serve()
        pair(line, 200)
        assert len(waits) == 1             # a second one: the transport may hold a part of the first
        leading[0].append(batch())
        line.take(held)
        assert line.fetcher.responses_total == 2


def test_a_followed_log_start_is_reported_to_the_leader(line: Line) -> None:
    leading, following = pair(line)
    line.connect()
    leading.append(batch(3))
    for _ in range(3):
        line.round()
    assert (leading.high_watermark, line.next_request().topics) == (3, [])
    leading.delete_records(2)
    line.round()
    assert following.log.log_start_offset == 2
    assert [each.log_start_offset for each in line.next_request().topics[0].partitions] == [2]
    line.round()
    assert line.next_request().topics == []


def test_a_response_in_small_pieces(line: Line) -> None:
    leading, following = pair(line)
    for _ in range(20):
        leading.append(batch(10))
    line.connect()
    line.round(chunk=7)
    assert content(following) == content(leading)


def test_a_cut_last_batch_is_left_for_the_next_request(line: Line) -> None:
    leading, following = pair(line)
    leading.append(batch(3))
    whole = leading.log.size_bytes
    leading.append(batch(3))
    line.connect()
    correlation_id, reply = line.serve()
    response = FetchResponse.decode(body_of(reply)[5:], 17)
    part = response.responses[0].partitions[0]
    assert part.records is not None
    part.records = bytes(part.records)[:whole + 70]
    line.give(correlation_id.to_bytes(4, "big") + b"\0" + response.encode(17))
    assert following.log.log_end_offset == 3
    line.round()
    assert content(following) == content(leading)


def test_a_partition_that_is_added_does_not_wait_for_the_held_request(tmp_path: Path, line: Line) -> None:
    line.fetcher.close()
    line = Line(line.leader, line.follower, max_wait_ms=500)
    first, _ = pair(line, 0)
    line.connect()
    held = line.serve()
    assert not held[1].answered
    first.append(batch())
    line.leader.purgatory.drain()
    line.take(held)
    held = line.serve()
    assert not held[1].answered
    second, following = pair(line, 1)
    second.append(batch())
    request = line.next_request()
    assert [each.partition for each in request.topics[0].partitions] == [1]
    added = line.serve()
    assert held[1].answered, "the leader answers the one before at once"
    line.take(held)
    line.take(added)
    assert content(following) == content(second) != b""
    line.fetcher.close()


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_high_watermark_is_not_lost_when_a_partition_is_followed_again(line: Line, epoch: int) -> None:
    """The answer to a request of before is ignored, although the leader has noted that it reported the mark."""
    line.fetcher.close()
    line = Line(line.leader, line.follower, max_wait_ms=500)
    leading, following = pair(line)
    line.connect()
    held = line.serve()
    leading.append(batch(3))
    line.leader.purgatory.drain()
    line.take(held)
    held = line.serve()
    assert (leading.high_watermark, following.high_watermark) == (3, 0)
    if epoch:
        line.leader.purgatory.expire(now_ms() + 10_000)
        leading.become_leader(epoch, node_id=LEADER, replicas=(1, 2), isr=(1, 2))
        following.become_follower(epoch, LEADER)
    line.fetcher.follow(following)
    pending = [held, *(line.serve() for _ in line.requests.copy())]
    for served in pending:
        line.leader.purgatory.expire(now_ms() + 10_000)
        line.take(served)
    assert following.high_watermark == 3
    line.fetcher.close()


def test_an_answer_for_a_closed_log_changes_nothing(line: Line) -> None:
    leading, following = pair(line)
    line.connect()
    leading.append(batch(3))
    line.round()
    following.log.close()
    line.round()
    assert leading.high_watermark == 3
    assert (line.errors, following.log.log_end_offset, following.high_watermark) == ([], 3, 0)


def test_partitions_followed_in_one_iteration_share_one_request(line: Line) -> None:
    soon: list[Callable[[], None]] = []
    line.follower.purgatory = Purgatory(soon.append)
    line.follower.table = PartitionTable(line.follower.purgatory)
    line.connect()
    for index in range(3):
        pair(line, index)
    assert not line.requests
    turn, = soon
    turn()
    assert [each.partition for each in line.next_request().topics[0].partitions] == [0, 1, 2]
    line.round()
    assert len(line.requests) == 1


def test_records_that_come_twice_are_passed_over(line: Line) -> None:
    leading, following = pair(line)
    leading.append(batch(3))
    line.connect()
    correlation_id, reply = line.serve()
    body = body_of(reply)[4:]
    line.give(correlation_id.to_bytes(4, "big") + body)
    leading.append(batch(2))
    # The leader's session is still at 0 for a request that left before the first reply came.
    twice = line.leader.fetch(("t", 0, 0), version=17, replica_state=ReplicaState(replica_id=2, replica_epoch=7))
    line.requests.popleft()
    response = FetchResponse.decode(body_of(twice)[5:], 17)
    response.session_id = int.from_bytes(body[11:15], "big")
    line.give((correlation_id + 1).to_bytes(4, "big") + b"\0" + response.encode(17))
    assert content(following) == content(leading)


def test_a_log_that_differs_is_cut_where_the_leaders_epoch_ended(line: Line) -> None:
    leading, following = pair(line)
    line.connect()
    leading.append(batch(3))
    line.round()
    # It led epoch 1 alone and wrote records that no other replica has; the other node leads epoch 2.
    line.fetcher.unfollow(following)
    following.become_leader(1, node_id=FOLLOWER, replicas=(1, 2), isr=(2,))
    following.append(batch(4))
    leading.become_follower(1, FOLLOWER)
    leading.become_leader(2, node_id=LEADER, replicas=(1, 2), isr=(1,))
    leading.append(batch(2))
    following.become_follower(2, LEADER)
    line.fetcher.follow(following)
    for _ in range(4):
        line.round()
    assert content(following) == content(leading)
    assert following.log.end_offset_for_epoch(1) == leading.log.end_offset_for_epoch(1)
    assert following.log.log_end_offset == 5
    assert line.cuts == [(7, 3, "in the leader's log epoch 0 ends at 3")]


@pytest.mark.parametrize("is_reported", [True, False])
def test_the_next_leader_learns_only_the_durable_end(line: Line, is_reported: bool) -> None:
    """It learns that soon, also when no event reports the end of the flush: every partition of the leader waits."""
    line.follower.flusher = Flusher(linger_us=None, bytes_trigger=1 << 40)     # flushes when a caller waits
    leading, following = pair(line, durability="group-commit")
    following.become_leader(1, node_id=FOLLOWER, replicas=(1, 2), isr=(1, 2))
    line.follower.produce(batch())
    leading.become_leader(2, node_id=LEADER, replicas=(1, 2), isr=(1, 2))
    following.become_follower(2, LEADER)
    line.fetcher.follow(following)
    line.connect()
    assert not line.requests
    line.follower.purgatory.expire(now_ms() + 2_000)
    assert not line.requests
    following.log.wait_durable(1)
    line.follower.purgatory.flush_done() if is_reported else line.follower.purgatory.expire(now_ms() + 4_000)
    [topic] = line.next_request().topics
    assert [(each.partition, each.fetch_offset) for each in topic.partitions] == [(0, 1)]


@pytest.mark.parametrize("epoch", [0, 2])
def test_an_error_ends_the_following_of_one_partition(line: Line, epoch: int) -> None:
    leading, following = pair(line, 0)
    _, other = pair(line, 1)
    line.connect()
    line.round()
    leading.become_leader(1, node_id=LEADER, replicas=(1, 2), isr=(1, 2))
    if epoch:
        following.become_follower(epoch, LEADER)
        line.fetcher.follow(following)
    for _ in range(len(line.requests)):
        line.round()
    assert line.errors == [(following, ErrorCode.FENCED_LEADER_EPOCH if epoch == 0 else ErrorCode.UNKNOWN_LEADER_EPOCH)]
    assert line.fetcher.partitions() == [other]


def test_removed_partitions_are_forgotten_by_the_leader(line: Line) -> None:
    _, following = pair(line, 0)
    leading, other = pair(line, 1)
    line.connect()
    line.round()
    assert line.fetcher.unfollow(following) and not line.fetcher.unfollow(following)
    leading.append(batch())
    line.round()
    request = line.next_request()
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    assert content(other) != b""


def test_a_session_that_the_leader_lost_begins_again(line: Line) -> None:
    leading, following = pair(line)
    line.connect()
    line.round()
    held = line.serve()
    line.leader.sessions.__init__()  # type: ignore[misc]
    line.take(held)
    leading.append(batch())
    line.round()
    request = line.next_request()
    assert (request.session_id, request.session_epoch) == (0, 0)
    line.round()
    assert content(following) == content(leading) != b""
    assert line.errors == []


def test_an_answer_that_makes_no_sense_breaks_the_connection(line: Line) -> None:
    _, following = pair(line)
    line.connect()
    response = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData()])]).encode(17)
    line.give(b"\0\0\0\1\0" + response[:-9])
    assert line.closed and line.errors[0][0] is None
    line.fetcher.connection_lost(None)
    assert line.lost == [line.fetcher]
    assert following.log.log_end_offset == 0


def test_corrupt_records_are_not_taken(line: Line) -> None:
    leading, following = pair(line)
    leading.append(batch(3))
    line.connect()
    correlation_id, reply = line.serve()
    damaged = bytearray(body_of(reply)[4:])
    damaged[-20] ^= 1
    line.give(correlation_id.to_bytes(4, "big") + bytes(damaged))
    assert line.errors == [(following, 2)]
    assert following.log.log_end_offset == 0


def test_batches_of_a_later_epoch_than_requested_are_not_appended(line: Line) -> None:
    """A leader's file holds such batches after it lost its role and was cut, while its old reply was on its way."""
    leading, following = pair(line)
    leading.append(batch(3))
    leading.append(batch(2))
    second = bytes(leading.log.read(3, 1 << 20, "log_end"))
    line.connect()
    for errors in ([], [(following, 75)]):
        correlation_id, reply = line.serve()
        response = bytearray(body_of(reply)[4:])
        at = response.index(second) + 12         # the partition leader epoch
        response[at:at + 4] = (1).to_bytes(4, "big")
        line.give(correlation_id.to_bytes(4, "big") + bytes(response))
        assert following.log.log_end_offset == 3
        assert line.errors == errors
    assert content(leading) == content(following) + second


def test_a_follower_takes_over_the_log_start(line: Line) -> None:
    leading, following = pair(line)
    line.connect()
    leading.append(batch(4))
    line.round()
    line.round()
    leading.delete_records(2)
    leading.append(batch(1))
    line.round()
    assert following.log.log_start_offset == 2


def test_a_follower_learns_a_log_start_at_once_and_confirms_it(tmp_path: Path, line: Line) -> None:
    line.fetcher.close()
    line = Line(line.leader, line.follower, max_wait_ms=10_000)
    leading, following = pair(line)
    leading.append(batch(4))
    line.connect()
    line.round()
    held = line.serve()
    line.leader.purgatory.expire(now_ms() + 10_000)
    line.take(held)
    held = line.serve()
    outcomes: list[tuple[int, int]] = []
    leading.delete_records(2)
    leading.call_when_deleted(2, lambda _node_id: True, lambda *what: outcomes.append(what), timeout_ms=1000)
    line.leader.purgatory.drain()
    line.take(held)
    assert (following.log.log_start_offset, outcomes) == (2, [])
    held = line.serve()
    line.leader.purgatory.drain()
    assert outcomes == [(0, 2)] and not held[1].answered


def test_an_empty_log_takes_the_batch_that_the_leaders_log_starts_in(line: Line) -> None:
    leading, following = pair(line)
    line.fetcher.unfollow(following)
    leading.append(batch(6))
    leading.set_isr((1,))
    leading.delete_records(4)
    following.log.truncate_fully_and_start_at(4)
    line.fetcher.follow(following)
    line.connect()
    line.round()
    assert (following.log.log_start_offset, following.log.log_end_offset, following.high_watermark) == (4, 6, 6)
    assert line.errors == []


def test_no_python_frame_runs_for_a_response(tmp_path: Path, line: Line) -> None:
    """The replies to one follower are given to a second one, which sends the same requests."""
    leading, first = pair(line)
    line.connect()
    responses: list[memoryview] = []
    for _ in range(1001):
        leading.append(batch())
        correlation_id, reply = line.serve()
        response = correlation_id.to_bytes(4, "big") + body_of(reply)[4:]
        responses.append(memoryview(len(response).to_bytes(4, "big") + response))
        line.give(response)
    (tmp_path / "second").mkdir()
    second = Line(line.leader, Node(tmp_path / "second"))
    following = second.follower.partition(leader=False, high_watermark="manual")
    following.become_follower(0, LEADER)
    second.fetcher.follow(following)
    second.connect()
    second.give(responses[0][4:])      # the first record of an epoch writes the epoch file
    get_buffer: Any = second.fetcher.get_buffer
    updated = second.fetcher.buffer_updated
    frames: list[str] = []

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            frames.append(frame.f_code.co_qualname)

    gc.disable()                       # callbacks of the collector, whichever module installed them, are frames too
    sys.setprofile(profile)
    try:
        for rest in responses[1:]:
            while rest:
                window = memoryview(get_buffer(-1))
                count = min(len(window), len(rest))
                window[:count] = rest[:count]
                updated(count)
                rest = rest[count:]
    finally:
        sys.setprofile(None)
        gc.enable()
    # The line takes the place of a transport, which is compiled.
    assert set(frames) == {"Line.write"} and len(frames) == 1000
    assert content(following) == content(first) != b""
    assert (following.log.log_end_offset, second.errors) == (1001, [])
    second.fetcher.close()
    second.follower.close()


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidArgumentError, match="bytes_max"):
        ReplicaFetcher(node_id=1, broker_epoch=1, client_id="", on_error=print, on_lost=print, bytes_max=-1)


# --- formats v0 and v1 ------------------------------------------------------------------------------------------------

def old_messages(seed: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a log of both formats, and the first and last offset of each of its batches."""
    data = sample(random.Random(seed), 0, 30)
    return data, [(each.base_offset, each.last_offset) for each in walk(data)]


def test_old_messages_come_over_as_they_are(line: Line) -> None:
    leading, following = pair(line)
    data, batches = old_messages(1)
    leading.log.append_as_follower(data)
    leading.append(batch(3))
    line.connect()
    line.round()
    assert content(following) == content(leading)
    assert content(following)[:len(data)] == data
    assert following.log.epochs.entries() == [(0, batches[-1][1] + 1)]
    line.round()
    assert following.high_watermark == leading.high_watermark == batches[-1][1] + 4


def test_old_messages_that_the_follower_has_are_not_appended_again(line: Line) -> None:
    """The leader sends whole batches: a compressed message whose first records the follower has comes whole."""
    leading, following = pair(line)
    data, _ = old_messages(2)
    leading.log.append_as_follower(data)
    sizes = [each.size_in_bytes for each in walk(data)]
    following.log.append_as_follower(data[:sum(sizes[:11])])
    line.connect()
    line.round()
    assert content(following) == data


def test_a_log_that_starts_within_an_old_compressed_message(line: Line) -> None:
    leading, following = pair(line)
    data, batches = old_messages(3)
    leading.log.append_as_follower(data)
    leading.log.set_high_watermark(leading.log.log_end_offset)
    number, first = next((number, first) for number, (first, last) in enumerate(batches) if last - first >= 4)
    leading.log.delete_records(first + 2)
    following.log.truncate_fully_and_start_at(first + 2)
    line.connect()
    line.round()
    position = sum(each.size_in_bytes for each in list(walk(data))[:number])
    assert bytes(following.log.read(first + 2, 1 << 20, "log_end")) == data[position:]
    assert following.log.log_end_offset == batches[-1][1] + 1
