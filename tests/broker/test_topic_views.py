"""What clients are told of brokers that come and go."""

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from kraft.broker.broker import Broker
from kraft.broker.topic_views import FENCED_LISTED_MS, reachable_brokers
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY, MetadataImage
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kraft.protocol.messages.topic_record import TopicRecord

NOW_MS = 1_000_000


class Told:
    """A broker as far as `note_led` and the views need one. The partition 0 of a topic has replicas on 1 and 2."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY
        self.broker = cast("Broker", SimpleNamespace(image=EMPTY, led={}))
        self._offset = 0

    def apply(self, *messages: Any, at_ms: int = NOW_MS) -> None:
        delta = MetadataDelta(self.image)
        for message in messages:
            delta.replay(message)
        self._offset += len(messages)
        self.image = self.broker.image = delta.finish(self._offset, 1, 0)
        Broker.note_led(self.broker, delta, at_ms)

    def listed(self, now_ms: int) -> list[int]:
        return [each.broker_id for each in reachable_brokers(self.broker, "PLAINTEXT", now_ms)]


def register(broker_id: int, epoch: int, *, fenced: bool = False) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id, broker_epoch=epoch, fenced=fenced,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)])


TOPIC = UUID(int=7)


def led_by(broker_id: int) -> list[Any]:
    return [TopicRecord(name="t", topic_id=TOPIC),
            PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=[1, 2], isr=[1, 2], leader=broker_id,
                            leader_epoch=0, partition_epoch=0)]


def moves_to(broker_id: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=broker_id)


def fences(broker_id: int, epoch: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=1)


def test_a_fenced_broker_that_led_a_moment_ago_is_still_listed() -> None:
    told = Told()
    told.apply(register(1, 10), register(2, 11), register(3, 12, fenced=True), *led_by(2))
    assert told.listed(NOW_MS) == [1, 2]
    told.apply(moves_to(1), fences(2, 11))
    assert told.listed(NOW_MS) == [1, 2]
    assert told.listed(NOW_MS + FENCED_LISTED_MS - 1) == [1, 2]
    assert told.listed(NOW_MS + FENCED_LISTED_MS) == [1]


def test_a_fenced_broker_that_led_nothing_is_not_listed() -> None:
    told = Told()
    told.apply(register(1, 10), register(2, 11), *led_by(1))
    told.apply(fences(2, 11))
    assert told.listed(NOW_MS) == [1]


def test_a_broker_that_stops_cleanly_is_listed_from_its_last_leadership_on() -> None:
    told = Told()
    told.apply(register(1, 10), register(2, 11), *led_by(2))
    told.apply(moves_to(1))
    told.apply(fences(2, 11), at_ms=NOW_MS + FENCED_LISTED_MS - 1)
    assert told.listed(NOW_MS + FENCED_LISTED_MS - 1) == [1, 2]
    assert told.listed(NOW_MS + FENCED_LISTED_MS) == [1]


def test_its_next_incarnation_is_listed_when_it_serves() -> None:
    told = Told()
    told.apply(register(1, 10), register(2, 11), *led_by(2))
    told.apply(moves_to(1), fences(2, 11))
    told.apply(register(2, 20, fenced=True))
    assert told.listed(NOW_MS) == [1]
    told.apply(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=20, fenced=-1))
    assert told.listed(NOW_MS) == [1, 2]


def test_clients_keep_an_address_while_nobody_may_serve() -> None:
    told = Told()
    told.apply(register(1, 10, fenced=True), register(2, 11, fenced=True))
    assert told.listed(NOW_MS) == [1, 2]
    told.apply(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=11, fenced=-1))
    assert told.listed(NOW_MS) == [2]
