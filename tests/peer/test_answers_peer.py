"""Answers of our node to requests that no client of ours sends, compared with those of Kafka."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.client import Cluster
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from kraft.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from kraft.protocol.messages.push_telemetry_request import PushTelemetryRequest
from kraft.protocol.messages.push_telemetry_response import PushTelemetryResponse
from tests.peer.kafka import KafkaNode, kafka_node, require_kafka
from tests.runtime.conftest import first_loop  # noqa: F401 - the first loop keeps two descriptors
from tests.runtime.nodes import config, with_node

pytestmark = pytest.mark.peer

ID = UUID("12345678-9abc-4def-8123-456789abcdef")
OTHER = UUID("f2345678-9abc-4def-8123-456789abcdef")
BYTES_MAX = 1000


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    require_kafka()
    with kafka_node(tmp_path_factory.mktemp("kafka") / "home", telemetry_max_bytes=str(BYTES_MAX)) as started:
        started.start()
        yield started


def subscriptions(cluster: Cluster, client_id: UUID) -> dict[str, Any]:
    answer = cluster.any().send(GetTelemetrySubscriptionsRequest(client_instance_id=client_id),
                                GetTelemetrySubscriptionsResponse, version=0)
    return {name: getattr(answer, name) for name in answer.__slots__}


def pushes(cluster: Cluster, client_id: UUID, subscription_id: int, **fields: Any) -> int:
    request = PushTelemetryRequest(client_instance_id=client_id, subscription_id=subscription_id, **fields)
    return cluster.any().send(request, PushTelemetryResponse, version=0).error_code


def telemetry(cluster: Cluster) -> list[Any]:
    """Return every answer in order: to a client with a whole life, and to clients that push without a subscription."""
    assert not {71, 72} & cluster.any().versions.keys()
    first = subscriptions(cluster, UUID(int=0))
    given = first.pop("client_instance_id"), first.pop("subscription_id")
    assert given[0].version == 4
    answer = subscriptions(cluster, ID)
    found = [first, answer, subscriptions(cluster, ID), subscriptions(cluster, UUID(int=1))["subscription_id"]]
    known = answer["subscription_id"]
    found += [pushes(cluster, *given), pushes(cluster, *given), pushes(cluster, ID, known, compression_type=4)]
    found += [pushes(cluster, ID, known, terminating=terminating) for terminating in (False, True, True, False, True)]
    found += [subscriptions(cluster, OTHER)["error_code"], pushes(cluster, OTHER, known),
              subscriptions(cluster, OTHER)["error_code"]]
    found += [pushes(cluster, UUID(int=number), known) for number in range(3)]
    fields: list[dict[str, Any]] = [
        {"compression_type": 5}, {"compression_type": -1}, {"compression_type": 0, "metrics": b"no metrics"},
        {"metrics": bytes(BYTES_MAX)}, {"metrics": bytes(BYTES_MAX + 1)},
        {"compression_type": 7, "metrics": bytes(BYTES_MAX + 1)}]
    for number, each in enumerate(fields):
        # Ids whose four words together equal those of `ID`: their subscription has the same number.
        fresh = UUID(int=ID.int ^ ((number + 1) << 96 | (number + 1)))
        found += [pushes(cluster, fresh, known, **each), subscriptions(cluster, fresh)["error_code"],
                  subscriptions(cluster, fresh)["error_code"]]
    return found


def test_telemetry_without_a_receiver(kafka: KafkaNode, tmp_path: Path) -> None:
    with Cluster(kafka.bootstrap) as cluster:
        theirs = telemetry(cluster)
    ours = with_node(config(tmp_path / "data", telemetry_max_bytes=str(BYTES_MAX)),
                     lambda cluster, _node: telemetry(cluster))
    assert ours == theirs
    assert ErrorCode.UNKNOWN_SUBSCRIPTION_ID in theirs
