"""View of the metadata for the coordinators."""

from collections.abc import Callable
from uuid import UUID

from kraft.metadata.image import MetadataImage
from kraft.metadata.versions import TRANSACTION_VERSION


class ImageTopics:
    """View of `image`, which is replaced with each committed change. `covers_start` returns whether an image has all
    that was committed before this process started."""

    def __init__(self, image: MetadataImage, covers_start: Callable[[MetadataImage], bool]) -> None:
        self.image = image
        self._covers_start = covers_start

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

    @property
    def transaction_version(self) -> int:
        """See `ClusterView`."""
        return self.image.features.get(TRANSACTION_VERSION, 0)
