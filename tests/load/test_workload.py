"""Workloads: refused ones, and positions that are where the codecs put the fields."""

import struct
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kraft.client import ConnectionFailedError, RefusedError
from kraft.load import workload as parts
from kraft.load.errors import InvalidWorkloadError
from kraft.load.places import Part, open_all, producers, readers
from kraft.load.workload import Place, Workload
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import encode_request_header, encode_response_header
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.alter_client_quotas_response import EntryData as AnswerEntry
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.produce_request import ProduceRequest
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kraft_native.batch.batch import first_batch
from kraft_native.batch.records import records
from kraft_native.bench.load_generator import Load

PLACE = Place("a-topic", 0, 1)


class FakeSocket:
    def fileno(self):
        return 7


class FakeConnection:
    """A connection that was never opened: it returns versions and frames."""

    socket = FakeSocket()

    def __init__(self, version):
        self.fixed = version

    def version(self, api_key, at_most=None):
        return min(self.fixed, at_most)

    def frame(self, request, version, correlation_id=0):
        api = API_BY_KEY[request.API_KEY]
        content = encode_request_header(api, version, correlation_id, "test") + request.encode(version)
        return len(content).to_bytes(4, "big") + content


@pytest.mark.parametrize(("options", "says"), [
    ({"kind": "destroy"}, "kind"),
    ({"connections": 0}, "connections"),
    ({"record_bytes": 7}, "record_bytes"),
    ({"acks": 2}, "acks"),
    ({"acks": 0}, "acks"),
    ({"rate": -1.0}, "rate"),
    ({"kind": "fetch", "in_flight": 2}, "in_flight"),
    ({"groups": 2}, "groups"),
    ({"kind": "fetch", "spread": True}, "spread"),
    ({"topics": 0}, "topics"),
    ({"pool": 10_001}, "pool"),
    ({"random_share": 1.5}, "random_share"),
    ({"payload_file": "a", "payload_lengths": "b"}, "payload_lengths"),
    ({"keys": "some"}, "keys"),
    ({"kind": "end-to-end", "codec": "lz4"}, "codec"),
])
def test_options_that_do_not_fit_are_named(options, says):
    with pytest.raises(InvalidWorkloadError, match=f"^{says}: "):
        Workload(**({"kind": "produce"} | options))


@pytest.mark.parametrize(("record_bytes", "batch_bytes", "count"), [
    (100, 0, 1), (100, 16_384, 145), (1024, 1 << 20, 1012),
])
def test_a_batch_has_about_the_requested_size(record_bytes, batch_bytes, count):
    workload = Workload("produce", record_bytes=record_bytes, batch_bytes=batch_bytes)
    [batch] = workload.batches(PLACE)
    assert first_batch(batch.data).record_count == workload.records_per_batch == batch.records == count
    assert not batch_bytes or 0.9 * batch_bytes < len(batch.data) <= batch_bytes
    assert [batch] == workload.batches(PLACE)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_made_with_every_codec(codec):
    [batch] = Workload("produce", batch_bytes=4096, codec=codec).batches(PLACE)
    assert {len(record.value) for record in records(first_batch(batch.data))} == {100}


@pytest.mark.parametrize("version", range(3, 13))
def test_the_error_code_of_a_produce_is_found_in_every_version(version):
    spec = parts.produce_spec(Workload("produce", topic="a-topic"), FakeConnection(version), [Place("a-topic", 5, 6)])
    part = PartitionProduceResponse(index=5, error_code=ErrorCode.REQUEST_TIMED_OUT, base_offset=1 << 40)
    answer = ProduceResponse(responses=[TopicProduceResponse(name="a-topic", partition_responses=[part])])
    reply = encode_response_header(API_BY_KEY[ApiKey.PRODUCE], version, 0) + answer.encode(version)
    assert struct.unpack_from(">h", reply, spec.error_position) == (7,)


@pytest.mark.parametrize("version", range(4, 12))
def test_the_fields_of_a_fetch_are_found_in_every_version(version):
    spec = parts.fetch_spec(Workload("fetch", topic="a-topic"), FakeConnection(version), Place("a-topic", 2, 3), 77)
    assert struct.unpack_from(">q", spec.frame, 4 + spec.fetch_offset_position) == (0,)
    part = PartitionData(partition_index=2, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                         aborted_transactions=None, records=b"abcdefgh")
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="a-topic", partitions=[part])])
    reply = encode_response_header(API_BY_KEY[ApiKey.FETCH], version, 0) + answer.encode(version)
    assert struct.unpack_from(">h", reply, spec.error_position) == (3,)
    assert reply[spec.records_position:] == b"\0\0\0\x08abcdefgh"


def test_a_fetch_reads_with_the_isolation_of_the_workload():
    frames = {committed: parts.fetch_spec(Workload("fetch", topic="a-topic", committed=committed), FakeConnection(11),
                                          PLACE, 0).frame for committed in (False, True)}
    isolation_position = next(place for place, (one, other) in enumerate(zip(frames[False], frames[True], strict=True))
                              if one != other)
    assert (frames[False][isolation_position], frames[True][isolation_position]) == (0, 1)
    assert frames[False][isolation_position + 1:] == frames[True][isolation_position + 1:]


def test_a_stamp_lies_inside_the_first_value():
    workload = Workload("end-to-end", record_bytes=40, batch_bytes=500)
    spec = parts.produce_spec(workload, FakeConnection(9), [PLACE], stamped=True)
    Load([spec])  # accepts the positions
    batch = spec.frame[4 + spec.batch_position:][:spec.batch_bytes]
    assert [batch] == [each.data for each in workload.batches(PLACE, stamped=True)]
    first = next(iter(records(first_batch(batch))))
    assert batch[spec.stamp_position:].startswith(first.value)
    body = spec.frame[4 + len(encode_request_header(API_BY_KEY[ApiKey.PRODUCE], 9, 0, "test")):]
    assert ProduceRequest.decode(body, 9).acks == 1


@pytest.mark.parametrize("version", [0, 1])
def test_a_commit_changes_a_limit_each_time(version):
    """The number that the generator writes is the lower half of the limit, so that no two limits are equal."""
    spec = parts.commit_spec(Workload("commit"), FakeConnection(version), "nobody")
    limits = []
    for number in (0, 1, 2**32 - 1):
        frame = bytearray(spec.frame)
        struct.pack_into(">I", frame, 4 + spec.counter_position, number)
        body = bytes(frame[4 + len(encode_request_header(API_BY_KEY[ApiKey.ALTER_CLIENT_QUOTAS], version, 0, "test")):])
        [entry] = AlterClientQuotasRequest.decode(body, version).entries
        assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("client-id", "nobody")]
        limits.append(entry.ops[0].value)
    assert 1024 == limits[0] < limits[1] < limits[2] < 1025
    answer = AlterClientQuotasResponse(entries=[AnswerEntry(error_code=ErrorCode.INVALID_REQUEST)])
    reply = encode_response_header(API_BY_KEY[ApiKey.ALTER_CLIENT_QUOTAS], version, 0) + answer.encode(version)
    assert struct.unpack_from(">h", reply, spec.error_position) == (ErrorCode.INVALID_REQUEST,)


def test_an_open_loop_spreads_its_rate_over_connections():
    assert Workload("ping", connections=4, rate=1000).interval_ns == 4_000_000
    assert Workload("ping").interval_ns == 0


class FakeCluster:
    """Topics by name: the leader of each partition. A connection is the leader's address, as text."""

    def __init__(self, **leaders: list[int]) -> None:
        self.leaders = leaders
        self.left = 100
        self.closed: list[str] = []

    def nodes(self) -> list[Any]:
        return [SimpleNamespace(node_id=number, host="host", port=number) for number in (1, 2, 3)]

    def topic(self, name: str) -> Any:
        return SimpleNamespace(partitions=[SimpleNamespace(partition_index=index, leader_id=leader)
                                           for index, leader in reversed(list(enumerate(self.leaders[name])))])

    def connect(self, host: str, port: int) -> Any:
        self.left -= 1
        if self.left < 0:
            raise ConnectionFailedError("no more")
        return SimpleNamespace(name=f"{host}:{port}", close=lambda: self.closed.append(f"{host}:{port}"))


def test_connections_have_one_partition_each_round_robin() -> None:
    cluster: Any = FakeCluster(t=[1, 2, 1])
    workload = Workload("produce", connections=5, topic="t")
    opened = open_all(producers(workload, cluster), cluster)
    assert [(each.connection.name, each.places, each.share) for each in opened] == [  # type: ignore[attr-defined]
        (f"host:{leader}", (Place("t", number, 3),), 0.2)
        for leader, number in ((1, 0), (2, 1), (1, 2), (1, 0), (2, 1))]


def test_several_topics_are_loaded_evenly() -> None:
    cluster: Any = FakeCluster(**{f"t-{number:02}": [1, 2] for number in range(11)})
    workload = Workload("produce", connections=11, topic="t", topics=11)
    assert [each.places[0] for each in producers(workload, cluster)] == [
        Place(f"t-{number:02}", 0, 2) for number in range(11)]
    with pytest.raises(InvalidWorkloadError, match=r"^connections: 2 is below 3, the number of topics"):
        Workload("produce", connections=2, topics=3)


def test_a_spread_producer_is_connected_to_each_broker() -> None:
    """The share of a broker is that of the topic's partitions which it leads."""
    cluster: Any = FakeCluster(**{"t-0": [1, 1, 2, 1], "t-1": [3, 3, 3, 3]})
    workload = Workload("produce", connections=3, topic="t", topics=2, spread=True, rate=90)
    wanted = producers(workload, cluster)
    assert [(each.leader, each.places[0].topic, [place.partition for place in each.places]) for each in wanted] == [
        (1, "t-0", [0, 1, 3]), (2, "t-0", [2]), (3, "t-1", [0, 1, 2, 3]), (1, "t-0", [0, 1, 3]), (2, "t-0", [2])]
    assert [each.share for each in wanted] == pytest.approx([1 / 4, 1 / 12, 1 / 3, 1 / 4, 1 / 12])
    spec = parts.produce_spec(workload, FakeConnection(9), wanted[1].places, share=wanted[1].share)
    assert (spec.interval_ns, len(spec.more)) == (round(1e9 / 7.5), 0)
    spec = parts.produce_spec(workload, FakeConnection(9), wanted[0].places, share=wanted[0].share)
    assert [partition_of(frame) for frame in (spec.frame, *(each.frame for each in spec.more))] == [0, 1, 3]


def partition_of(frame):
    body = frame[4 + len(encode_request_header(API_BY_KEY[ApiKey.PRODUCE], 9, 0, "test")):]
    [topic] = ProduceRequest.decode(body, 9).topic_data
    [part] = topic.partition_data
    return part.index


def test_a_pool_is_sent_to_one_partition_after_the_other() -> None:
    workload = Workload("produce", spread=True, keys="random:50", pool=2)
    spec = parts.produce_spec(workload, FakeConnection(9), [Place("t", number, 3) for number in range(3)])
    frames = [spec.frame, *(each.frame for each in spec.more)]
    assert [partition_of(frame) for frame in frames] == [0, 1, 2, 0, 1, 2]
    assert len(set(frames)) == 6


def test_every_group_reads_each_partition_that_is_sent_to() -> None:
    cluster: Any = FakeCluster(t=[1, 2, 3])
    workload = Workload("end-to-end", connections=4, topic="t", groups=2)
    assert [each.places[0].partition for each in readers(workload, cluster)] == [0, 1, 2, 0, 1, 2]
    assert [each.places[0].partition for each in readers(replace(workload, connections=2), cluster)] == [0, 1, 0, 1]
    with pytest.raises(InvalidWorkloadError, match=r"^groups: 900 of 12 partitions are more than 10000 readers"):
        readers(replace(workload, groups=900, connections=12), FakeCluster(t=[1] * 12))  # type: ignore[arg-type]


def test_each_process_opens_its_part_of_the_connections() -> None:
    cluster: Any = FakeCluster(t=[1, 2, 3])
    wanted = producers(Workload("produce", connections=7, topic="t"), cluster)
    parts_ = [[each.places[0].partition for each in open_all(wanted, cluster, Part(first, 3))] for first in range(3)]
    assert parts_ == [[0, 0, 0], [1, 1], [2, 2]]


def test_no_connection_stays_open_after_an_error() -> None:
    cluster: Any = FakeCluster(t=[1, 2, 3])
    cluster.left = 2
    workload = Workload("produce", connections=3, topic="t")
    with pytest.raises(ConnectionFailedError):
        open_all(producers(workload, cluster), cluster)
    assert cluster.closed == ["host:1", "host:2"]
    cluster.leaders = {"t": [1, 2, -1]}
    with pytest.raises(RefusedError, match="t-2") as caught:
        open_all(producers(workload, cluster), cluster)
    assert caught.value.code == ErrorCode.LEADER_NOT_AVAILABLE
