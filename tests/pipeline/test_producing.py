"""Sent batches: one that is refused, or that reaches no leader, never counts as sent."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.client import Cluster, ConnectionFailedError, RefusedError
from kraft.pipeline.producing import Writer
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import ProduceRequest


class Brokers:
    """A cluster whose broker answers with these codes by partition, one after the other; the last one stays.

    Its time-out expires at once.
    """

    timeout = 0.0

    def __init__(self, codes: Mapping[int, list[int]], leaders: Mapping[int, int]) -> None:
        self.codes = {partition: list(each) for partition, each in codes.items()}
        self.leaders = leaders
        self.sent: list[list[int]] = []
        self.fails = False

    def topic(self, _name: str) -> Any:
        return SimpleNamespace(partitions=[SimpleNamespace(partition_index=index, leader_id=leader)
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
        codes = {index: self.codes[index][0] for index in wanted}
        for index in wanted:
            if len(self.codes[index]) > 1:
                del self.codes[index][0]
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[
            SimpleNamespace(index=index, error_code=code) for index, code in codes.items()])])


def send(brokers: Brokers) -> None:
    writer = Writer(cast(Cluster, brokers), "t", (1, 0), dict.fromkeys(brokers.leaders, 0))
    writer.send(dict.fromkeys(brokers.leaders, b"batch"))


@pytest.mark.parametrize("code", [
    ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
@pytest.mark.parametrize("other", [ErrorCode.NONE, None])
def test_what_is_refused_is_an_error(code: ErrorCode, other: ErrorCode | None) -> None:
    """The refusal is of one partition, or of all."""
    with pytest.raises(RefusedError) as refusal:
        send(Brokers({0: [code if other is None else other], 1: [code]}, {0: 1, 1: 1}))
    assert refusal.value.code == code


def test_what_passes_is_sent_again() -> None:
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
