"""Topic metadata of clients while brokers come and go."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kraft.broker.api import RequestContext
from kraft.broker.apis.describe_cluster import describe_cluster
from kraft.broker.apis.describe_topic_partitions import describe_topic_partitions
from kraft.broker.apis.metadata import metadata
from kraft.broker.broker import Broker
from kraft.broker.topic_views import FENCED_LISTED_MS, reachable_brokers
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY, MetadataImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_topic_partitions_request import Cursor, DescribeTopicPartitionsRequest
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.steps import finish

CONTEXT = RequestContext(12, "client", "127.0.0.1", "PLAINTEXT", 0)
NOW_MS = 1_000_000


class View:
    """The part of a broker that `note_led` and the views need. Partition 0 of a topic has replicas on 1 and 2."""

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
    view = View()
    view.apply(register(1, 10), register(2, 11), register(3, 12, fenced=True), *led_by(2))
    assert view.listed(NOW_MS) == [1, 2]
    view.apply(moves_to(1), fences(2, 11))
    assert view.listed(NOW_MS) == [1, 2]
    assert view.listed(NOW_MS + FENCED_LISTED_MS - 1) == [1, 2]
    assert view.listed(NOW_MS + FENCED_LISTED_MS) == [1]


def test_a_fenced_broker_that_led_nothing_is_not_listed() -> None:
    view = View()
    view.apply(register(1, 10), register(2, 11), *led_by(1))
    view.apply(fences(2, 11))
    assert view.listed(NOW_MS) == [1]


def test_a_broker_that_stops_cleanly_is_listed_from_its_last_leadership_on() -> None:
    view = View()
    view.apply(register(1, 10), register(2, 11), *led_by(2))
    view.apply(moves_to(1))
    view.apply(fences(2, 11), at_ms=NOW_MS + FENCED_LISTED_MS - 1)
    assert view.listed(NOW_MS + FENCED_LISTED_MS - 1) == [1, 2]
    assert view.listed(NOW_MS + FENCED_LISTED_MS) == [1]


def test_its_next_incarnation_is_listed_when_it_serves() -> None:
    view = View()
    view.apply(register(1, 10), register(2, 11), *led_by(2))
    view.apply(moves_to(1), fences(2, 11))
    view.apply(register(2, 20, fenced=True))
    assert view.listed(NOW_MS) == [1]
    view.apply(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=20, fenced=-1))
    assert view.listed(NOW_MS) == [1, 2]


def test_clients_keep_an_address_while_nobody_may_serve() -> None:
    view = View()
    view.apply(register(1, 10, fenced=True), register(2, 11, fenced=True))
    assert view.listed(NOW_MS) == [1, 2]
    view.apply(BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=11, fenced=-1))
    assert view.listed(NOW_MS) == [2]


def cluster(*, fenced: tuple[int, ...] = ()) -> MetadataImage:
    """Brokers 1 to 3; `t` has a partition that 1 leads, and one that 2 leads."""
    topic_id = UUID(int=7)
    delta = MetadataDelta(EMPTY)
    for broker_id in (1, 2, 3):
        delta.replay(RegisterBrokerRecord(
            broker_id=broker_id, broker_epoch=broker_id, fenced=broker_id in fenced,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=broker_id, security_protocol=0)]))
    delta.replay(TopicRecord(name="t", topic_id=topic_id))
    for index, leader in enumerate((1, 2)):
        delta.replay(PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1, 2], isr=[1, 2], leader=leader,
                                     leader_epoch=4, partition_epoch=0))
    return delta.finish(0, 0, 0)


def answer_of(handler: Callable[..., Any], request: Message, image: MetadataImage, ended: tuple[int, ...] = (),
              version: int = 0) -> Any:
    """Return the answer of broker 1, which finds that the processes of these leaders have ended."""
    checked: list[list[int]] = []

    def submit(leaders: Iterable[int], answer: Callable[[tuple[int, ...]], None]) -> None:
        checked.append(sorted(leaders))
        answer(tuple(each for each in ended if each in checked[-1]))

    broker = cast("Broker", SimpleNamespace(
        image=image, node_id=1, cluster_id="c", led={}, integer=lambda _name: 2000, setting=lambda _name: False,
        leaders=SimpleNamespace(submit=submit), controller=SimpleNamespace(lease_left_ms=None),
        storage=SimpleNamespace(lost_records=list, stray_count=0)))
    answers: list[Any] = []
    finish(handler(broker, request, CONTEXT._replace(version=version), answers.append) or iter(()))
    [answer] = answers
    return answer


@pytest.mark.parametrize("ended", [(), (2,)])
def test_no_answer_names_a_leader_whose_process_has_ended(ended: tuple[int, ...]) -> None:
    leads = (ErrorCode.NONE, 2, 4) if not ended else (ErrorCode.LEADER_NOT_AVAILABLE, -1, 4)
    page = answer_of(describe_topic_partitions, DescribeTopicPartitionsRequest(), cluster(), ended)
    assert [(each.error_code, each.leader_id, each.leader_epoch) for each in page.topics[0].partitions] == [
        (ErrorCode.NONE, 1, 4), leads]
    found = answer_of(metadata, MetadataRequest(topics=None), cluster(), ended, version=12)
    assert [(each.error_code, each.leader_id, each.leader_epoch) for each in found.topics[0].partitions] == [
        (ErrorCode.NONE, 1, 4), leads]


def test_only_the_leaders_of_a_page_are_checked() -> None:
    """Partition 0 is on the first page, 1 on the second."""
    request = DescribeTopicPartitionsRequest(response_partition_limit=1)
    first = answer_of(describe_topic_partitions, request, cluster(), (2,))
    assert [each.error_code for each in first.topics[0].partitions] == [ErrorCode.NONE]
    request.cursor = Cursor(topic_name=first.next_cursor.topic_name, partition_index=first.next_cursor.partition_index)
    second = answer_of(describe_topic_partitions, request, cluster(), (2,))
    assert [each.error_code for each in second.topics[0].partitions] == [ErrorCode.LEADER_NOT_AVAILABLE]
    assert second.next_cursor is None


@pytest.mark.parametrize(("fenced", "ended", "named"), [
    ((), (), 1), ((1,), (), 2), ((1,), (2,), 3), ((1, 2, 3), (), -1),
])
def test_the_broker_that_changes_are_sent_to_is_listed_and_runs(fenced: tuple[int, ...], ended: tuple[int, ...],
                                                                named: int) -> None:
    image = cluster(fenced=fenced)
    assert answer_of(metadata, MetadataRequest(topics=None), image, ended, version=12).controller_id == named
    if not ended:
        assert answer_of(describe_cluster, DescribeClusterRequest(), image).controller_id == named
