"""Partitions as a decision has changed them so far.

A request may name a partition several times. Each time it is decided from what was decided before.
"""

from uuid import UUID

from kraft.metadata.delta import merge
from kraft.metadata.image import PartitionRegistration, TopicImage
from kraft.metadata.snapshot import Record
from kraft.protocol.messages.partition_change_record import PartitionChangeRecord


class PartitionsDecided:
    """The change records of one decision, and the partitions after them."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._changed: dict[tuple[UUID, int], PartitionRegistration] = {}

    def of(self, topic: TopicImage, index: int) -> PartitionRegistration | None:
        """Return the state of a partition after the records; None when the topic has no such partition."""
        return self._changed.get((topic.topic_id, index)) or topic.partitions.get(index)

    def add(self, topic: TopicImage, record: Record) -> PartitionRegistration:
        """Add a change record; return the partition after it."""
        message = record.message
        assert isinstance(message, PartitionChangeRecord)
        before = self.of(topic, message.partition_id)
        assert before is not None
        after = merge(before, message)
        self.records.append(record)
        self._changed[topic.topic_id, message.partition_id] = after
        return after
