"""View of the metadata for coordinators: what of a topic is remembered, and what makes it forgotten."""

from uuid import UUID

from kraft.broker.metadata_view import ImageTopics
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY, GROUP_RESOURCE, MetadataImage
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.register_broker_record import RegisterBrokerRecord
from kraft.protocol.messages.topic_record import TopicRecord

ORDERS = UUID(int=0xA1)


def changed(image: MetadataImage, *records: object) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)        # type: ignore[arg-type]
    return delta.finish(image.offset + 1, 0, 0)


def partition(index: int, topic_id: UUID = ORDERS) -> PartitionRecord:
    return PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1)


IMAGE = changed(EMPTY, RegisterBrokerRecord(broker_id=1, incarnation_id=UUID(int=1), broker_epoch=1),
                TopicRecord(name="orders", topic_id=ORDERS), partition(0))


def test_versions_and_hashes_follow_the_topics() -> None:
    view = ImageTopics(IMAGE, lambda _: True)
    version, names, found = view.version, view.names_version, view.topic_hash("orders")
    assert view.version is version
    view.image = changed(IMAGE, ConfigRecord(resource_type=GROUP_RESOURCE, resource_name="g",
                                             name="consumer.session.timeout.ms", value="50000"))
    assert view.group_config("g") == {"consumer.session.timeout.ms": "50000"}
    assert view.version is version
    view.image = changed(IMAGE, PartitionChangeRecord(partition_id=0, topic_id=ORDERS, leader=-1))
    assert view.version is not version
    assert view.names_version is names
    assert view.topic_hash("orders") == found
    view.image = changed(IMAGE, partition(1))
    assert view.topic_hash("orders") != found
    view.image = changed(IMAGE, TopicRecord(name="clicks", topic_id=UUID(int=2)), partition(0, UUID(int=2)))
    assert view.names_version is not names
    assert list(view.topic_names()) == ["orders", "clicks"]
    assert view.topic_hash("missing") is None


def test_a_rack_changes_the_hash() -> None:
    view = ImageTopics(IMAGE, lambda _: True)
    version, found = view.version, view.topic_hash("orders")
    view.image = changed(IMAGE, RegisterBrokerRecord(broker_id=1, incarnation_id=UUID(int=2), broker_epoch=2, rack="a"))
    assert view.version is not version
    assert view.topic_hash("orders") not in (None, found)
