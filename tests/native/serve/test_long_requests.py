"""Produce and Fetch with very many partitions: processed in slices, with the same outcome as in one go."""

from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft_native.batch.records import BatchBuilder
from kraft_native.file.buffer import release_idle
from kraft_native.partition.purgatory import now_ms
from kraft_native.request.reply import Reply
from kraft_native.request.slices import SliceQueue
from kraft_native.serve.fetch import FetchHandler
from kraft_native.serve.fetch_session import SessionCache
from kraft_native.serve.produce import ProduceHandler
from tests.native.logs import batch
from tests.native.serving import (
    NODE_ID,
    Node,
    fetch_response,
    fetched,
    produce_response,
    produced,
    serving,
    topic_id_of,
)
from tests.native.wires import Bench, replies, request

LED_ELSEWHERE, NOT_THERE, FAILED = 7, 8, 9

FOUR_RESULTS = [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.KAFKA_STORAGE_ERROR]

Absent = tuple[int, str, Mapping[int, "Led"], Container[tuple[str, int]], int]


class Led(NamedTuple):
    leader: int
    leader_epoch: int


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving(tmp_path) as made:
        yield made


class Sliced:
    """A node whose long requests continue when the test runs them."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.due: list[Callable[[], None]] = []
        self.failures: list[BaseException] = []
        self.slices = SliceQueue(self.due.append, self.failures.append, slice_us=1, iteration_us=1)
        node.produce_handler = ProduceHandler(node.table, slices=self.slices)
        node.fetch_handler = FetchHandler(node.table, node.sessions, slices=self.slices)
        self.lookups: list[tuple[bytes, bool]] = []
        node.table.explain(self.absence)

    def absence(self, key: bytes, by_id: bool) -> Absent:
        self.lookups.append((key, by_id))
        return 3, "t", {LED_ELSEWHERE: Led(4, 7), FAILED: Led(NODE_ID, 7)}, {("t", FAILED)}, NODE_ID

    def produce(self, parts: list[PartitionProduceData], topic: str = "t", acks: int = 1) -> Reply:
        return self.node.produce_body(ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[
            TopicProduceData(name=topic, partition_data=parts)]).encode(12), 12)

    def fetch(self, indexes: list[int], *, first_bytes_max: int = 1 << 20, **fields: Any) -> Reply:
        return self.node.fetch_body(FetchRequest(**{
            "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": [FetchTopic(topic="t", partitions=[
                FetchPartition(partition=index, fetch_offset=0,
                               partition_max_bytes=1 << 20 if place else first_bytes_max)
                for place, index in enumerate(indexes)])], **fields}).encode(12), 12)

    def settle(self) -> int:
        """Run everything that is due and return the number of iterations."""
        count = 0
        while self.due:
            self.due.pop(0)()
            count += 1
        assert self.failures == []
        return count


def test_very_many_batches_are_appended_in_slices(node: Node) -> None:
    partition = node.partition()
    made = Sliced(node)
    parts = [PartitionProduceData(index=index, records=batch())
             for index in (0, LED_ELSEWHERE, NOT_THERE, FAILED)] * 500
    reply = made.produce(parts)
    assert not reply.answered and 0 < partition.log.log_end_offset < 500
    assert produced(node.produce(batch())).error_code == ErrorCode.NONE     # from another connection
    assert made.settle() > 2_000 // 64
    found = produce_response(reply).responses[0].partition_responses
    assert [part.error_code for part in found] == FOUR_RESULTS * 500
    assert [part.current_leader.leader_id for part in found[:4]] == [-1, 4, -1, -1]
    assert partition.log.log_end_offset == 501
    assert made.slices.used_up == {ApiKey.PRODUCE: 1}
    assert len(made.lookups) <= 2_000 // 16   # once per slice


def test_very_many_batches_are_decoded_in_slices(node: Node) -> None:
    """Nothing is appended before the whole request is decoded."""
    partition = node.partition()
    made = Sliced(node)
    reply = made.produce([PartitionProduceData(index=0, records=batch())] * 20_000)
    appended = []
    while made.due:
        made.due.pop(0)()
        appended.append(partition.log.log_end_offset)
    assert made.failures == [] and appended.count(0) >= 20_000 // 4_096
    assert appended[-1] == 20_000
    answers = produce_response(reply).responses[0].partition_responses
    assert [each.base_offset for each in answers] == list(range(20_000))


def test_topics_without_partitions_are_decoded_in_slices(node: Node) -> None:
    made = Sliced(node)
    reply = node.produce_body(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[
        TopicProduceData(name=str(number)) for number in range(20_000)]).encode(12), 12)
    assert not reply.answered
    assert made.settle() >= 20_000 // 4_096
    assert [each.name for each in produce_response(reply).responses] == [str(number) for number in range(20_000)]


@pytest.mark.parametrize("cut_bytes", [1, 40_000])
def test_a_long_request_that_is_malformed_changes_nothing(node: Node, cut_bytes: int) -> None:
    partition = node.partition()
    made = Sliced(node)
    parts = [PartitionProduceData(index=0, records=batch())] * 20_000
    body = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[
        TopicProduceData(name="t", partition_data=parts)]).encode(12)
    reply = node.produce_body(body[:-cut_bytes], 12)
    assert not reply.refused
    made.settle()
    assert reply.refused and partition.log.log_end_offset == 0


def test_the_identity_of_a_long_request_is_that_of_all_its_batches(node: Node) -> None:
    partition = node.partition()
    made = Sliced(node)
    ordinary = [PartitionProduceData(index=0, records=batch())] * 5_000
    mixed = [PartitionProduceData(index=0, records=batch(producer_id=number, producer_epoch=0, base_sequence=0,
                                                         transactional=True)) for number in (1, 2)]
    body = ProduceRequest(transactional_id="writer", acks=1, timeout_ms=1000, topic_data=[
        TopicProduceData(name="t", partition_data=[mixed[0], *ordinary, mixed[1]])]).encode(12)
    reply = node.produce_body(body, 12)
    made.settle()
    answers = produce_response(reply).responses[0].partition_responses
    assert {each.error_code for each in answers} == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert len(answers) == 5_002 and partition.log.log_end_offset == 0


def test_a_long_answer_is_encoded_in_slices(node: Node) -> None:
    """And it is the same as in one go."""
    node.partition()
    made = Sliced(node)
    indexes = [range(3_000), (), (0, LED_ELSEWHERE), *[(NOT_THERE,)] * 3_000, range(1_024)]
    body = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(
        name="t" if number % 2 else "absent", partition_data=[PartitionProduceData(index=index, records=b"")
                                                              for index in each])
        for number, each in enumerate(indexes)]).encode(12)
    reply = node.produce_body(body, 12)
    handler, before, most = node.produce_handler, 0, 0
    while made.due:
        made.due.pop(0)()
        encoded = sum(handler.error_counts().values())
        before, most = encoded, max(most, encoded - before)
    assert made.failures == [] and before > 7_000 and 0 < most <= 1_024
    node.produce_handler = ProduceHandler(node.table)
    assert produce_response(reply) == produce_response(node.produce_body(body, 12))


def test_a_sent_request_is_appended_after_its_client_disconnected(node: Node) -> None:
    partition = node.partition()
    made = Sliced(node)
    made.produce([PartitionProduceData(index=0, records=batch())] * 200, acks=0)
    made.settle()
    assert partition.log.log_end_offset == 200


def test_answers_to_very_many_refused_batches_are_bounded(node: Node) -> None:
    node.partition(cleanup_policy="compact")
    made = Sliced(node)
    builder = BatchBuilder()
    builder.append(b"no key", None, 1)
    reply = made.produce([PartitionProduceData(index=0, records=builder.build())] * 3_000)
    made.settle()
    found = produce_response(reply).responses[0].partition_responses
    assert {part.error_code for part in found} == {ErrorCode.INVALID_RECORD}
    assert sum(part.error_message is not None for part in found) == 1_000
    assert sum(len(part.record_errors) for part in found) == 1_000


def test_a_large_request_stays_in_the_memory_that_it_was_read_to(node: Node) -> None:
    """A copy would cost the event loop 30 ms for 45 MB of new memory."""
    release_idle()      # a larger block that an earlier test left would be used instead
    partition = node.partition()
    made = Sliced(node)
    bench = Bench()
    bench.channel.serve(ApiKey.PRODUCE, 3, 13, 9, made.node.produce_handler)
    parts = [PartitionProduceData(index=0, records=batch(1, value=bytes(20_000)))] * 300
    body = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(
        name="t", partition_data=parts)]).encode(12)
    wire = bench.connect()
    wire.feed(request(0, 12, 1, body, tags=b"\0"))
    assert partition.log.log_end_offset < 300, "the rest waits for its slice"
    assert bench.memory.used_bytes >= len(body)
    assert bench.memory.peak_bytes < 1.5 * len(body)
    made.settle()
    bench.settle()
    [(_, answer)] = replies(wire.received)
    [topic] = ProduceResponse.decode(answer[1:], 12).responses
    assert [part.error_code for part in topic.partition_responses] == [ErrorCode.NONE] * 300
    assert partition.log.log_end_offset == 300
    assert bench.memory.used_bytes == 0
    bench.end()


# --- Fetch


def test_very_many_partitions_are_read_in_slices(node: Node) -> None:
    partition = node.partition()
    partition.append(batch())
    made = Sliced(node)
    reply = made.fetch([0, LED_ELSEWHERE, NOT_THERE, FAILED] * 1_000)
    assert not reply.answered
    assert fetched(node.fetch(("t", 0, 0)))[0].records         # from another connection
    assert made.settle() >= 4_000 // 128
    found = fetched(reply)
    assert [part.error_code for part in found] == FOUR_RESULTS * 1_000
    assert [bool(part.records) for part in found] == [True, False, False, False] * 1_000
    assert made.slices.used_up == {ApiKey.FETCH: 1}
    assert len(made.lookups) <= 4_000 // 128 + 2


def test_a_long_fetch_waits_for_what_comes_during_its_slices(node: Node) -> None:
    """The first partition moves between two slices: while the fetch is decoded, while it is read, or when it waits."""
    node.partition(index=1)
    made = Sliced(node)
    moment, waits = 0, False
    while not waits:
        partition = node.partition(index=2 + moment)
        reply = made.fetch([2 + moment] + [1] * 1_999, max_wait_ms=60_000)
        for _ in range(moment):
            if made.due:           # two steps within one tick of the clock are one slice
                made.due.pop(0)()
        waits = not made.due
        partition.append(batch())
        node.purgatory.drain()
        assert not reply.answered
        made.settle()
        assert reply.answered and fetched(reply)[0].records
        moment += 1
    assert moment > 2 * 2_000 // 128


def test_a_woken_long_fetch_sees_what_comes_during_its_slices(node: Node) -> None:
    """The second read finds too few bytes, as the first partition has a limit. The second partition moves meanwhile."""
    first, second = node.partition(index=1), node.partition()
    node.partition(index=2)
    made = Sliced(node)
    bytes_each = len(batch())
    reply = made.fetch([1, 0] + [2] * 1_998, first_bytes_max=1, max_wait_ms=60_000, min_bytes=2 * bytes_each)
    made.settle()
    first.append(batch())
    first.append(batch())
    node.purgatory.drain()
    made.due.pop(0)()
    second.append(batch())
    node.purgatory.drain()
    assert not reply.answered and node.purgatory.parked_fetches == 1
    made.settle()
    assert reply.answered and [len(part.records or b"") for part in fetched(reply)[:2]] == [bytes_each] * 2


def test_a_long_fetch_is_woken_and_expires(node: Node) -> None:
    partition = node.partition()
    made = Sliced(node)
    replies = [made.fetch([0] * 2_000, max_wait_ms=wait_ms) for wait_ms in (60_000, 10)]
    made.settle()
    assert [reply.answered for reply in replies] == [False, False] and node.purgatory.parked_fetches == 2
    node.purgatory.expire(now_ms() + 1_000)
    made.settle()
    assert [reply.answered for reply in replies] == [False, True] and node.purgatory.parked_fetches == 1
    partition.append(batch())
    node.purgatory.drain()
    made.settle()
    assert replies[0].answered and node.purgatory.parked_fetches == 0
    assert fetch_response(replies[0]).responses[0].partitions[0].records


def test_a_long_session_returns_changes(node: Node) -> None:
    partition = node.partition()
    made = Sliced(node)
    indexes = list(range(1_500))
    begun = made.fetch(indexes, session_epoch=0)
    made.settle()
    session_id = fetch_response(begun).session_id
    assert session_id != 0 and len(fetched(begun)) == 1_500
    partition.append(batch())
    second = made.fetch([], session_id=session_id, session_epoch=1)
    made.settle()
    assert [part.partition_index for part in fetched(second) if part.records] == [0]


def fetch_bodies(version: int) -> Iterator[bytes]:
    """Large requests: partitions of one topic, of many topics, topics without partitions, and forgotten ones."""
    def name(number: int) -> dict[str, Any]:
        if version < 13:
            return {"topic": f"t{number}" if number else "t"}
        return {"topic_id": UUID(bytes=topic_id_of(f"t{number}" if number else "t"))}

    def topics(count: int, indexes: list[int]) -> list[FetchTopic]:
        return [FetchTopic(**name(number), partitions=[
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=100) for index in indexes])
            for number in range(count)]

    for found in (topics(1, [0, LED_ELSEWHERE, NOT_THERE, FAILED] * 700), topics(1_500, [0, LED_ELSEWHERE]),
                  [*topics(3_000, []), *topics(1, [0] * 1_100)]):
        forgotten = [ForgottenTopic(**name(number), partitions=list(range(200))) for number in range(5)]
        yield FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=0 if version >= 7 else -1,
                           topics=found, forgotten_topics_data=forgotten if version >= 7 else []).encode(version)


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 17])
def test_a_fetch_in_slices_is_answered_as_in_one_go(node: Node, version: int) -> None:
    node.partition().append(batch())
    made = Sliced(node)
    for body in fetch_bodies(version):
        assert len(body) > 16 * 1024
        sliced = node.fetch_body(body, version)
        made.settle()
        node.fetch_handler = FetchHandler(node.table, node.sessions)
        whole = node.fetch_body(body, version)
        expected, found = fetch_response(whole), fetch_response(sliced)
        assert (found.session_id != 0) is (expected.session_id != 0) is (version >= 7)
        assert sum(len(topic.partitions) for topic in found.responses) > 1_000
        assert found.replace(session_id=0) == expected.replace(session_id=0)
        node.fetch_handler = FetchHandler(node.table, node.sessions, slices=made.slices)


def test_each_part_of_a_long_fetch_takes_steps(node: Node) -> None:
    """It is decoded, read, gets its session and is encoded 128 partitions at a time."""
    node.partition()
    made = Sliced(node)
    count = 6_400
    reply = made.fetch(list(range(count)), session_epoch=0)
    assert len(made.due) == 1
    assert made.settle() >= 5 * count // 128
    assert len(fetched(reply)) == count
    assert node.sessions.partition_count == count


def test_a_long_request_changes_a_session_in_steps(node: Node) -> None:
    node.partition()
    made = Sliced(node)
    begun = made.fetch(list(range(3_000)), session_epoch=0)
    made.settle()
    session_id = fetch_response(begun).session_id
    changed = made.fetch(list(range(2_000, 5_000)), session_id=session_id, session_epoch=1, forgotten_topics_data=[
        ForgottenTopic(topic="t", partitions=list(range(1_000)))])
    made.settle()
    assert fetch_response(changed).session_id == session_id
    assert node.sessions.partition_count == 4_000
    ended = made.fetch([], session_id=session_id, session_epoch=2, forgotten_topics_data=[
        ForgottenTopic(topic="t", partitions=list(range(5_000)))])
    made.settle()
    assert fetch_response(ended).session_id == 0 and len(node.sessions) == 0
    assert node.sessions.partition_count == 0


def test_a_session_that_ends_while_a_long_request_changes_it(node: Node) -> None:
    node.partition()
    made = Sliced(node)
    begun = made.fetch(list(range(2_000)), session_epoch=0)
    made.settle()
    session_id = fetch_response(begun).session_id
    changed = made.fetch(list(range(2_000, 5_000)), session_id=session_id, session_epoch=1)
    for _ in range(3_000 // 128 + 3):
        made.due.pop(0)()
    assert node.sessions.partition_count > 2_000
    node.fetch(session_id=session_id, session_epoch=-1)        # another connection ends it
    assert len(node.sessions) == 0
    made.settle()
    assert fetch_response(changed).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert node.sessions.partition_count == 0


def test_a_session_for_which_others_took_the_room(node: Node) -> None:
    node.partition()
    node.sessions = SessionCache(1)
    made = Sliced(node)
    first = made.fetch(list(range(2_000)), session_epoch=0, replica_id=2)
    while node.sessions.partition_count == 0:
        made.due.pop(0)()
    second = node.fetch(("t", 0, 0), session_epoch=0, replica_id=3, version=12)
    made.settle()
    assert fetch_response(second).session_id != 0
    assert fetch_response(first).session_id == 0 and len(fetched(first)) == 2_000
    assert node.sessions.partition_count == 1


def test_a_long_fetch_that_is_malformed_is_refused(node: Node) -> None:
    made = Sliced(node)
    body = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="t", partitions=[
        FetchPartition(partition=index) for index in range(3_000)])]).encode(12)
    for wrong in (body[:-20], body[:60] + b"\xff" * 50 + body[110:]):
        reply = node.fetch_body(wrong, 12)
        assert not reply.refused
        made.settle()
        assert reply.refused


@pytest.mark.parametrize(("replica_id", "steps"), [(-1, 1), (-1, 30), (2, 30), (2, 60), (2, 80)])
def test_a_long_fetch_of_a_client_that_has_disconnected_ends(node: Node, replica_id: int, steps: int) -> None:
    """The client leaves while its request is decoded, read, or begins a session. The session may outlive it."""
    made = Sliced(node)
    bench = Bench()
    bench.channel.serve(ApiKey.FETCH, 4, 18, 12, made.node.fetch_handler)
    body = FetchRequest(max_wait_ms=60_000, min_bytes=1, session_epoch=0, replica_id=replica_id, topics=[
        FetchTopic(topic="t", partitions=[FetchPartition(partition=index) for index in range(3_000)])]).encode(12)
    wire = bench.connect()
    wire.feed(request(1, 12, 1, body, tags=b"\0"))
    assert bench.memory.used_bytes > 3_000 * 256, "its partitions are charged before they are decoded"
    for _ in range(steps):
        made.due.pop(0)()
    wire.connection.connection_lost(None)
    assert bench.memory.used_bytes == 0
    made.settle()
    assert node.purgatory.parked_fetches == 0
    assert node.sessions.partition_count == 3_000 * len(node.sessions)
    bench.end()
