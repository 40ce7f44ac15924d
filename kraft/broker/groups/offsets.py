"""Offsets that groups committed, and those of transactions that are still open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kraft.protocol.messages.offset_commit_value import OffsetCommitValue

ZERO_UUID = UUID(int=0)


class CommittedOffset(NamedTuple):
    """One commit. -1 as `leader_epoch` or `expire_timestamp_ms` means absent. The zero `topic_id` matches every
    topic."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: UUID = ZERO_UUID
    record_offset: int = -1     # of the record in the log: the later one of two wins

    @classmethod
    def of_record(cls, value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
        return cls(value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp,
                   value.topic_id, record_offset)


PartitionOffsets: TypeAlias = dict[int, CommittedOffset]
TopicOffsets: TypeAlias = dict[str, PartitionOffsets]


class _Offsets:
    """Offsets by group, topic and partition, without empty levels."""

    __slots__ = ("count", "groups")

    def __init__(self) -> None:
        self.groups: dict[str, TopicOffsets] = {}
        self.count = 0

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.groups.get(group_id, {}).get(topic, {}).get(partition)

    def put(self, group_id: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        partitions = self.groups.setdefault(group_id, {}).setdefault(topic, {})
        self.count += partition not in partitions
        partitions[partition] = offset

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self.groups.get(group_id, {})
        partitions = topics.get(topic, {})
        if partitions.pop(partition, None) is None:
            return
        self.count -= 1
        if not partitions:
            del topics[topic]
            if not topics:
                del self.groups[group_id]


class OffsetTable:
    """Committed offsets, changed by replay only."""

    __slots__ = ("_committed", "_pending", "_producers")

    def __init__(self) -> None:
        self._committed = _Offsets()
        self._pending: dict[int, _Offsets] = {}     # by producer id
        # Producers with a pending offset: group -> (topic, partition) -> producer ids.
        self._producers: dict[str, dict[tuple[str, int], dict[int, None]]] = {}

    # ---------------------------------------------------------------- reading

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the committed offset, or None."""
        return self._committed.get(group_id, topic, partition)

    @property
    def committed_count(self) -> int:
        """Number of committed offsets of all groups."""
        return self._committed.count

    def of_group(self, group_id: str) -> TopicOffsets:
        """Return all committed offsets of a group, to read only."""
        return self._committed.groups.get(group_id, {})

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction is about to commit this offset."""
        return (topic, partition) in self._producers.get(group_id, ())

    def has_open_transactions(self, group_id: str) -> bool:
        return group_id in self._producers

    def keys_of_group(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Yield every (topic, partition) of a group that is committed or pending, once. Offsets may change
        meanwhile."""
        for topic, partitions in list(self.of_group(group_id).items()):
            for partition in list(partitions):
                yield topic, partition
        for topic, partition in list(self._producers.get(group_id, ())):
            if self.get(group_id, topic, partition) is None:
                yield topic, partition

    def groups(self) -> list[str]:
        """Return every group that has offsets, committed or pending."""
        return list(dict.fromkeys([*self._committed.groups, *self._producers]))

    # ---------------------------------------------------------------- replay

    def replay(self, group_id: str, topic: str, partition: int, offset: CommittedOffset | None,
               producer_id: int) -> None:
        """Apply a record: a commit, a transaction's commit (it waits for the marker), or a tombstone (None)."""
        if offset is None:
            self._committed.remove(group_id, topic, partition)
            for each in list(self._producers.get(group_id, {}).get((topic, partition), ())):
                self._pending[each].remove(group_id, topic, partition)
                self._settle(each, group_id, topic, partition)
        elif producer_id == -1:
            self._committed.put(group_id, topic, partition, offset)
        else:
            self._pending.setdefault(producer_id, _Offsets()).put(group_id, topic, partition, offset)
            self._producers.setdefault(group_id, {}).setdefault((topic, partition), {})[producer_id] = None

    def replay_marker(self, producer_id: int, committed: bool) -> list[str]:
        """End the transaction of a producer; return the groups that got offsets by it."""
        pending = self._pending.pop(producer_id, None)
        if pending is None:
            return []
        for group_id, topics in pending.groups.items():
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    self._settle(producer_id, group_id, topic, partition)
                    existing = self.get(group_id, topic, partition)
                    if committed and (existing is None or offset.record_offset > existing.record_offset):
                        self._committed.put(group_id, topic, partition, offset)
        return list(pending.groups) if committed else []

    def _settle(self, producer_id: int, group_id: str, topic: str, partition: int) -> None:
        """Remove the mark that an open transaction of the producer is about to commit this offset."""
        keys = self._producers[group_id]
        producer_ids = keys[topic, partition]
        del producer_ids[producer_id]
        if not producer_ids:
            del keys[topic, partition]
            if not keys:
                del self._producers[group_id]
