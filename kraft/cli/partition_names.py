"""Partitions on the command line: `topic/3`; a topic alone means all of its partitions."""

from collections.abc import Iterable

import click

from kraft.cli.moments import whole_number
from kraft.cli.names import complete_topic
from kraft.client.partitions import Partition
from kraft.config.errors import InvalidConfigError
from kraft.protocol.messages.metadata_response import MetadataResponseTopic


def parse_partition(text: str) -> tuple[str, int | None]:
    """Return the topic, and the partition or None for all. Raises `InvalidConfigError` for other texts."""
    topic, separator, index = text.partition("/")
    if not topic or (separator and whole_number(index) is None):
        raise InvalidConfigError(f"partition: {text!r} is not TOPIC or TOPIC/PARTITION")
    return topic, int(index) if separator else None


def chosen(names: Iterable[str], topics: Iterable[MetadataResponseTopic]) -> list[Partition]:
    """Return the named partitions. Raises `InvalidConfigError` for one that does not exist."""
    known = {topic.name or "": sorted(each.partition_index for each in topic.partitions) for topic in topics}
    found: dict[Partition, None] = {}
    for text in names:
        topic, index = parse_partition(text)
        if topic not in known or (index is not None and index not in known[topic]):
            raise InvalidConfigError(f"partition: the cluster has no {text}")
        found |= dict.fromkeys((topic, each) for each in (known[topic] if index is None else [index]))
    return list(found)


def partition_text(partition: Partition) -> str:
    return f"{partition[0]}/{partition[1]}"


def complete_partition(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete topics, but not the number behind the slash."""
    return [] if "/" in incomplete else complete_topic(context, parameter, incomplete)
