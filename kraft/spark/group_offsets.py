"""Offsets of a stream, committed as those of a consumer group. Operators and their tools can see how far the stream is
behind.

Spark's checkpoint decides where a query continues. The group only shows it, and has no members.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import confluent_kafka
from confluent_kafka import Consumer, KafkaException

from kraft.log_dir import TopicPartition
from kraft.spark.client_options import library_settings
from kraft.spark.options import ReadOptions

LOG: Final = logging.getLogger(__name__)


class GroupOffsets:
    """One group, `publishOffsets`, of one cluster. Used by one thread."""

    def __init__(self, options: ReadOptions) -> None:
        self.group = options.publish_offsets
        self._published: dict[TopicPartition, int] = {}
        self._consumer = Consumer(library_settings(options.client, **{
            "group.id": self.group, "enable.auto.commit": False}))

    def publish(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the changed offsets. A failure is logged, and retried with the next batch: the query does not depend
        on it."""
        changed = {each: offset for each, offset in offsets.items() if self._published.get(each) != offset}
        if not changed:
            return
        try:
            done = self._consumer.commit(offsets=[
                confluent_kafka.TopicPartition(each.topic, each.partition, offset)
                for each, offset in changed.items()], asynchronous=False)
        except KafkaException as error:
            LOG.warning("group %s: its offsets are not published: %s", self.group, error)
            return
        refused = {TopicPartition(each.topic, each.partition) for each in done or () if each.error is not None}
        if refused:
            LOG.warning("group %s: the offsets of %s are not published", self.group, sorted(refused))
        self._published |= {each: offset for each, offset in changed.items() if each not in refused}

    def close(self) -> None:
        self._consumer.close()
