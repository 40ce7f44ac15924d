"""View of the metadata for the coordinators."""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from kraft.broker.groups.consumer.hashing import topic_hash
from kraft.metadata.image import GROUP_RESOURCE, BrokerRegistration, MetadataImage, Resource, TopicImage
from kraft.metadata.versions import TRANSACTION_VERSION

HASHES_MAX: Final = 10_000
"""Limit of the topics whose hashes are kept; those that were computed first give way."""


class _Hashed(NamedTuple):
    """Hash of a topic's metadata, and what it was computed from."""

    topic: TopicImage
    racks: Mapping[int, str]
    value: int


class ImageTopics:
    """View of `image`, which is replaced with each committed change. `covers_start` returns whether an image has all
    that was committed before this process started."""

    def __init__(self, image: MetadataImage, covers_start: Callable[[MetadataImage], bool]) -> None:
        self.image = image
        self._covers_start = covers_start
        self._brokers: Mapping[int, BrokerRegistration] = {}
        self._racks: Mapping[int, str] = {}
        self._hashes: dict[UUID, _Hashed] = {}
        self._version: tuple[object, object] = (None, None)

    def topic_id(self, name: str) -> UUID | None:
        """See `TopicView`."""
        return self.image.topic_ids.get(name)

    def topic_name(self, topic_id: UUID) -> str | None:
        """See `TopicView`."""
        return self.image.topic_name(topic_id)

    def has_partition(self, name: str, partition: int) -> bool:
        """See `TopicView`."""
        return self.image.partition(name, partition) is not None

    @property
    def is_current(self) -> bool:
        """See `Leaders`."""
        return self._covers_start(self.image)

    def leader_of(self, topic: str, partition: int) -> int | None:
        """See `Leaders`."""
        registration = self.image.partition(topic, partition)
        return None if registration is None else registration.leader

    def partition_count(self, topic: str) -> int | None:
        """See `ClusterView`."""
        found = self.image.topic(topic)
        return None if found is None else len(found.partitions)

    def topic_hash(self, topic: str) -> int | None:
        """See `Topics`. The hash of a topic that did not change since is known."""
        found = self.image.topic(topic)
        if found is None:
            return None
        racks = self._present_racks()
        known = self._hashes.get(found.topic_id)
        if known is None or known.topic is not found or known.racks is not racks:
            value = topic_hash(found.topic_id, found.name, [
                sorted(racks[each] for each in found.partitions[index].replicas if each in racks)
                for index in sorted(found.partitions)])
            known = self._hashes[found.topic_id] = _Hashed(found, racks, value)
            if len(self._hashes) > HASHES_MAX:
                del self._hashes[next(iter(self._hashes))]
        return known.value

    def _present_racks(self) -> Mapping[int, str]:
        """Return the rack of each broker that has one: the same object until one changes."""
        if self._brokers is not self.image.brokers:
            self._brokers = self.image.brokers
            racks = {each.broker_id: each.rack for each in self._brokers.values() if each.rack is not None}
            if racks != self._racks:
                self._racks = racks
        return self._racks

    def topic_names(self) -> Collection[str]:
        """See `Topics`."""
        return self.image.topic_ids.keys()

    @property
    def version(self) -> object:
        """See `Topics`."""
        topics, racks = self.image.topics, self._present_racks()
        if self._version[0] is not topics or self._version[1] is not racks:
            self._version = topics, racks
        return self._version

    @property
    def names_version(self) -> object:
        """See `Topics`."""
        return self.image.topic_ids

    @property
    def offset(self) -> int:
        """See `Topics`."""
        return self.image.offset

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """See `Topics`."""
        return self.image.config(Resource(GROUP_RESOURCE, group_id))

    @property
    def transaction_version(self) -> int:
        """See `ClusterView`."""
        return self.image.features.get(TRANSACTION_VERSION, 0)
