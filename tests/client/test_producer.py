"""Sent batches: one that is refused, or that reaches no leader, never counts as sent."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.client import Cluster, ConnectionFailedError, RefusedError
from kraft.client.producer import Producer
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import ProduceRequest
from kraft_native.batch.batch import first_batch
from kraft_native.batch.records import BatchBuilder


class Brokers:
    """A cluster whose broker answers with these codes by partition, one after the other; the last one stays.

    Its time-out expires at once.
    """

    timeout = 0.0

    def __init__(self, codes: Mapping[int, list[int]], leaders: Mapping[int, int]) -> None:
        self.codes = {partition: list(each) for partition, each in codes.items()}
        self.leaders = leaders
        self.sent: list[list[int]] = []
        self.batches: list[list[bytes]] = []
        self.queries = 0
        self.fails = False

    def topic(self, _name: str) -> Any:
        self.queries += 1
        return SimpleNamespace(partitions=[
            SimpleNamespace(partition_index=index, leader_id=leader, error_code=ErrorCode.NONE)
            for index, leader in self.leaders.items()])

    def node(self, _node_id: int) -> "Brokers":
        return self

    def version(self, _key: int, newest: int) -> int:
        return newest

    def close(self) -> None:
        pass

    def send(self, request: ProduceRequest, _kind: object, *, version: int) -> Any:
        assert version == 12
        if self.fails:
            raise ConnectionFailedError("closed")
        wanted = [part.index for part in request.topic_data[0].partition_data]
        self.sent.append(wanted)
        self.batches.append([bytes(part.records or b"") for part in request.topic_data[0].partition_data])
        codes = {index: self.codes[index][0] for index in wanted}
        for index in wanted:
            if len(self.codes[index]) > 1:
                del self.codes[index][0]
        return SimpleNamespace(responses=[SimpleNamespace(name="t", partition_responses=[
            SimpleNamespace(index=index, error_code=code, error_message=None, base_offset=7)
            for index, code in codes.items()])])


def batch_of(*values: bytes) -> bytes:
    builder = BatchBuilder("none")
    for value in values:
        builder.append(value)
    return builder.build()


def send(brokers: Brokers) -> None:
    producer = Producer(cast(Cluster, brokers))
    assert set(producer.send({("t", index): b"batch" for index in brokers.leaders}).values()) == {7}


@pytest.mark.parametrize("code", [
    ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
@pytest.mark.parametrize("other", [ErrorCode.NONE, None])
def test_a_refusal_is_an_error(code: ErrorCode, other: ErrorCode | None) -> None:
    """The refusal is of one partition, or of all."""
    with pytest.raises(RefusedError) as refusal:
        send(Brokers({0: [code if other is None else other], 1: [code]}, {0: 1, 1: 1}))
    assert refusal.value.code == code


def test_a_passing_refusal_is_retried() -> None:
    brokers = Brokers({0: [ErrorCode.NONE], 1: [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]}, {0: 1, 1: 1})
    brokers.timeout = 60.0
    send(brokers)
    assert brokers.sent == [[0, 1], [1]]


def test_existing_records_count_as_sent() -> None:
    brokers = Brokers({0: [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]}, {0: 1})
    send(brokers)
    assert brokers.sent == [[0]]


def test_a_partition_without_a_leader_is_an_error_and_not_a_loop() -> None:
    with pytest.raises(RefusedError) as refusal:
        send(Brokers({0: [ErrorCode.NONE]}, {0: 1, 1: -1}))
    assert refusal.value.code == ErrorCode.LEADER_NOT_AVAILABLE


def test_a_broker_that_cannot_be_reached_is_an_error() -> None:
    brokers = Brokers({}, {0: 1})
    brokers.fails = True
    with pytest.raises(ConnectionFailedError):
        send(brokers)


def test_batches_are_numbered_by_partition() -> None:
    brokers = Brokers({0: [ErrorCode.NONE], 1: [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]}, {0: 1, 1: 1})
    brokers.timeout = 60.0
    producer = Producer(cast(Cluster, brokers), (5, 2))
    producer.skip(("t", 0), batch_of(b"a", b"b", b"c"))
    for _ in range(2):
        producer.send({("t", 0): batch_of(b"d"), ("t", 1): batch_of(b"e", b"f")})
    assert [[(each.producer_id, each.producer_epoch, each.base_sequence) for each in map(first_batch, batches)]
            for batches in brokers.batches] == [[(5, 2, 3), (5, 2, 0)], [(5, 2, 0)], [(5, 2, 4), (5, 2, 2)]]
    assert producer.sequences == {("t", 0): 5, ("t", 1): 4}


def test_leaders_are_read_again_only_after_a_failure() -> None:
    brokers = Brokers({0: [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]}, {0: 1})
    brokers.timeout = 60.0
    producer = Producer(cast(Cluster, brokers))
    for expected in (1, 1, 2):
        producer.send({("t", 0): batch_of(b"a")})
        assert brokers.queries == expected


def test_one_partition_does_not_hold_up_another() -> None:
    """A partition without a leader, and a refusal for good beside a temporary one."""
    brokers = Brokers({0: [ErrorCode.NONE]}, {0: 1, 1: -1})
    with pytest.raises(RefusedError):
        send(brokers)
    assert brokers.sent == [[0]]
    brokers = Brokers({0: [ErrorCode.INVALID_RECORD], 1: [ErrorCode.NOT_LEADER_OR_FOLLOWER]}, {0: 1, 1: 1})
    brokers.timeout = 60.0
    with pytest.raises(RefusedError) as refusal:
        send(brokers)
    assert refusal.value.code == ErrorCode.INVALID_RECORD and len(brokers.sent) == 1
