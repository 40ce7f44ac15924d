"""Metadata of a cluster that begins with a backup: the image of the source, for the new cluster's brokers.

Kept: topics with their ids, settings, quotas, ACLs, credentials, delegation tokens, features. Not kept: registrations
of nodes, and settings of single brokers that the new cluster does not have. Every restored replica is in sync, and a
partition has no leader until one of its brokers starts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kraft.backups.manifest import PartitionCopy
from kraft.metadata.image import (
    BROKER_RESOURCE,
    NO_LEADER,
    TOPIC_RESOURCE,
    UNASSIGNED_DIRECTORY,
    MetadataImage,
    PartitionRegistration,
    Resource,
    TopicImage,
)

SPARE_PRODUCER_IDS: Final = 1_000_000
"""Ids that the source may have given away after the backup; the new cluster does not use them."""


def restored_image(image: MetadataImage, copies: Sequence[PartitionCopy], nodes: Sequence[int]) -> MetadataImage:
    """Return the metadata for a cluster of these brokers with these partitions. The result is the same wherever it is
    computed."""
    topics = {}
    copied: dict[str, list[PartitionCopy]] = {}
    for copy in copies:
        copied.setdefault(copy.topic, []).append(copy)
    placed = placement(image, copies, nodes)
    for topic_id, topic in image.topics.items():
        if topic.name in copied:
            topics[topic_id] = TopicImage(topic.name, topic_id, {
                copy.partition: _registration(placed[copy.topic, copy.partition], copy)
                for copy in sorted(copied[topic.name], key=lambda each: each.partition)})
    return replace(
        image, brokers={}, controllers={}, topics=topics,
        topic_ids={topic.name: topic_id for topic_id, topic in topics.items()},
        configs={resource: values for resource, values in image.configs.items() if _kept(resource, copied, nodes)},
        next_producer_id=max(image.next_producer_id, 0) + SPARE_PRODUCER_IDS)


def placement(image: MetadataImage, copies: Sequence[PartitionCopy],
              nodes: Sequence[int]) -> dict[tuple[str, int], tuple[int, ...]]:
    """Return the brokers of each partition: those of the source where the new cluster has them all. Otherwise as many,
    as far as there are so many, one after the other."""
    found = {}
    ordered = sorted(dict.fromkeys(nodes))
    for number, copy in enumerate(sorted(copies, key=lambda each: (each.topic, each.partition))):
        before = image.partition(copy.topic, copy.partition)
        replicas = () if before is None else before.replicas
        if not replicas or any(each not in ordered for each in replicas):
            count = min(max(len(replicas), 1), len(ordered))
            replicas = tuple(ordered[(number + at) % len(ordered)] for at in range(count))
        found[copy.topic, copy.partition] = replicas
    return found


def _registration(replicas: tuple[int, ...], copy: PartitionCopy) -> PartitionRegistration:
    return PartitionRegistration(replicas, (UNASSIGNED_DIRECTORY,) * len(replicas), replicas, NO_LEADER,
                                 leader_epoch=max(copy.leader_epoch, 0))


def _kept(resource: Resource, copied: Mapping[str, object], nodes: Sequence[int]) -> bool:
    if resource.type == TOPIC_RESOURCE:
        return resource.name in copied
    if resource.type == BROKER_RESOURCE and resource.name:
        return resource.name.isdecimal() and int(resource.name) in nodes
    return True
