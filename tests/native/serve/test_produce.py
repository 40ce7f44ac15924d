"""Produce: every version by the schema and by Kafka's own frames, every refusal."""

import errno
import gc
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft_native.batch import control
from kraft_native.batch.batch import CRC_AT, LEADER_EPOCH_AT, LENGTH_AT, MAGIC_AT
from kraft_native.batch.records import BatchBuilder
from kraft_native.file.faults import fail_at
from tests.golden import golden, needs_golden
from tests.native.logs import batch, read_all
from tests.native.serving import (
    NODE_ID,
    Node,
    body_of,
    fetch_response,
    produce_response,
    produced,
    serving,
    topic_id_of,
)

VERSIONS = range(3, 14)


class Led(NamedTuple):
    leader: int
    leader_epoch: int


def elsewhere(partitions: Mapping[int, Led]) -> tuple[int, str, Mapping[int, Led], tuple[()], int]:
    return 3, "t", partitions, (), NODE_ID


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving(tmp_path) as made:
        yield made


# --- appends


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_appends_and_answers(node: Node, version: int) -> None:
    partition = node.partition()
    for base in (0, 3):
        answer = produced(node.produce(batch(3), version=version, acks=-1))
        assert (answer.index, answer.error_code) == (0, ErrorCode.NONE)
        assert (answer.base_offset, answer.log_append_time_ms) == (base, -1)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
        assert answer.record_errors == [] and answer.error_message is None
    assert partition.log.log_end_offset == partition.high_watermark == 6


def test_many_topics_and_partitions_each_have_their_outcome(node: Node) -> None:
    for topic in ("a", "b"):
        for index in range(3):
            node.partition(topic, index)
    request = ProduceRequest(acks=1, timeout_ms=0, topic_data=[
        TopicProduceData(name=topic, partition_data=[
            PartitionProduceData(index=index, records=batch(1 + index) if index != 1 else b"junk")
            for index in (0, 1, 2, 3)])
        for topic in ("a", "nobody", "b")])
    response = produce_response(node.produce_body(request.encode(9), 9))
    assert [topic.name for topic in response.responses] == ["a", "nobody", "b"]
    codes = [[part.error_code for part in topic.partition_responses] for topic in response.responses]
    known = [ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert codes == [known, [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 4, known]
    assert node.table.get("a", 2).log.log_end_offset == 3  # type: ignore[union-attr]


def test_log_append_time_is_returned(node: Node) -> None:
    node.partition(message_timestamp_type="LogAppendTime")
    assert produced(node.produce(batch())).log_append_time_ms > 1_700_000_000_000


def test_a_repeat_of_an_idempotent_batch_succeeds_with_its_first_offset(node: Node) -> None:
    partition = node.partition()
    first = batch(2, producer_id=7, producer_epoch=0, base_sequence=0)
    assert produced(node.produce(first)).base_offset == 0
    assert produced(node.produce(batch(1, producer_id=7, producer_epoch=0, base_sequence=2))).base_offset == 2
    again = produced(node.produce(first, acks=-1))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    gap = produced(node.produce(batch(1, producer_id=7, producer_epoch=0, base_sequence=9)))
    assert (gap.error_code, gap.base_offset, gap.error_message) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, None)
    newer = batch(1, producer_id=7, producer_epoch=1, base_sequence=0)
    older = batch(1, producer_id=7, producer_epoch=0, base_sequence=3)
    assert produced(node.produce(newer)).error_code == ErrorCode.NONE
    assert produced(node.produce(older)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.log.log_end_offset == 4


def test_compression_type_of_the_topic_is_honoured(node: Node) -> None:
    partition = node.partition(compression_type="zstd")
    assert produced(node.produce(batch(50), version=3)).error_code == ErrorCode.NONE
    assert read_all(partition.log)[22] & 7 == 4


# --- refusals


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_topics_and_partitions(node: Node, version: int) -> None:
    node.partition()
    by_id = version >= 13
    assert produced(node.produce(batch(), version=version, topic="unknown")).error_code == (100 if by_id else 3)
    assert produced(node.produce(batch(), version=version, index=4)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produced(node.produce(batch(), version=version, index=-1)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", [12, 13])
def test_replicas_elsewhere_are_refused_as_the_metadata_says(node: Node, version: int) -> None:
    node.partition()
    node.table.set_endpoint(4, "host-4", 9092)
    node.table.explain(lambda key, by_id: elsewhere({2: Led(4, 7)} if (key, by_id) == (
        (topic_id_of("u"), True) if version >= 13 else (b"u", False)) else {}))
    response = produce_response(node.produce(batch(), version=version, topic="u", index=2))
    part = response.responses[0].partition_responses[0]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (4, 7)
    assert [each.host for each in response.node_endpoints] == ["host-4"]
    refused = produced(node.produce(batch(), version=version, index=1))
    assert (refused.error_code, refused.current_leader.leader_id) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)


@pytest.mark.parametrize("version", [15, 16])
def test_consumers_receive_the_leader_of_partitions_elsewhere(node: Node, version: int) -> None:
    node.partition()
    node.table.set_endpoint(4, "host-4", 9092)
    node.table.explain(lambda _key, _by_id: elsewhere({2: Led(4, 7)}))
    response = fetch_response(node.fetch(("u", 2, 0), ("t", 0, 0), ("t", 1, 0), version=version))
    parts = [part for topic in response.responses for part in topic.partitions]
    assert [part.error_code for part in parts] == [
        ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    leaders = [(part.current_leader.leader_id, part.current_leader.leader_epoch) for part in parts]
    nobody = (-1, -1)
    assert leaders == [(4, 7) if version >= 16 else nobody, nobody, nobody]
    assert [each.host for each in response.node_endpoints] == (["host-4"] if version >= 16 else [])


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_other_acks(node: Node, acks: int) -> None:
    partition = node.partition()
    assert produced(node.produce(batch(), acks=acks)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert partition.log.log_end_offset == 0


@pytest.mark.parametrize(("records", "code"), [
    (None, ErrorCode.INVALID_RECORD), (b"", ErrorCode.INVALID_RECORD), (batch()[:-1], ErrorCode.INVALID_RECORD),
    (batch() + batch(), ErrorCode.INVALID_RECORD),
    (batch()[:LENGTH_AT] + b"\0\0\0\5" + batch()[LEADER_EPOCH_AT:], ErrorCode.CORRUPT_MESSAGE),
    (batch()[:MAGIC_AT] + b"\1" + batch()[CRC_AT:], ErrorCode.INVALID_RECORD),
    (batch()[:MAGIC_AT] + b"\3" + batch()[CRC_AT:], ErrorCode.CORRUPT_MESSAGE),
    (batch()[:-1] + b"\xff", ErrorCode.CORRUPT_MESSAGE), (batch(base_offset=5), ErrorCode.INVALID_RECORD),
    (batch(producer_id=3, producer_epoch=0), ErrorCode.INVALID_RECORD),
    (control.control_batch([(2, b"\0\0")], timestamp_ms=1), ErrorCode.INVALID_RECORD),
])
@pytest.mark.parametrize("version", [7, 8, 9, 13])
def test_refused_batches_change_nothing(node: Node, records: bytes | None, code: int, version: int) -> None:
    partition = node.partition()
    answer = produced(node.produce(records, version=version))
    assert (answer.error_code, answer.base_offset) == (code, -1)
    if version >= 8 and code == ErrorCode.INVALID_RECORD:
        assert answer.error_message
    assert partition.log.log_end_offset == 0


def test_bytes_after_a_batch_are_dropped_as_kafka_does(node: Node) -> None:
    partition = node.partition()
    assert produced(node.produce(batch() + b"\0" * 11)).error_code == ErrorCode.NONE
    assert len(read_all(partition.log)) == len(batch())


@pytest.mark.parametrize("version", [8, 9, 13])
def test_single_records_at_fault_are_named(node: Node, version: int) -> None:
    node.partition(cleanup_policy="compact")
    builder = BatchBuilder("none")
    for key in (b"key", None, b"key", None):
        builder.append(b"value", key, 1_700_000_000_000)
    answer = produced(node.produce(builder.build(0), version=version))
    assert answer.error_code == ErrorCode.INVALID_RECORD and answer.error_message and answer.log_start_offset == 0
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert all(error.batch_index_error_message for error in answer.record_errors)


def test_named_records_are_bounded_and_the_answer_is_no_larger_than_its_request(node: Node) -> None:
    node.partition(cleanup_policy="compact")
    builder = BatchBuilder("none")
    for _ in range(5_000):
        builder.append(b"value", None, 1_700_000_000_000)
    data = builder.build(0)
    answer = produced(node.produce(data))
    assert [error.batch_index for error in answer.record_errors] == list(range(100))
    assert answer.error_message.startswith("5000 of 5000 records are refused: ")
    assert answer.error_message.endswith("; the first 100 are named one by one")
    whole = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(
        name="t", partition_data=[PartitionProduceData(index=0, records=data)] * 30)])
    found = produce_response(node.produce_body(whole.encode(12), 12)).responses[0].partition_responses
    assert [len(each.record_errors) for each in found] == [100] * 10 + [0] * 20
    assert all(each.error_message for each in found)


def test_the_log_start_is_returned_where_kafka_returns_it(node: Node) -> None:
    """Errors of the batch itself come without the log start."""
    node.partition(max_message_bytes=200)
    right, gap = batch(), batch(producer_id=9, producer_epoch=0, base_sequence=0)
    assert produced(node.produce(gap)).error_code == ErrorCode.NONE
    gap = batch(producer_id=9, producer_epoch=0, base_sequence=7)
    damaged = right[:-1] + bytes([right[-1] ^ 1])
    answered = {name: produced(node.produce(data)) for name, data in {
        "gap": gap, "late": batch(timestamp_ms=9_000_000_000_000), "none": b"", "two": right + right,
        "old": right[:MAGIC_AT] + b"\1" + right[CRC_AT:], "damaged": damaged, "large": batch(100)}.items()}
    assert {name: (each.error_code, each.log_start_offset) for name, each in answered.items()} == {
        "gap": (45, 0), "late": (32, 0), "none": (87, -1), "two": (87, -1), "old": (87, -1), "damaged": (2, -1),
        "large": (10, -1)}


def test_times_and_sizes_out_of_range(node: Node) -> None:
    node.partition(max_message_bytes=200)
    assert produced(node.produce(batch(100))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    late = produced(node.produce(batch(timestamp_ms=9_000_000_000_000)))
    assert late.error_code == ErrorCode.INVALID_TIMESTAMP and late.record_errors[0].batch_index == 0


def test_zstd_needs_version_7(node: Node) -> None:
    node.partition()
    refused = produced(node.produce(batch(20, codec="zstd"), version=6))
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produced(node.produce(batch(20, codec="zstd"), version=7)).error_code == ErrorCode.NONE


def test_transactional_batches(node: Node) -> None:
    partition = node.partition()
    begin = batch(producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    following = batch(producer_id=9, producer_epoch=0, base_sequence=1, transactional=True)
    assert produced(node.produce(begin)).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert produced(node.produce(begin, version=11, transactional_id="x")).error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert produced(node.produce(begin, version=10, transactional_id="x")).error_code == ErrorCode.INVALID_TXN_STATE
    partition.append(begin)
    assert produced(node.produce(following, transactional_id="x")).error_code == ErrorCode.NONE


def test_internal_topics_are_not_for_clients(node: Node) -> None:
    node.partition("__consumer_offsets")
    assert produced(node.produce(batch(), topic="__consumer_offsets")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    answer = produced(node.produce(batch(), topic="__consumer_offsets", client_id=b"__admin_client"))
    assert answer.error_code == ErrorCode.NONE


def test_only_brokers_write_to_the_topic_of_the_audit(node: Node) -> None:
    partition = node.partition("__kraft_audit")
    for client_id in (b"__admin_client", b"writer"):       # nobody is known to be a broker
        refused = produced(node.produce(batch(), topic="__kraft_audit", client_id=client_id))
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    node.produce_handler.is_audit_writer = lambda client_id: client_id == b"writer"
    codes = [produced(node.produce(batch(), topic="__kraft_audit", client_id=client_id)).error_code
             for client_id in (b"writer", b"__admin_client", b"another")]
    assert codes == [ErrorCode.NONE, *[ErrorCode.INVALID_TOPIC_EXCEPTION] * 2]
    assert partition.log.log_end_offset == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_the_current_leader_is_returned(node: Node, version: int) -> None:
    node.table.set_endpoint(2, "host-2", 9092, "rack")
    node.table.set_endpoint(3, "host-3", 9093)
    node.partition().become_follower(4, 2)
    response = produce_response(node.produce(batch(), version=version))
    part = response.responses[0].partition_responses[0]
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    answered = (part.current_leader.leader_id, part.current_leader.leader_epoch)
    assert answered == ((2, 4) if version >= 10 else (-1, -1))
    nodes = [(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
    assert nodes == ([(2, "host-2", 9092, "rack")] if version >= 10 else [])
    node.table.reports_endpoints = False      # they belong to another listener than the client's
    response = produce_response(node.produce(batch(), version=version))
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert response.node_endpoints == []


def test_without_acknowledgement_success_is_silent_and_failure_closes(node: Node) -> None:
    partition = node.partition()
    assert node.produce(batch(), acks=0).skipped
    assert partition.log.log_end_offset == 1
    assert node.produce(batch(), acks=0, topic="unknown").refused
    assert node.produce(b"junk", acks=0).refused


def test_min_insync_replicas(node: Node) -> None:
    partition = node.partition(min_insync_replicas=2, high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2, 3], isr=[1])
    assert produced(node.produce(batch(), acks=-1)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produced(node.produce(batch(), acks=1)).error_code == ErrorCode.NONE
    assert partition.log.log_end_offset == 1


def test_a_log_that_failed_answers_storage_error(node: Node) -> None:
    partition = node.partition(durability="per-append")
    with fail_at(1, error=errno.EIO, kinds=frozenset({"datasync"})):
        assert produced(node.produce(batch())).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produced(node.produce(batch())).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.log.failure is not None


# --- bytes


@needs_golden
def test_kafkas_own_frames_get_kafkas_own_answers(tmp_path: Path) -> None:
    """The request as a client sent it, on a log brought to where Kafka's was; the reply is equal byte for byte."""
    compared = 0
    for number, line in enumerate(golden("wire", "Produce.jsonl").read_text().splitlines()):
        frame = json.loads(line)
        request = bytes.fromhex(frame["request_hex"])
        version, client_bytes = frame["version"], int.from_bytes(request[8:10], "big")
        body = request[10 + client_bytes + (1 if frame["request_header_version"] == 2 else 0):]
        with serving(tmp_path / str(number)) as node:
            prepare(node, frame)
            node.correlation_id = frame["correlation_id"] - 1
            reply = node.produce_body(body, version)
            assert body_of(reply).hex() == frame["response_hex"], f"frame {number}, version {version}"
        compared += 1
    assert compared > 20


def prepare(node: Node, frame: dict[str, object]) -> None:
    """Create the partitions of the frame's reply as they must have been."""
    header = 5 if frame["response_header_version"] == 1 else 4
    version = int(frame["version"])  # type: ignore[call-overload]
    answer = ProduceResponse.decode(bytes.fromhex(str(frame["response_hex"]))[header:], version)
    for endpoint in answer.node_endpoints:
        node.table.set_endpoint(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack)
    node.directory.mkdir()
    for topic in answer.responses:
        for part in topic.partition_responses:
            if part.error_code == ErrorCode.UNKNOWN_TOPIC_ID or (
                    part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and version < 13):
                continue
            if part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                node.partition(topic.name or "t", part.index + 1, topic_id=topic.topic_id.bytes)
                continue
            start = max(part.log_start_offset, 0)
            partition = node.partition(topic.name or "t", part.index, topic_id=topic.topic_id.bytes, log_start=start)
            if part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                known = part.current_leader.leader_id >= 0
                partition.become_follower(part.current_leader.leader_epoch if known else 0,
                                          part.current_leader.leader_id)
            elif part.base_offset > start:
                partition.append(batch(part.base_offset - start))


def requests(version: int) -> st.SearchStrategy[ProduceRequest]:
    names = st.sampled_from(["t", "u", "unknown", ""])
    records = st.sampled_from([batch(), batch(3), b"junk", b"", None])
    parts = st.lists(st.builds(PartitionProduceData, index=st.integers(-1, 2), records=records), max_size=4)

    def topic(name: str, partition_data: list[PartitionProduceData]) -> TopicProduceData:
        return TopicProduceData(name=name if version < 13 else "", topic_id=UUID(bytes=topic_id_of(name)),
                                partition_data=partition_data)

    return st.builds(ProduceRequest, transactional_id=st.sampled_from([None, "", "x"]), acks=st.sampled_from([1, -1]),
                     timeout_ms=st.integers(-1, 1000),
                     topic_data=st.lists(st.builds(topic, names, parts), max_size=3))


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_and_replies_agree_with_the_schema(tmp_path_factory: pytest.TempPathFactory, version: int) -> None:
    with serving(tmp_path_factory.mktemp("produce")) as node:
        node.partition("t", 0)
        node.partition("u", 1)

        @given(requests(version))
        def check(request: ProduceRequest) -> None:
            response = produce_response(node.produce_body(request.encode(version), version))
            assert [[part.index for part in topic.partition_responses] for topic in response.responses] == [
                [part.index for part in topic.partition_data] for topic in request.topic_data]
            for requested, answered in zip(request.topic_data, response.responses, strict=True):
                known = requested.name in ("t", "u") if version < 13 else requested.topic_id.bytes in (
                    topic_id_of("t"), topic_id_of("u"))
                for sent, part in zip(requested.partition_data, answered.partition_responses, strict=True):
                    hosted = known and sent.index == (
                        0 if (requested.name or "") == "t" or requested.topic_id.bytes == topic_id_of("t") else 1)
                    good = sent.records in (batch(), batch(3))
                    expected = (0 if good else 87) if hosted else 100 if version >= 13 and not known else 3
                    assert part.error_code == expected

        check()


@pytest.mark.parametrize("version", [3, 8, 9, 13])
def test_cut_off_and_changed_requests_are_refused_or_answered(node: Node, version: int) -> None:
    """A request cut at any byte is refused, and nothing of it is appended; any changed byte is survived."""
    partition = node.partition()
    request = ProduceRequest(acks=1, timeout_ms=5, topic_data=[
        TopicProduceData(name="t" if version < 13 else "", topic_id=UUID(bytes=topic_id_of("t")),
                         partition_data=[PartitionProduceData(index=0, records=batch())])])
    body = request.encode(version)
    for size in range(len(body)):
        assert node.produce_body(body[:size], version).refused, size
    assert partition.log.log_end_offset == 0
    for position in range(len(body)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            changed = body[:position] + bytes([value]) + body[position + 1:]
            reply = node.produce_body(changed, version)
            assert reply.answered or reply.refused or reply.skipped


def test_other_versions_are_refused(node: Node) -> None:
    for version in (2, 14, -1, 32767):
        assert node.produce_body(b"\xff\xff\0\1\0\0\0\0\0\0\0\0", version).refused


def test_counts_that_promise_too_much_are_refused_without_memory(node: Node) -> None:
    head = b"\xff\xff\0\1\0\0\0\0"
    assert node.produce_body(head + b"\x7f\xff\xff\xff", 3).refused
    assert node.produce_body(head + b"\0\0\0\1\0\1t\x7f\xff\xff\xff", 3).refused
    assert node.produce_body(head + b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\x7f\xff\xff\xff", 3).refused
    # 100,001 empty partitions: more than one request may have.
    count = 100_001
    body = head + b"\0\0\0\1\0\1t" + count.to_bytes(4, "big") + b"\0\0\0\0\xff\xff\xff\xff" * count
    assert node.produce_body(body, 3).refused


def test_no_python_frame_runs_for_a_produce_that_succeeds(node: Node) -> None:
    node.partition()
    answer = produced(node.produce(batch()))        # the first record of an epoch writes the epoch file
    assert answer.error_code == ErrorCode.NONE
    request = ProduceRequest(acks=-1, timeout_ms=0, topic_data=[
        TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch())])])
    body = request.encode(12)
    frames: list[str] = []

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            frames.append(frame.f_code.co_qualname)

    replies = [node.reply(0, 12) for _ in range(1000)]
    handle = node.produce_handler.handle_bytes
    gc.disable()                       # callbacks of the collector, whichever module installed them, are frames too
    sys.setprofile(profile)
    try:
        for reply in replies:
            handle(reply, body)
    finally:
        sys.setprofile(None)
        gc.enable()
    # The sink takes the place of a connection, which is compiled.
    assert set(frames) == {"Sink.reply_finished"} and len(frames) == 1000
    assert all(produced(reply).error_code == ErrorCode.NONE for reply in replies)


@pytest.mark.parametrize("name", [
    b"\xc3\x28", b"\xff", b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\xe2\x82"])
@pytest.mark.parametrize("version", [7, 9])
def test_names_that_are_no_text_are_refused(node: Node, name: bytes, version: int) -> None:
    """They would come back in the reply, where no client could decode them."""
    body = ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name="x" * len(name))]).encode(version)
    assert node.produce_body(body, version).answered
    assert node.produce_body(body.replace(b"x" * len(name), name), version).refused


def test_names_in_any_script_are_answered(node: Node) -> None:
    for name in ("caf\u00e9", "\u4e2d\u6587", "\U0001f600", "\ud7ff\ue000", "\U0010ffff"):
        assert node.produce_body(ProduceRequest(
            acks=1, timeout_ms=100, topic_data=[TopicProduceData(name=name)]).encode(9), 9).answered
