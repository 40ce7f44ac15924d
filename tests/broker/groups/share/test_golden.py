"""The conversation of Kafka's share consumer and admin client with Kafka, repeated."""

import base64
import json
import re
from typing import Any
from uuid import UUID

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_request, decode_response_header
from kraft.protocol.messages.initialize_share_group_state_request import InitializeShareGroupStateRequest
from kraft.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.broker.groups.share.share_client import ShareNode, StoredState
from tests.golden import golden, needs_golden

pytestmark = needs_golden

TOPIC = UUID(bytes=base64.urlsafe_b64decode("jVS1TZA5RhGekbp9BTtSmA=="))
CONVERSATION = ("ShareGroupDescribe", "DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets")


def frames(name: str, library: str) -> list[dict[str, Any]]:
    lines = golden("wire", f"{name}.jsonl").read_text("utf-8").splitlines()
    return [frame for frame in map(json.loads, lines) if frame["library"] == library]


def repeat(node: ShareNode, frame: dict[str, Any]) -> None:
    """Send a golden request and expect the golden response. The words of an error's message are our own."""
    api, header, body = decode_request(bytes.fromhex(frame["request_hex"]))
    version = header.request_api_version
    response = node.call(api.request.decode(body, version), version, header.client_id)
    _, expected = decode_response_header(bytes.fromhex(frame["response_hex"]), api, version)
    assert worded(response) == worded(api.response.decode(expected, version)), frame["name"]


def worded(message: object) -> str:
    return re.sub(r"error_message='[^']+'", "error_message='words'", repr(message))


def test_a_members_life_and_what_operators_do_after_it() -> None:
    node = ShareNode()
    node.topics.change("ws", TOPIC, 1)
    joining, second = frames("ShareGroupHeartbeat", "java-clients")
    repeat(node, joining)
    node.advance(5_000)
    repeat(node, second)
    node.share.states["wire-share", TOPIC, 0] = StoredState(2, 2, 7)
    node.share.ends_of["ws", 0] = 10
    member_id = joining["request"]["memberId"]
    for name in CONVERSATION:
        if name == "AlterShareGroupOffsets":
            assert node.call(ShareGroupHeartbeatRequest(
                group_id="wire-share", member_id=member_id, member_epoch=-1), 1).error_code == ErrorCode.NONE
        [frame] = frames(name, "java-clients")
        repeat(node, frame)
    sent = [each for each in node.share.sent if isinstance(each, InitializeShareGroupStateRequest)]
    expected = [InitializeShareGroupStateRequest.decode(decode_request(bytes.fromhex(frame["request_hex"]))[2], 0)
                for frame in frames("InitializeShareGroupState", "kafka-node")]
    assert sent[0] == expected[0]
    assert sent[1].topics[0].partitions[0].start_offset == expected[1].topics[0].partitions[0].start_offset


@pytest.mark.parametrize("name", ["ShareGroupHeartbeat", *CONVERSATION])
def test_the_answers_of_a_broker_that_does_not_coordinate_the_group(name: str) -> None:
    node = ShareNode()
    node.coordinator.shards.resign(0)
    for frame in frames(name, "own-raw-client"):
        repeat(node, frame)
