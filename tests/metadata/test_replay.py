"""Deltas, transactions, and records that contradict the state."""

from typing import Any
from uuid import UUID

import pytest

from kraft.metadata.delta import MetadataDelta
from kraft.metadata.errors import MetadataLogError
from kraft.metadata.image import EMPTY, MetadataImage, Resource
from kraft.metadata.replay import Replayer
from kraft.metadata.snapshot import decode_snapshot, encode_snapshot, image_records
from kraft.protocol.messages.abort_transaction_record import AbortTransactionRecord
from kraft.protocol.messages.begin_transaction_record import BeginTransactionRecord
from kraft.protocol.messages.clear_elr_record import ClearElrRecord
from kraft.protocol.messages.config_record import ConfigRecord
from kraft.protocol.messages.delegation_token_record import DelegationTokenRecord
from kraft.protocol.messages.end_transaction_record import EndTransactionRecord
from kraft.protocol.messages.feature_level_record import FeatureLevelRecord
from kraft.protocol.messages.fence_broker_record import FenceBrokerRecord
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.producer_ids_record import ProducerIdsRecord
from kraft.protocol.messages.register_broker_record import RegisterBrokerRecord
from kraft.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kraft.protocol.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kraft.protocol.messages.remove_topic_record import RemoveTopicRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.messages.unfence_broker_record import UnfenceBrokerRecord
from kraft.protocol.messages.unregister_broker_record import UnregisterBrokerRecord
from kraft.protocol.messages.zk_migration_state_record import ZkMigrationStateRecord
from kraft_native.base.errors import CorruptRecordError

A, B = UUID(int=1000), UUID(int=2000)


def partition(topic_id: UUID, index: int = 0, **fields: Any) -> PartitionRecord:
    return PartitionRecord(**{
        "topic_id": topic_id, "partition_id": index, "replicas": [1, 2], "isr": [1, 2], "leader": 1, "leader_epoch": 0,
        "partition_epoch": 0, **fields})


def image_of(*records: object) -> MetadataImage:
    replayer = Replayer()
    for offset, record in enumerate(records):
        replayer.replay(record, offset, 1, 0)
    replayer.take()
    return replayer.image


def test_changes_are_reported() -> None:
    before = image_of(TopicRecord(name="a", topic_id=A), partition(A), partition(A, 1),
                      TopicRecord(name="b", topic_id=B), partition(B))
    delta = MetadataDelta(before)
    delta.replay(RemoveTopicRecord(topic_id=B))
    delta.replay(PartitionChangeRecord(topic_id=A, partition_id=1, leader=2))
    delta.replay(TopicRecord(name="c", topic_id=UUID(int=3000)))
    delta.replay(partition(UUID(int=3000)))
    delta.replay(TopicRecord(name="short", topic_id=UUID(int=4000)))
    delta.replay(RemoveTopicRecord(topic_id=UUID(int=4000)))
    after = delta.finish(9, 1, 0)
    assert [topic.name for topic in delta.removed_topics()] == ["b"]
    assert [topic.name for topic in delta.created_topics()] == ["c"]
    changes = [(change.topic.name, change.index, change.before is None, change.after is None)
               for change in delta.partition_changes()]
    assert changes == [("b", 0, False, True), ("a", 1, False, False), ("c", 0, True, False)]
    assert before.topic_ids == {"a": A, "b": B}
    assert list(after.topic_ids) == ["a", "c"]
    moved = after.topics[A].partitions[1]
    assert (moved.leader, moved.leader_epoch, moved.partition_epoch) == (2, 1, 1)
    assert before.topics[A].partitions[1].leader == 1
    assert after.topics[A].partitions[0] is before.topics[A].partitions[0]


def test_transactions_count_together_or_not_at_all() -> None:
    replayer = Replayer()
    replayer.replay(TopicRecord(name="a", topic_id=A), 0, 1, 0)
    replayer.replay(BeginTransactionRecord(), 1, 1, 0)
    replayer.replay(TopicRecord(name="b", topic_id=B), 2, 1, 0)
    assert [list(image.topic_ids) for _, image in replayer.take()] == [["a"]]
    assert replayer.in_transaction
    assert replayer.take() == []
    replayer.replay(AbortTransactionRecord(), 3, 1, 0)
    assert [list(image.topic_ids) for _, image in replayer.take()] == [["a"]]
    assert replayer.image.offset == 3
    replayer.replay(BeginTransactionRecord(), 4, 1, 0)
    replayer.replay(TopicRecord(name="b", topic_id=B), 5, 1, 0)
    replayer.replay(EndTransactionRecord(), 6, 1, 0)
    replayer.replay(TopicRecord(name="c", topic_id=UUID(int=3000)), 7, 1, 0)
    assert list(replayer.take()[-1][1].topic_ids) == ["a", "b", "c"]


BROKER = RegisterBrokerRecord(broker_id=1, broker_epoch=5)


@pytest.mark.parametrize("records", [
    [TopicRecord(name="a", topic_id=A), TopicRecord(name="a", topic_id=B)],
    [partition(A)],
    [RemoveTopicRecord(topic_id=A)],
    [TopicRecord(name="a", topic_id=A), PartitionChangeRecord(topic_id=A, partition_id=0)],
    [TopicRecord(name="a", topic_id=A), partition(A, directories=[A])],
    [ClearElrRecord(topic_name="a")],
    [FenceBrokerRecord(id=1, epoch=5)],
    [BROKER, UnfenceBrokerRecord(id=1, epoch=4)],
    [BROKER, UnregisterBrokerRecord(broker_id=1, broker_epoch=4)],
    [ProducerIdsRecord(next_producer_id=1000), ProducerIdsRecord(next_producer_id=999)],
    [RemoveAccessControlEntryRecord(id=A)],
    [FeatureLevelRecord(name="metadata.version", feature_level=31)],
    [BeginTransactionRecord(), BeginTransactionRecord()],
    [EndTransactionRecord()],
    [AbortTransactionRecord()],
    [MetadataRequest()],
])
def test_contradictions_are_refused(records: list[object]) -> None:
    with pytest.raises(MetadataLogError):
        image_of(*records)


def test_offsets_ascend() -> None:
    replayer = Replayer()
    replayer.advance(5, 1, 0)
    with pytest.raises(MetadataLogError, match="offset 5 comes after offset 5"):
        replayer.advance(5, 1, 0)


def test_the_old_fencing_records() -> None:
    image = image_of(BROKER, UnfenceBrokerRecord(id=1, epoch=5))
    assert image.brokers[1].active
    image = image_of(BROKER, UnfenceBrokerRecord(id=1, epoch=5), FenceBrokerRecord(id=1, epoch=5))
    assert image.brokers[1].fenced
    assert not image_of(BROKER, UnregisterBrokerRecord(broker_id=1, broker_epoch=5)).brokers


def test_deleted_entries_leave_nothing() -> None:
    image = image_of(
        ConfigRecord(resource_type=2, resource_name="a", name="x", value="1"),
        ConfigRecord(resource_type=2, resource_name="a", name="x", value=None),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=0),
        DelegationTokenRecord(token_id="t"), RemoveDelegationTokenRecord(token_id="t"),
        TopicRecord(name="a.b", topic_id=A), ConfigRecord(resource_type=2, resource_name="a.b", name="x", value="1"),
        RemoveTopicRecord(topic_id=A))
    assert image.state() == EMPTY


def test_clearing_eligible_leader_replicas() -> None:
    image = image_of(
        TopicRecord(name="a", topic_id=A), partition(A, eligible_leader_replicas=[2], isr=[1]), partition(A, 1),
        TopicRecord(name="b", topic_id=B), partition(B, last_known_elr=[1]), ClearElrRecord(topic_name="a"))
    assert [(each.elr, each.last_known_elr, each.partition_epoch) for _, _, each in image.partitions()] == [
        ((), (), 1), ((), (), 0), ((), (1,), 0)]
    assert not image_of(TopicRecord(name="b", topic_id=B), partition(B, last_known_elr=[1]),
                        ClearElrRecord()).topics[B].partitions[0].last_known_elr


@pytest.mark.parametrize("level", [7, 14, 17, 30])
def test_a_snapshot_at_every_version_reads_back(level: int) -> None:
    image = image_of(
        FeatureLevelRecord(name="metadata.version", feature_level=level), BROKER,
        TopicRecord(name="a", topic_id=A), partition(A), ZkMigrationStateRecord(zk_migration_state=4),
        ProducerIdsRecord(next_producer_id=7000), ConfigRecord(resource_type=4, resource_name="", name="x", value=""))
    data = b"".join(encode_snapshot(image_records(image), epoch=3, now_ms=9, last_timestamp_ms=8))
    again = decode_snapshot(data)
    assert again.image(11, 3).state() == image.state()
    assert (again.last_timestamp_ms, again.image(11, 3).offset, again.image(11, 3).epoch) == (8, 10, 3)
    assert again.image(11, 3).config(Resource(4, "")) == {"x": ""}
    for end in range(0, len(data), 7):
        with pytest.raises((MetadataLogError, CorruptRecordError)):
            decode_snapshot(data[:end])


def test_the_difference_between_two_images() -> None:
    """The delta between two images has the changes that a replay would report, and leads to the same state."""
    before = image_of(TopicRecord(name="a", topic_id=A), partition(A), partition(A, 1),
                      TopicRecord(name="b.c", topic_id=B), partition(B), FeatureLevelRecord(name="x", feature_level=2),
                      ConfigRecord(resource_type=2, resource_name="a", name="k", value="v"),
                      ConfigRecord(resource_type=2, resource_name="b.c", name="k", value="v"))
    again = UUID(int=3000)
    after = image_of(TopicRecord(name="a", topic_id=A), partition(A), partition(A, 1, leader=2), partition(A, 2),
                     TopicRecord(name="b.c", topic_id=again), partition(again),
                     ConfigRecord(resource_type=2, resource_name="b.c", name="k", value="v"),
                     ProducerIdsRecord(next_producer_id=7))
    delta = MetadataDelta.between(before, after)
    assert [topic.topic_id for topic in delta.removed_topics()] == [B]
    assert [topic.topic_id for topic in delta.created_topics()] == [again]
    assert [(change.topic.name, change.index, change.before is None, change.after is None)
            for change in delta.partition_changes()] == [
        ("b.c", 0, False, True), ("a", 1, False, False), ("a", 2, True, False), ("b.c", 0, True, False)]
    assert list(delta.configs.touched) == [Resource(2, "a")]
    assert list(delta.features.touched) == ["x"]
    assert delta.finish(0, 0, 0).state() == after.state()
    assert not list(MetadataDelta.between(after, after).partition_changes())
