"""States of share partitions: requests of brokers to a node, and the way to the coordinators of three nodes."""

import uuid
from typing import Any

from kraft.broker.share_state.state import ShareKey
from kraft.client.connection import Connection
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.ids import id_text
from kraft.protocol.message import Message
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from kraft.protocol.messages.update_features_response import UpdateFeaturesResponse
from tests.broker.share_state.share_node import code_of, delete, initialize, read, summarize, write
from tests.integration.admin import configs, connect, create, wait_until
from tests.integration.process import NodeProcess

TOPIC = "__share_group_state"
NONE = ErrorCode.NONE


def send(connection: Connection, request: Message) -> Any:
    return connection.send(request, API_BY_KEY[request.API_KEY].response)


def topic_id(connection: Connection, name: str) -> uuid.UUID:
    found: uuid.UUID = connection.send(MetadataRequest(topics=[MetadataRequestTopic(name=name)]),
                                       MetadataResponse).topics[0].topic_id
    return found


def found(connection: Connection, key: str, version: int = 6) -> tuple[int, int]:
    [each] = connection.send(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), FindCoordinatorResponse,
                             version=version).coordinators
    return each.error_code, each.node_id


def test_the_life_of_a_state_on_one_node(new_node: Any, name: str) -> None:
    node: NodeProcess = new_node({"share.coordinator.state.topic.num.partitions": "3"})
    create(node, name, 2)
    with connect(node) as connection:
        key = ShareKey("g", topic_id(connection, name), 1)
        assert code_of(send(connection, read(key=key)))[0] == ErrorCode.NOT_COORDINATOR
        for wrong in ("g", f"g:{name}:0", f"g:{id_text(key.topic_id)}:x", f":{id_text(key.topic_id)}:0"):
            assert found(connection, wrong) == (ErrorCode.INVALID_REQUEST, -1)
        assert found(connection, key.text, 5) == (ErrorCode.INVALID_REQUEST, -1)
        assert found(connection, key.text) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        wait_until(lambda: found(connection, key.text) == (NONE, 1), "the coordinator is found")
        wait_until(lambda: code_of(send(connection, initialize(key=key)))[0] == NONE, "the coordinator serves")
        assert code_of(send(connection, read(3, key))) == (NONE, None)
        assert code_of(send(connection, write((0, 9, 2, 1), leader_epoch=3, key=key, count=10))) == (NONE, None)
        assert code_of(send(connection, write(leader_epoch=2, key=key)))[0] == ErrorCode.FENCED_LEADER_EPOCH
    made = configs(node, TOPIC)
    assert {name: made[name].value for name in ("cleanup.policy", "compression.type", "min.insync.replicas",
                                                "retention.ms", "retention.bytes", "segment.bytes")} == {
        "cleanup.policy": "delete", "compression.type": "producer", "min.insync.replicas": "1", "retention.ms": "-1",
        "retention.bytes": "-1", "segment.bytes": "104857600"}
    node.kill()
    node.start()
    with connect(node) as connection:
        wait_until(lambda: code_of(send(connection, summarize(key)))[0] == NONE, "the coordinator serves again")
        each = send(connection, read(3, key)).results[0].partitions[0]
        assert [(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in each.state_batches] == [(0, 9, 2, 1)]
        each = send(connection, summarize(key)).results[0].partitions[0]
        assert (each.state_epoch, each.leader_epoch, each.start_offset, each.delivery_complete_count) == (1, 3, 0, 10)
        assert code_of(send(connection, delete(key))) == (NONE, None)
        assert code_of(send(connection, read(3, key)))[0] == ErrorCode.INVALID_REQUEST


def test_nothing_is_served_while_share_groups_are_off(new_node: Any, name: str) -> None:
    node: NodeProcess = new_node()
    create(node, name)
    with connect(node) as connection:
        key = ShareKey("g", topic_id(connection, name), 0)
        updated = connection.send(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[
            FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)]), UpdateFeaturesResponse)
        assert updated.error_code == NONE
        for request in (initialize(key=key), read(key=key), write(key=key), summarize(key), delete(key)):
            wait_until(lambda sent=request: code_of(send(connection, sent))[0] == ErrorCode.UNSUPPORTED_VERSION,
                       "share groups are off")
        assert found(connection, key.text) == (ErrorCode.INVALID_REQUEST, -1)
