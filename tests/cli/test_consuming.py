"""`kraft consume --until-end` ends at every end, or with the error of the partition that has none."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kraft.cli.consuming import Places, range_of
from kraft.client import ConnectionFailedError, RefusedError
from kraft.protocol.error_codes import ErrorCode


class FakeConsumer:
    """A cluster with one topic: `ends` by partition, None for one without a leader."""

    def __init__(self, *ends: int | None) -> None:
        self.ends = ends
        self.mine: list[int] = []
        self.refusal: int | None = None

    def list_topics(self, name: str, timeout: float) -> Any:
        partitions = {index: SimpleNamespace(leader=-1 if end is None else 1) for index, end in enumerate(self.ends)}
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=partitions)})

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.refusal is not None:
            raise KafkaException(KafkaError(self.refusal))
        return 0, self.ends[place.partition] or 0

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("t", index) for index in self.mine]


def places(consumer: FakeConsumer, *, until_end: bool = True) -> Places:
    return Places(consumer, 5.0, until_end=until_end)  # type: ignore[arg-type]


def test_each_end_is_that_of_the_beginning() -> None:
    """The end is that of the beginning: a producer that is faster than the reader does not delay it."""
    read = places(FakeConsumer(3, 7, 1))
    read.assign([("t", 0), ("t", 1), ("t", 2)])
    read.reached(("t", 0), 9)
    read.reached(("t", 1), 6)
    read.ended(("t", 2))
    assert not read.are_read(0.1)
    read.reached(("t", 1), 7)
    assert read.are_read(0.1)
    read.reached(("t", 1), 8)
    assert read.are_read(0.1)


def test_a_partition_without_a_leader_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"partition t-1: .*LEADER_NOT_AVAILABLE"):
        places(FakeConsumer(3, None)).assign([("t", 0), ("t", 1)])
    consumer = FakeConsumer(3)
    consumer.refusal = ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(RefusedError, match=r"partition t-0: .*KAFKA_STORAGE_ERROR"):
        range_of(consumer, ("t", 0), 5.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("after", "kind", "text"), [
    (None, RefusedError, "t-1: .*LEADER_NOT_AVAILABLE"),
    (7, ConnectionFailedError, "partition t-1: nothing came within 5 s, although its leader has offsets 0 to 7"),
])
def test_a_partition_that_falls_silent_ends_it(after: int | None, kind: type[Exception], text: str) -> None:
    """This holds also while the other partition continues; time that was not spent waiting does not count."""
    consumer = FakeConsumer(100, 7)
    read = places(consumer)
    read.assign([("t", 0), ("t", 1)])
    consumer.ends = (100, after)
    for offset in range(49):
        read.reached(("t", 0), offset)
        assert not read.are_read(0.1)
    read.reached(("t", 1), 1)
    for offset in range(49):
        read.reached(("t", 0), offset)
        assert not read.are_read(0.1)
    with pytest.raises(kind, match=text):
        for _ in range(3):
            read.reached(("t", 0), 50)
            read.are_read(0.1)


def test_a_group_that_assigns_nothing_ends_it() -> None:
    consumer = FakeConsumer(5, 5)
    read = places(consumer)
    read.subscribe("g", [("t", 0), ("t", 1)])
    assert not read.are_read(4.0)
    with pytest.raises(ConnectionFailedError, match="group g: it assigned no partition to this member within 5 s"):
        read.are_read(2.0)
    consumer.mine = [1]
    assert not read.are_read(1.0)
    read.ended(("t", 1))
    assert read.are_read(1.0)


def test_without_until_end_nothing_ends_it() -> None:
    read = places(FakeConsumer(None), until_end=False)
    read.assign([("t", 0)])
    assert not read.are_read(1e9)
