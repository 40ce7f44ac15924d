"""Messages encoded in steps equal those encoded at once: every message, every version; long ones yield often."""

import random
from collections.abc import Generator
from typing import TypeVar
from uuid import UUID

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import MessageSizeError
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kraft.protocol.messages.end_txn_response import EndTxnResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kraft.protocol.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from kraft_native.base.errors import InvalidArgumentError, MalformedMessageError, UnsupportedVersionError
from kraft_native.base.wire import CommonStructs, WireReader, WireWriter
from kraft_native.base.wire_steps import array_steps, nested_steps, short_codes, structs_steps
from tests.protocol.json_form import schemas
from tests.protocol.samples import sample

T = TypeVar("T")
MANY = 10_000


def run(work: Generator[None, None, T]) -> tuple[T, int]:
    """Run the generator; return its result and the number of yields."""
    count = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, count
        count += 1


def test_every_message_is_the_same_in_steps() -> None:
    source = random.Random(5)
    for schema in schemas().values():
        for version in range(schema.versions.first, schema.versions.last + 1):
            message = sample(schema, version, source)
            data = message.encode(version)
            assert b"".join(run(message.encode_steps(version))[0]) == data, (schema.name, version)
            assert run(type(message).decode_steps(data, version, 1000))[0] == message, (schema.name, version)


@pytest.mark.parametrize("topics", [1, 16, 17, 100, MANY])
def test_long_messages_are_the_same_in_steps_and_give_way(topics: int) -> None:
    parts = MANY // topics
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=f"t{topic}", partitions=[
        ListOffsetsPartition(partition_index=index) for index in range(parts)]) for topic in range(topics)])
    data = request.encode(11)
    made, written = run(request.encode_steps(11))
    assert b"".join(made) == data
    decoded, read = run(ListOffsetsRequest.decode_steps(data, 11, 10 * MANY))
    assert decoded == request
    assert written >= MANY / 128 and read >= MANY / 128


def test_a_nullable_struct_gives_way_for_its_arrays() -> None:
    request = StreamsGroupHeartbeatRequest(topology=Topology(subtopologies=[
        Subtopology(subtopology_id="0", source_topics=["topic"] * MANY)]))
    decoded, read = run(StreamsGroupHeartbeatRequest.decode_steps(request.encode(0), 0, 2 * MANY))
    assert decoded == request
    assert read >= MANY / 512


def test_a_tag_gives_way_for_its_array() -> None:
    request = BrokerHeartbeatRequest(offline_log_dirs=[UUID(int=number) for number in range(MANY)])
    decoded, read = run(BrokerHeartbeatRequest.decode_steps(request.encode(2), 2, 2 * MANY))
    assert decoded == request
    assert read >= MANY / 512


def test_fields_after_a_long_array_stay_after_it() -> None:
    partitions = [MetadataResponsePartition(partition_index=index, replica_nodes=[1, 2, 3]) for index in range(100)]
    response = MetadataResponse(
        topics=[MetadataResponseTopic(name=f"t{number}", partitions=partitions[:number], topic_authorized_operations=7)
                for number in range(100)], cluster_id="last", cluster_authorized_operations=9)
    assert b"".join(run(response.encode_steps(10))[0]) == response.encode(10)


class CountedConfig(CreatableTopicConfigs):
    """A setting that counts how often it is written."""

    __slots__ = ("written",)
    written: int

    def write(self, w: WireWriter, version: int) -> None:
        self.written += 1
        super().write(w, version)


def settings(count: int, size: int = 5) -> list[CreatableTopicConfigs]:
    found = [CountedConfig(name=f"name{number}", value="v" * size) for number in range(count)]
    for each in found:
        each.written = 0
    return list(found)


def test_an_array_that_messages_have_in_common_is_encoded_once() -> None:
    common = CommonStructs(settings(33))
    result, other = CreatableTopicResult(name="t"), CreatableTopicResult(name="t", configs=list(common))
    result.configs = common
    messages = [CreateTopicsResponse(topics=[each]) for each in (result, other)]
    assert messages[0] == messages[1]
    for version in (7, 6, 7):
        expected = messages[1].encode(version)
        before = common[0].written
        assert messages[0].encode(version) == expected
        assert b"".join(run(messages[0].encode_steps(version))[0]) == expected
        assert common[0].written - before == 1, "once for each form"
    assert short_codes(messages[0], 1) == [], "its structs are not counted"


def test_arrays_inside_common_structs_are_part_of_them() -> None:
    many = [MetadataResponsePartition(partition_index=number) for number in range(40)]
    topics = [MetadataResponseTopic(name=f"t{number}", partitions=many) for number in range(3)]
    plain, message = MetadataResponse(topics=topics), MetadataResponse()
    message.topics = CommonStructs(topics)
    for _ in range(2):
        assert b"".join(run(message.encode_steps(12))[0]) == plain.encode(12)


def test_parts_are_large() -> None:
    request = FindCoordinatorRequest(coordinator_keys=["key" * 50] * MANY)
    response = MetadataResponse(topics=[MetadataResponseTopic(name="n" * 200) for _ in range(MANY)])
    assert len(run(request.encode_steps(6))[0]) == 1
    parts, _ = run(response.encode_steps(12))
    assert len(parts) == -(-sum(map(len, parts)) // (512 * 1024 - 8 * 1024))


def test_too_many_elements_are_malformed() -> None:
    data = FindCoordinatorRequest(coordinator_keys=["k"] * 1001).encode(6)
    with pytest.raises(MalformedMessageError, match=r"FindCoordinatorRequest version 6: more array elements and tags"):
        run(FindCoordinatorRequest.decode_steps(data, 6, 1000))
    assert len(run(FindCoordinatorRequest.decode_steps(data, 6, 1001))[0].coordinator_keys) == 1001


def test_unwritable_values_are_refused_as_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="ListOffsetsRequest version 11"):
        run(ListOffsetsRequest(replica_id=1 << 40).encode_steps(11))
    with pytest.raises(UnsupportedVersionError, match="not 99"):
        run(ListOffsetsRequest().encode_steps(99))
    with pytest.raises(UnsupportedVersionError, match="not 99"):
        run(ListOffsetsRequest.decode_steps(b"", 99, 1))


def test_null_is_refused_where_an_array_must_be() -> None:
    for work in (array_steps(WireReader(b"\0", True), None), structs_steps(WireReader(b"\0", True), None, 0),
                 nested_steps(WireReader(b"\0", True), None, 0)):    # type: ignore[arg-type]
        with pytest.raises(MalformedMessageError, match="null before byte 1"):
            run(work)


def test_a_struct_has_a_thousand_tags_at_most() -> None:
    tags = b"".join(bytes([0x80 | number & 0x7F, number >> 7 | 0x10, 0]) for number in range(1025))
    data = FindCoordinatorRequest().encode(6)[:-1] + bytes([0x81, 0x08]) + tags
    with pytest.raises(MalformedMessageError, match="1025 tags"):
        FindCoordinatorRequest.decode(data, 6)


def test_a_message_that_is_too_large_is_not_made_to_its_end() -> None:
    response = MetadataResponse(topics=[MetadataResponseTopic(name="n" * 200) for _ in range(MANY)])
    size = len(response.encode(12))
    made, steps = run(response.encode_steps(12, size))
    assert sum(map(len, made)) == size
    work = response.encode_steps(12, 1 << 20)
    with pytest.raises(MessageSizeError, match="MetadataResponse version 12 has more than 1048576 bytes"):
        run(work)
    assert size > 2_000_000 and steps > 100


def test_codes_of_short_messages_are_found_at_any_depth() -> None:
    partitions = [ListOffsetsPartitionResponse(partition_index=index, error_code=code)
                  for index, code in enumerate((0, 3, 6))]
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)] * 2)
    assert short_codes(response, 8) == [3, 6, 3, 6]
    assert short_codes(response, 7) is None
    assert short_codes(EndTxnResponse(), 0) == []
    assert short_codes(EndTxnResponse(error_code=ErrorCode.NOT_COORDINATOR), 0) == [ErrorCode.NOT_COORDINATOR]


def test_values_without_codes_count_as_elements_too() -> None:
    topic = MetadataResponseTopic(partitions=[MetadataResponsePartition(replica_nodes=list(range(10)))])
    assert short_codes(MetadataResponse(topics=[topic]), 12) == []
    assert short_codes(MetadataResponse(topics=[topic]), 11) is None
