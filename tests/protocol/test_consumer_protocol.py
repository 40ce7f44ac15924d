"""The consumers' own messages inside JoinGroup and SyncGroup."""

import base64
import json

import pytest

from kraft.protocol.consumer_protocol import decode_assignment, decode_subscription, encode
from kraft.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kraft.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kraft_native.base.errors import MalformedMessageError
from tests.golden import golden, needs_golden


def test_there_and_back_in_every_version() -> None:
    for version in ConsumerProtocolSubscription.VERSIONS:
        subscription = ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"x")
        assert decode_subscription(encode(subscription, version)) == subscription
        assignment = ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="a", partitions=[0, 2])])
        assert decode_assignment(encode(assignment, version)) == assignment


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    subscription = ConsumerProtocolSubscription(topics=["a"], generation_id=4, rack_id="r")
    data = encode(subscription, 3)
    assert decode_subscription(b"\0\x09" + data[2:] + b"new fields") == subscription


def test_refusals() -> None:
    data = encode(ConsumerProtocolSubscription(topics=["a"]), 1)
    for bad in (b"", b"\0", b"\xff\xff" + data[2:], *(data[:size] for size in range(2, len(data)))):
        with pytest.raises(MalformedMessageError):
            decode_subscription(bad)


@needs_golden
def test_requests_of_real_clients() -> None:
    seen = set()
    for line in golden("wire", "JoinGroup.jsonl").read_text("utf-8").splitlines():
        frame = json.loads(line)
        if frame["library"] == "own-raw-client" or frame["request"]["protocolType"] != "consumer":
            continue
        for protocol in frame["request"]["protocols"]:
            subscription = decode_subscription(base64.b64decode(protocol["metadata"]))
            assert subscription.topics
            seen.add(frame["library"])
    assert len(seen) >= 4
