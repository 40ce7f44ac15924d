"""Offsets of a stream as those of a consumer group, so that operators and their tools see how far it is behind.

Spark's checkpoint decides where a query goes on; the group only shows it, and nobody joins it.
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
    """One group, `publishOffsets`, of one cluster. One thread."""

    def __init__(self, options: ReadOptions) -> None:
        self.group = options.publish_offsets
        self._published: dict[TopicPartition, int] = {}
        self._consumer = Consumer(library_settings(options.client, **{
            "group.id": self.group, "enable.auto.commit": False}))

    def publish(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commits what has changed. A failure is logged, and tried again at the next batch: the query does not depend
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
