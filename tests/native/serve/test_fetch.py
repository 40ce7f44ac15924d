"""Fetch: every version by the schema and by Kafka's own frames, limits, isolation, long poll."""

import gc
import json
import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft_native.batch import control
from kraft_native.file.buffer import Slice
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import now_ms
from tests.golden import golden, needs_golden
from tests.native.logs import batch, read_all
from tests.native.serving import NODE_ID, Node, body_of, fetch_response, fetched, serving, topic_id_of
from tests.native.wires import Bench, request

VERSIONS = range(4, 19)
ONE = len(batch())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving(tmp_path) as made:
        yield made


def fill(partition: Partition, count: int, **kind: object) -> None:
    """Append `count` batches of one record."""
    for _ in range(count):
        partition.append(batch(**kind))  # type: ignore[arg-type]


# --- reads


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("isolation", [0, 1])
def test_every_version_reads(node: Node, version: int, isolation: int) -> None:
    partition = node.partition()
    fill(partition, 3)
    response = fetch_response(node.fetch(("t", 0, 1), version=version, isolation_level=isolation))
    [topic] = response.responses
    assert (topic.topic, topic.topic_id) == (("t", UUID(int=0)) if version < 13 else ("", UUID(bytes=topic_id_of("t"))))
    [part] = topic.partitions
    assert (part.partition_index, part.error_code) == (0, ErrorCode.NONE)
    assert (part.high_watermark, part.last_stable_offset) == (3, 3)
    assert part.log_start_offset == (0 if version >= 5 else -1)
    assert part.aborted_transactions == ([] if isolation else None)
    assert part.records == read_all(partition.log)[ONE:]
    assert (response.error_code, response.session_id, response.throttle_time_ms) == (ErrorCode.NONE, 0, 0)


def test_records_are_slices_of_the_log_and_not_copies(node: Node) -> None:
    fill(node.partition(), 2)
    reply = node.fetch(("t", 0, 0))
    assert [type(part) for part in reply.parts or []] == [bytes, Slice, bytes]


def test_an_offset_inside_a_batch_gets_the_whole_batch(node: Node) -> None:
    node.partition().append(batch(10))
    [part] = fetched(node.fetch(("t", 0, 7)))
    assert part.records == read_all(node.table.get("t", 0).log)  # type: ignore[union-attr]


def test_limits(node: Node) -> None:
    """The first batch of the first partition with data is whole; after it the limits hold, and no batch is cut."""
    for index in range(4):
        fill(node.partition("t", index), 0 if index == 0 else 5)

    def sizes(**limits: int) -> list[int]:
        reply = node.fetch(*[("t", index, 0) for index in range(4)], **limits)  # type: ignore[arg-type]
        return [len(part.records or b"") // ONE for part in fetched(reply)]

    assert sizes() == [0, 5, 5, 5]
    assert sizes(max_bytes=0) == sizes(max_bytes=1) == sizes(partition_max_bytes=0) == [0, 1, 0, 0]
    assert sizes(max_bytes=ONE * 7) == [0, 5, 2, 0]
    assert sizes(max_bytes=ONE * 7 - 1) == [0, 5, 1, 0]
    assert sizes(partition_max_bytes=ONE * 2 + 3) == [0, 2, 2, 2]
    assert sizes(max_bytes=-5, partition_max_bytes=-5) == [0, 1, 0, 0]


def test_the_node_has_a_limit_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path, bytes_max=ONE * 2) as node:
        fill(node.partition(), 5)
        [part] = fetched(node.fetch(("t", 0, 0)))
        assert len(part.records or b"") == 2 * ONE


def test_transactions(node: Node) -> None:
    partition = node.partition()
    partition.append(batch())
    partition.append(batch(2, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True))
    partition.append(batch())
    [part] = fetched(node.fetch(("t", 0, 0), isolation_level=1))
    assert (part.high_watermark, part.last_stable_offset, len(part.records or b"")) == (4, 1, ONE)
    [part] = fetched(node.fetch(("t", 0, 1), isolation_level=1))
    assert (part.error_code, part.records, part.aborted_transactions) == (ErrorCode.NONE, b"", [])
    [part] = fetched(node.fetch(("t", 0, 0), isolation_level=0))
    assert len(part.records or b"") == partition.log.size_bytes and part.aborted_transactions is None
    partition.append(control.marker(commit=False, producer_id=5, producer_epoch=0, coordinator_epoch=0,
                                    timestamp_ms=1_700_000_000_000), origin="coordinator")
    for version in VERSIONS:
        [part] = fetched(node.fetch(("t", 0, 0), isolation_level=1, version=version))
        assert [(one.producer_id, one.first_offset) for one in part.aborted_transactions or []] == [(5, 1)]
        assert len(part.records or b"") == partition.log.size_bytes
    [part] = fetched(node.fetch(("t", 0, 4), isolation_level=1))
    assert [one.first_offset for one in part.aborted_transactions or []] == [1]


# --- refusals


def only(node: Node, version: int = 16, **fields: int) -> tuple[int, int, int, int, bytes | None, list[object] | None]:
    reply = node.fetch(("t", FetchPartition(**{"partition": 0, "partition_max_bytes": 1 << 20} | fields)),
                       version=version)
    [part] = fetched(reply)
    return (part.error_code, part.high_watermark, part.last_stable_offset, part.log_start_offset, part.records,
            part.aborted_transactions)  # type: ignore[return-value]


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_of_one_partition(node: Node, version: int) -> None:
    partition = node.partition()
    partition.become_leader(5, node_id=NODE_ID)
    fill(partition, 4)
    partition.delete_records(2)
    none = (-1, -1, -1, b"", None)
    for offset in (1, 5, -1, 4, 2):
        code = ErrorCode.NONE if offset in (4, 2) else ErrorCode.OFFSET_OUT_OF_RANGE
        found = only(node, version, fetch_offset=offset)
        assert found[0] == code
        assert found[1:] == none if code else found[1:4] == (4, 4, 2 if version >= 5 else -1)
    if version >= 9:
        assert only(node, version, fetch_offset=2, current_leader_epoch=4) == (74, *none)
        assert only(node, version, fetch_offset=2, current_leader_epoch=6) == (75, *none)
        assert only(node, version, fetch_offset=2, current_leader_epoch=5)[0] == 0
    [part] = fetched(node.fetch(("t", 3, 0), version=version))
    assert (part.partition_index, part.error_code) == (3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    [part] = fetched(node.fetch(("nobody", 0, 0), version=version))
    assert part.error_code == (100 if version >= 13 else 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_replicas_that_are_none(node: Node, version: int) -> None:
    node.partition()
    replica = {"replica_id": 9} if version <= 14 else {}
    if version >= 15:
        replica = {"replica_state": ReplicaState(replica_id=9, replica_epoch=4)}  # type: ignore[dict-item]
    [part] = fetched(node.fetch(("t", 0, 0), version=version, **replica))  # type: ignore[arg-type]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader_id = part.current_leader.leader_id
    assert leader_id == (NODE_ID if version >= 16 else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_current_leader_is_returned(node: Node, version: int) -> None:
    node.table.set_endpoint(2, "host-2", 9092, None)
    partition = node.partition()
    partition.become_follower(4, 2)
    current = {"current_leader_epoch": 3} if version >= 9 else {}
    reply = node.fetch(("t", FetchPartition(partition=0, **current)), version=version)
    response = fetch_response(reply)
    [part] = response.responses[0].partitions
    assert part.error_code == (74 if version >= 9 else 6)
    assert part.current_leader.leader_id == (2 if version >= 16 else -1)
    assert [one.host for one in response.node_endpoints] == (["host-2"] if version >= 16 else [])
    # From version 11 on a consumer may read from a follower.
    [part] = fetched(node.fetch(("t", 0, 0), version=version))
    assert part.error_code == (0 if version >= 11 else 6)


def test_diverging_epochs(node: Node) -> None:
    partition = node.partition()
    fill(partition, 3)
    partition.become_leader(2, node_id=NODE_ID)
    fill(partition, 3)

    def diverging(epoch: int, offset: int) -> tuple[int, int, int]:
        [part] = fetched(node.fetch(("t", FetchPartition(partition=0, fetch_offset=offset, last_fetched_epoch=epoch,
                                                         partition_max_bytes=1 << 20))))
        refused = part.error_code != ErrorCode.NONE
        assert (part.records == b"") == (refused or part.diverging_epoch.epoch >= 0 or offset == 6)
        return part.error_code, part.diverging_epoch.epoch, part.diverging_epoch.end_offset

    assert diverging(0, 3) == (0, -1, -1)
    assert diverging(0, 4) == (0, 0, 3)
    assert diverging(1, 4) == (0, 0, 3)
    assert diverging(2, 6) == (0, -1, -1)
    assert diverging(2, 7) == (0, 2, 6)
    assert diverging(3, 6) == (1, -1, -1)
    partition.delete_records(5)
    assert diverging(2, 4) == (1, -1, -1)


def test_damage_is_an_error_and_not_served(node: Node, tmp_path: Path) -> None:
    with serving(tmp_path / "2") as other:
        (tmp_path / "2").mkdir()
        partition = other.partition(segment_bytes=1000)
        fill(partition, 30)
        path = Path(partition.log.directory)
    log_file = min(path.glob("*.log"))
    data = bytearray(log_file.read_bytes())
    data[ONE * 3 - 1] ^= 0xFF
    log_file.write_bytes(data)
    with serving(tmp_path / "2") as other:
        other.partition(segment_bytes=1000)
        [part] = fetched(other.fetch(("t", 0, 0)))
        assert (part.error_code, len(part.records or b"")) == (ErrorCode.NONE, 2 * ONE)
        [part] = fetched(other.fetch(("t", 0, 2)))
        assert (part.error_code, part.high_watermark, part.records) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, b"")


# --- long poll


def test_a_fetch_waits_for_bytes(node: Node) -> None:
    partition = node.partition()
    before = now_ms()
    reply = node.fetch(("t", 0, 0), max_wait_ms=500)
    assert not reply.answered and node.purgatory.parked_count == node.fetch_handler.waiting_entries == 1
    assert before + 500 <= node.purgatory.deadline_ms <= now_ms() + 500
    node.produce(batch())
    node.produce(batch())
    assert not reply.answered
    node.purgatory.drain()
    [part] = fetched(reply)
    assert len(part.records or b"") == 2 * ONE
    assert node.purgatory.parked_count == node.fetch_handler.waiting_entries == 0
    assert partition.high_watermark == 2


def test_a_fetch_waits_for_enough_bytes_up_to_its_limit(node: Node) -> None:
    node.partition("a")
    node.partition("b")
    reply = node.fetch(("a", 0, 0), ("b", 0, 0), max_wait_ms=100, min_bytes=3 * ONE)
    for topic in ("a", "b"):
        node.produce(batch(), topic=topic)
        node.purgatory.drain()
        assert not reply.answered
    node.purgatory.expire(node.purgatory.deadline_ms)
    assert [len(part.records or b"") for part in fetched(reply)] == [ONE, ONE]
    reply = node.fetch(("a", 0, 1), ("b", 0, 1), max_wait_ms=100, min_bytes=3 * ONE)
    for topic in ("a", "b", "a"):
        assert not reply.answered
        node.produce(batch(), topic=topic)
        node.purgatory.drain()
    assert [len(part.records or b"") for part in fetched(reply)] == [2 * ONE, ONE]


def test_nothing_to_wait_for_is_answered_at_once(node: Node) -> None:
    node.partition()
    assert node.fetch(max_wait_ms=500).answered
    assert node.fetch(("t", 0, 0), max_wait_ms=0).answered
    assert node.fetch(("t", 0, 0), max_wait_ms=500, min_bytes=0).answered
    assert node.fetch(("t", 0, 0), ("t", 7, 0), max_wait_ms=500).answered
    assert node.fetch(("t", 0, 3), max_wait_ms=500).answered


def test_changes_of_a_partition_wake_waiting_fetches(node: Node) -> None:
    partition = node.partition()
    fill(partition, 5)

    def waiting(**fields: int) -> object:
        reply = node.fetch(("t", 0, 5), max_wait_ms=500, **fields)  # type: ignore[arg-type]
        assert not reply.answered
        return reply

    # The log is truncated below the offset.
    reply = waiting()
    partition.log.truncate_to(3)
    partition.log_changed()
    node.purgatory.drain()
    assert fetched(reply)[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE  # type: ignore[arg-type]
    # Another broker leads: version 10 may not read from a follower.
    fill(partition, 2)
    reply = waiting(version=10)
    partition.become_follower(1, 7)
    node.purgatory.drain()
    assert fetched(reply)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER  # type: ignore[arg-type]
    partition.become_leader(2, node_id=NODE_ID)
    # The partition is removed from the node.
    reply = waiting()
    node.table.remove("t", 0)
    node.purgatory.drain()
    [part] = fetched(reply)  # type: ignore[arg-type]
    assert (part.error_code, part.aborted_transactions) == (ErrorCode.UNKNOWN_TOPIC_ID, [])
    partition.log.close()


def test_the_last_stable_offset_wakes_readers_of_committed_records(node: Node) -> None:
    partition = node.partition()
    partition.append(batch(3, producer_id=5, producer_epoch=0, base_sequence=0, transactional=True))
    reply = node.fetch(("t", 0, 0), max_wait_ms=500, isolation_level=1, min_bytes=100)
    node.produce(batch())
    node.purgatory.drain()
    assert not reply.answered
    partition.append(control.marker(commit=True, producer_id=5, producer_epoch=0, coordinator_epoch=0,
                                    timestamp_ms=1_700_000_000_000), origin="coordinator")
    node.purgatory.drain()
    [part] = fetched(reply)
    assert (part.last_stable_offset, len(part.records or b"")) == (5, partition.log.size_bytes)


def test_the_flush_wakes_with_group_commit(node: Node) -> None:
    node.partition(durability="group-commit")
    assert node.flusher is not None
    eventfd = node.flusher.eventfd
    reply = node.fetch(("t", 0, 0), max_wait_ms=5000)
    node.produce(batch(), acks=0)
    while not reply.answered:
        assert select.select([eventfd], [], [], 10)[0]
        os.eventfd_read(eventfd)
        node.purgatory.flush_done()
    assert len(fetched(reply)[0].records or b"") == ONE


def test_followers_see_what_is_not_committed_and_move_the_high_watermark(node: Node) -> None:
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
    consumer = node.fetch(("t", 0, 0), max_wait_ms=500)
    follower = node.fetch(("t", 0, 0), max_wait_ms=500, replica_id=2, version=12)
    node.produce(batch())
    node.purgatory.drain()
    assert len(fetched(follower)[0].records or b"") == ONE and not consumer.answered
    assert fetched(node.fetch(("t", 0, 0)))[0].records == b""
    follower = node.fetch(("t", 0, 1), max_wait_ms=500, replica_id=2, version=12)
    node.purgatory.drain()
    assert partition.high_watermark == 1
    assert len(fetched(consumer)[0].records or b"") == ONE


def test_too_many_partitions_that_wait_are_answered_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, waiting_entries_max=2) as node:
        node.partition("a")
        node.partition("b")
        both = node.fetch(("a", 0, 0), ("b", 0, 0), max_wait_ms=500)
        assert not both.answered
        assert node.fetch(("a", 0, 0), max_wait_ms=500).answered
        node.purgatory.expire(node.purgatory.deadline_ms)
        assert both.answered and not node.fetch(("a", 0, 0), max_wait_ms=500).answered


def test_a_waiting_fetch_ends_with_its_connection(tmp_path: Path) -> None:
    """A peer that requests a wait of one day and disconnects must not keep all others from waiting."""
    requested = FetchRequest(max_wait_ms=86_400_000, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=[
        FetchTopic(topic="a", partitions=[FetchPartition(partition=0, partition_max_bytes=1 << 20)])])
    with serving(tmp_path, waiting_entries_max=1) as node:
        node.partition("a")
        bench = Bench()
        bench.channel.serve(ApiKey.FETCH, 4, 18, 12, node.fetch_handler)
        wire = bench.connect()
        wire.feed(request(1, 11, 1, requested.encode(11)))
        assert node.purgatory.parked_count == 1
        bench.end()
        assert not node.fetch(("a", 0, 0), max_wait_ms=500).answered
        assert node.purgatory.parked_count == node.fetch_handler.waiting_entries == 1


# --- bytes


@needs_golden
def test_kafkas_own_frames_get_kafkas_own_answers(tmp_path: Path) -> None:
    """Frames without a session, for one topic: the reply is equal byte for byte."""
    compared = 0
    for number, line in enumerate(golden("wire", "Fetch.jsonl").read_text().splitlines()):
        frame = json.loads(line)
        request, version = bytes.fromhex(frame["request_hex"]), frame["version"]
        if "broker" not in frame["to"] or frame["request"].get("sessionEpoch", -1) != -1:
            continue
        client_bytes = int.from_bytes(request[8:10], "big")
        body = request[10 + client_bytes + (1 if frame["request_header_version"] == 2 else 0):]
        answer = FetchResponse.decode(
            bytes.fromhex(frame["response_hex"])[5 if frame["response_header_version"] == 1 else 4:], version)
        with serving(tmp_path / str(number)) as node:
            (tmp_path / str(number)).mkdir()
            if not prepare(node, body, version, answer):
                continue
            node.correlation_id = frame["correlation_id"] - 1
            reply = node.fetch_body(body, version)
            if not reply.answered:
                node.purgatory.expire(node.purgatory.deadline_ms)
            assert body_of(reply).hex() == frame["response_hex"], f"frame {number}, version {version}"
        compared += 1
    assert compared > 20


def prepare(node: Node, body: bytes, version: int, answer: FetchResponse) -> bool:
    """Create the partitions of the reply as they must have been. Return False when the reply does not determine
    them."""
    request = FetchRequest.decode(body, version)
    for requested, topic in zip(request.topics, answer.responses, strict=True):
        for wanted, part in zip(requested.partitions, topic.partitions, strict=True):
            out_of_range = part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            start = wanted.fetch_offset + 10 if out_of_range else max(part.log_start_offset, 0)
            partition = node.partition(topic.topic or "t", part.partition_index, topic_id=topic.topic_id.bytes,
                                       log_start=start)
            if part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                partition.become_follower(0, 2)
            if part.records:
                partition.log.append_as_follower(part.records)
            missing = part.high_watermark - partition.log.log_end_offset
            if missing > 0:
                partition.append(batch(missing))
            if part.records and missing > 0:
                return False           # Kafka's reply ended before the log did
    return True


def requests(version: int) -> st.SearchStrategy[FetchRequest]:
    def part(index: int, offset: int, current: int, fetched_epoch: int, size: int) -> FetchPartition:
        return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size,
                              current_leader_epoch=current if version >= 9 else -1,
                              last_fetched_epoch=fetched_epoch if version >= 12 else -1)

    def topic(name: str, partitions: list[FetchPartition]) -> FetchTopic:
        return FetchTopic(topic=name if version < 13 else "", partitions=partitions,
                          topic_id=UUID(bytes=topic_id_of(name)) if version >= 13 else UUID(int=0))

    parts = st.builds(part, st.integers(-1, 1), st.integers(-1, 12), st.integers(-1, 1), st.integers(-1, 1),
                      st.sampled_from([0, 1, ONE, 3 * ONE, 1 << 30]))
    topics = st.builds(topic, st.sampled_from(["t", "u", "x"]), st.lists(parts, max_size=3))
    return st.builds(FetchRequest, max_wait_ms=st.just(0), min_bytes=st.integers(-1, 500),
                     max_bytes=st.sampled_from([0, 1, ONE * 2, 1 << 30]), isolation_level=st.integers(0, 1),
                     topics=st.lists(topics, max_size=3))


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_and_replies_agree_with_the_schema(tmp_path_factory: pytest.TempPathFactory, version: int) -> None:
    with serving(tmp_path_factory.mktemp("fetch")) as node:
        for topic in ("t", "u"):
            fill(node.partition(topic), 10)
        stored = read_all(node.table.get("t", 0).log)  # type: ignore[union-attr]

        @given(requests(version))
        def check(request: FetchRequest) -> None:
            parts = fetched(node.fetch_body(request.encode(version), version))
            requested = [(topic, one) for topic in request.topics for one in topic.partitions]
            assert [part.partition_index for part in parts] == [one.partition for _, one in requested]
            left, first = request.max_bytes, True
            for (_, one), part in zip(requested, parts, strict=True):
                records = part.records or b""
                if part.error_code:
                    assert not records
                    continue
                limit = min(left, one.partition_max_bytes)
                room = max(limit // ONE, 1 if first else 0)
                expected = b"" if part.diverging_epoch.epoch >= 0 else stored[
                    one.fetch_offset * ONE:(one.fetch_offset + room) * ONE]
                assert records == expected
                first = first and not records
                left = max(0, left - len(records))

        check()


@pytest.mark.parametrize("version", [4, 7, 11, 12, 13, 15, 18])
def test_cut_off_and_changed_requests_are_refused_or_answered(node: Node, version: int) -> None:
    fill(node.partition(), 2)
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=[FetchTopic(
        topic="t" if version < 13 else "", topic_id=UUID(bytes=topic_id_of("t")) if version >= 13 else UUID(int=0),
        partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)])])
    body = request.encode(version)
    for size in range(len(body)):
        assert node.fetch_body(body[:size], version).refused, size
    for position in range(len(body)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            reply = node.fetch_body(body[:position] + bytes([value]) + body[position + 1:], version)
            assert reply.answered or reply.refused or node.purgatory.parked_count > 0
    node.purgatory.expire(1 << 50)
    assert node.purgatory.parked_count == node.fetch_handler.waiting_entries == 0


def test_counts_that_promise_too_much_and_other_versions_are_refused(node: Node) -> None:
    head = b"\xff\xff\xff\xff" + b"\0\0\0\0" * 3 + b"\0"
    assert node.fetch_body(head + b"\x7f\xff\xff\xff", 4).refused
    assert node.fetch_body(head + b"\0\0\0\1\0\1t\x7f\xff\xff\xff", 4).refused
    assert node.fetch_body(head + b"\xff\xff\xff\xff", 4).refused
    count = 100_001
    body = head + b"\0\0\0\1\0\1t" + count.to_bytes(4, "big") + bytes(16) * count
    assert node.fetch_body(body, 4).refused
    for version in (3, 19, -1):
        assert node.fetch_body(head + b"\0\0\0\0", version).refused


def test_no_python_frame_runs_for_a_fetch_that_succeeds(node: Node) -> None:
    partition = node.partition()
    fill(partition, 10)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, isolation_level=1, topics=[FetchTopic(
        topic_id=UUID(bytes=topic_id_of("t")), partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])])
    body = request.encode(18)
    waiting = request.replace(topics=[FetchTopic(
        topic_id=UUID(bytes=topic_id_of("t")),
        partitions=[FetchPartition(partition=0, fetch_offset=10, partition_max_bytes=1000)])]).encode(18)
    frames: list[str] = []

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            frames.append(frame.f_code.co_qualname)

    replies = [node.reply(1, 18) for _ in range(2000)]
    more = batch()
    body_of(node.fetch_body(body, 18))         # the first read of a segment maps its file
    handle = node.fetch_handler.handle_bytes
    gc.disable()                       # callbacks of the collector, whichever module installed them, are frames too
    sys.setprofile(profile)
    try:
        for reply in replies[:1000]:
            handle(reply, body)
        for reply in replies[1000:]:
            handle(reply, waiting)
        partition.append(more)
        node.purgatory.drain()
    finally:
        sys.setprofile(None)
        gc.enable()
    # The sink takes the place of a connection, which is compiled.
    assert set(frames) == {"Sink.reply_finished"} and len(frames) == 2000
    assert all(fetched(reply)[0].records for reply in replies)
