"""View of the metadata for the group coordinator."""

from uuid import UUID

from kraft.metadata.image import MetadataImage


class ImageTopics:
    """View of `image`, which is replaced with each committed change."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image

    def topic_id(self, name: str) -> UUID | None:
        """See `TopicView`."""
        return self.image.topic_ids.get(name)

    def topic_name(self, topic_id: UUID) -> str | None:
        """See `TopicView`."""
        topic = self.image.topics.get(topic_id)
        return None if topic is None else topic.name

    def has_partition(self, name: str, partition: int) -> bool:
        """See `TopicView`."""
        return self.image.partition(name, partition) is not None
