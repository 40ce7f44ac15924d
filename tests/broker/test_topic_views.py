"""What clients are told of brokers that come and go."""

from types import SimpleNamespace
from typing import Any, cast

from kraft.broker.broker import Broker
from kraft.broker.topic_views import FENCED_LISTED_MS, reachable_brokers
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY, MetadataImage
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord

NOW_MS = 1_000_000


class Told:
    """A broker as far as `note_fenced` and the views need one."""

    def __init__(self) -> None:
        self.image: MetadataImage = EMPTY
        self.broker = cast("Broker", SimpleNamespace(image=EMPTY, fenced={}))
        self._offset = 0

    def apply(self, *messages: Any, at_ms: int = NOW_MS) -> None:
        delta = MetadataDelta(self.image)
        for message in messages:
            delta.replay(message)
        self._offset += len(messages)
        self.image = self.broker.image = delta.finish(self._offset, 1, 0)
        Broker.note_fenced(self.broker, delta, self.image, at_ms)

    def listed(self, now_ms: int) -> list[int]:
        return [each.broker_id for each in reachable_brokers(self.broker, "PLAINTEXT", now_ms)]


def register(broker_id: int, epoch: int, *, fenced: bool = False) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id, broker_epoch=epoch, fenced=fenced,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)])


def test_a_broker_that_was_fenced_a_moment_ago_is_still_listed() -> None:
    told = Told()
    told.apply(register(1, 10), register(2, 11), register(3, 12, fenced=True))
    assert told.listed(NOW_MS) == [1, 2]
    told.apply(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=11, fenced=1))
    assert told.listed(NOW_MS) == [1, 2]
    assert told.listed(NOW_MS + FENCED_LISTED_MS - 1) == [1, 2]
    assert told.listed(NOW_MS + FENCED_LISTED_MS) == [1]


def test_its_next_incarnation_is_listed_when_it_serves() -> None:
    told = Told()
    told.apply(register(1, 10), register(2, 11))
    told.apply(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=11, fenced=1))
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
