"""Clients while the metadata has no broker that may serve."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from kraft.broker.apis import metadata
from kraft.broker.broker import Broker
from kraft.broker.topic_views import ListedBroker, reachable_brokers
from kraft.client import Cluster
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import MetadataImage
from kraft.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kraft.runtime.server_node import ServerNode
from tests.integration.admin import wait_until
from tests.integration.clients import take
from tests.runtime.nodes import config, with_node
from tests.runtime.test_server_node import produce
from tests.runtime.upkeep.test_housekeeping import create

SECONDS = 20.0


def fenced(image: MetadataImage) -> MetadataImage:
    delta = MetadataDelta(image)
    delta.replay(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=image.brokers[1].epoch, fenced=1))
    return delta.finish(image.offset, image.epoch, image.timestamp_ms)


def test_a_reader_continues_after_a_time_without_a_broker_that_serves(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[list[ListedBroker]] = []

    def while_fenced(broker: Broker, listener: str, now_ms: int) -> list[ListedBroker]:
        view = SimpleNamespace(image=fenced(broker.image), led={})
        reported.append(reachable_brokers(cast("Broker", view), listener, now_ms))
        return reported[-1]

    def work(cluster: Cluster, node: ServerNode) -> None:
        create(cluster, "t")
        produce(cluster, "t", b"before")
        reader = Consumer({
            "bootstrap.servers": f"127.0.0.1:{node.listeners['PLAINTEXT'].port}", "group.id": "unused",
            "topic.metadata.refresh.interval.ms": 100, "metadata.recovery.strategy": "none"})
        reader.assign([TopicPartition("t", 0, 0)])
        assert [each.value() for each in take(reader, 1, SECONDS)] == [b"before"]
        with monkeypatch.context() as patch:
            patch.setattr(metadata, "reachable_brokers", while_fenced)
            wait_until(lambda: len(reported) >= 3, "the reader repeats its request", SECONDS)
        produce(cluster, "t", b"after")
        assert [each.value() for each in take(reader, 1, SECONDS)] == [b"after"]
        reader.close()

    with_node(config(tmp_path), work)
