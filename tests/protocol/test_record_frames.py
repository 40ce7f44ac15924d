"""Metadata records, coordinators' records and control records, against logs that Kafka wrote."""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kraft.protocol.consumer_protocol import decode_assignment, decode_subscription
from kraft.protocol.message import Message
from kraft.protocol.messages.end_txn_marker import EndTxnMarker
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.group_metadata_key import GroupMetadataKey
from kraft.protocol.messages.group_metadata_value import GroupMetadataValue
from kraft.protocol.messages.leader_change_message import LeaderChangeMessage
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.messages.transaction_log_key import TransactionLogKey
from kraft.protocol.messages.voters_record import TargetVoter, VotersRecord
from kraft.protocol.record_frames import (
    GROUPS,
    SHARE_STATES,
    TRANSACTIONS,
    decode_control,
    decode_record,
    encode_control,
    encode_record,
)
from kraft.protocol.record_types import METADATA_RECORDS, ControlType
from kraft.protocol.registry import message_class
from kraft_native.base.errors import InvalidArgumentError, MalformedMessageError, UnsupportedVersionError
from kraft_native.batch.records import Record, records
from tests.golden import golden, needs_golden
from tests.protocol.json_form import JsonForm, lower_keys

COORDINATORS = {each.topic: each for each in (GROUPS, TRANSACTIONS, SHARE_STATES)}


def normalized(value: dict[str, Any]) -> dict[str, Any]:
    """Return JSON of a value as Kafka's dump writes it.

    The dump also decodes the consumers' own messages inside group metadata, reduced to their topics and partitions.
    """
    value = lower_keys(value)
    for member in value.get("members", []):
        if isinstance(member["subscription"], str):
            member["subscription"] = decode_subscription(base64.b64decode(member["subscription"])).topics
            assigned = decode_assignment(base64.b64decode(member["assignment"])).assigned_partitions
            member["assignment"] = [{"topic": each.topic, "partitions": each.partitions} for each in assigned]
        else:
            member["subscription"] = member["subscription"]["topics"]
            member["assignment"] = member["assignment"]["assignedpartitions"]
    return value


def log_records(directory: Path, *, control: bool) -> Iterator[Record]:
    for path in sorted(directory.glob("*.log")):
        yield from records(path.read_bytes(), control=control)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def json_of(message: Message, version: int) -> dict[str, Any]:
    return JsonForm(type(message).__name__, version).write(message)


@needs_golden
@pytest.mark.parametrize("quorum", ["dynamic", "static"])
def test_the_metadata_log(quorum: str) -> None:
    expected = {line["offset"]: line for line in lines(golden("quorum", quorum, "expected", "records.jsonl"))}
    seen = set()
    for node in (1, 2, 3):
        directory = golden("quorum", quorum, f"node-{node}", "__cluster_metadata-0")
        data_offsets = {record.offset for record in log_records(directory, control=False)}
        for record in log_records(directory, control=True):
            line = expected[record.offset]
            seen.add(record.offset)
            assert record.value is not None
            if record.offset in data_offsets:
                message, version = decode_record(record.value)
                assert type(message).__name__.lower() == line["type"].replace("_", "").lower()
                assert encode_record(message, version) == record.value
            else:
                assert record.key is not None
                kind, message, version = decode_control(record.key, record.value)
                assert kind.name.replace("_", "").lower() == line["control"].lower()
                assert encode_control(kind, message, version) == (record.key, record.value)
            assert version == line.get("version", 0)
            assert json_of(message, version) == lower_keys(line["data"])
    assert len(seen) > 200


@needs_golden
def test_the_coordinators_topics() -> None:
    expected = {(line["partition"], line["offset"]): line
                for line in lines(golden("log", "expected", "internal-topics-decoded.jsonl")) if "key" in line}
    seen: Counter[str] = Counter()
    for directory in sorted(golden("log", "data").glob("__*")):
        coordinator = COORDINATORS[directory.name.rpartition("-")[0]]
        for record in log_records(directory, control=False):
            line = expected.pop((directory.name, record.offset), None)
            assert record.key is not None
            key = coordinator.decode_key(record.key)
            assert coordinator.encode_key(key) == record.key
            seen[coordinator.topic] += 1
            if line is not None:
                assert int(line["key"]["type"]) == key.API_KEY
                assert json_of(key, 0) == lower_keys(line["key"]["data"])
            if record.value is not None:
                value, version = coordinator.decode_value(key, record.value)
                assert coordinator.encode_value(value, version) == record.value
                if line is not None:
                    assert normalized(json_of(value, version)) == normalized(line["payload"]["data"])
                    assert version == int(line["payload"]["version"])
    assert not expected
    assert min(seen[topic] for topic in COORDINATORS) > 5


def test_every_metadata_record_goes_there_and_back() -> None:
    for kind, name in METADATA_RECORDS.items():
        for version in message_class(name).VERSIONS:
            message = message_class(name)()
            data = encode_record(message, version)
            assert data[:3] == bytes([1, kind, version])
            assert decode_record(data) == (message, version)


def test_bytes_that_are_no_metadata_record() -> None:
    good = encode_record(TopicRecord(name="t"), 0)
    with pytest.raises(UnsupportedVersionError, match="frame of version 2"):
        decode_record(b"\2" + good[1:])
    with pytest.raises(UnsupportedVersionError, match="type 99"):
        decode_record(b"\1\x63\0")
    with pytest.raises(UnsupportedVersionError, match="not 1"):
        decode_record(b"\1\2\1" + good[3:])
    with pytest.raises(MalformedMessageError, match="left over"):
        decode_record(good + b"\0")
    for size in range(len(good)):
        with pytest.raises(MalformedMessageError):
            decode_record(good[:size])
    with pytest.raises(InvalidArgumentError, match="FetchRequest"):
        encode_record(FetchRequest(), 12)
    with pytest.raises(UnsupportedVersionError):
        encode_record(TopicRecord(), 1)


def test_bytes_that_are_no_coordinators_record() -> None:
    with pytest.raises(InvalidArgumentError, match="TransactionLogKey is not a key of __consumer_offsets"):
        GROUPS.encode_key(TransactionLogKey())
    with pytest.raises(InvalidArgumentError, match="GroupMetadataKey is not a value"):
        GROUPS.encode_value(GroupMetadataKey(), 0)
    with pytest.raises(UnsupportedVersionError, match="type 99"):
        GROUPS.decode_key(b"\0\x63")
    with pytest.raises(UnsupportedVersionError):
        GROUPS.encode_value(GroupMetadataValue(), -1)
    key = GroupMetadataKey(group="g")
    assert GROUPS.encode_key(key) == b"\0\2\0\1g"
    for size in range(len(GROUPS.encode_key(key))):
        with pytest.raises(MalformedMessageError):
            GROUPS.decode_key(GROUPS.encode_key(key)[:size])
    for version in (-1, 5, 32767):
        with pytest.raises(UnsupportedVersionError):
            GROUPS.decode_value(key, version.to_bytes(2, "big", signed=True) + bytes(50))


def test_control_records() -> None:
    assert encode_control(ControlType.COMMIT, EndTxnMarker(coordinator_epoch=7)) == (b"\0\0\0\1", b"\0\0\0\0\0\7")
    key, value = encode_control(ControlType.LEADER_CHANGE, LeaderChangeMessage(leader_id=3), version=1)
    assert value[:6] == b"\0\1\0\0\0\3"
    assert decode_control(key, value) == (ControlType.LEADER_CHANGE, LeaderChangeMessage(version=1, leader_id=3), 1)
    with pytest.raises(InvalidArgumentError, match="LEADER_CHANGE"):
        encode_control(ControlType.LEADER_CHANGE, EndTxnMarker())
    with pytest.raises(UnsupportedVersionError, match="type 9"):
        decode_control(b"\0\0\0\x09", value)
    with pytest.raises(MalformedMessageError):
        decode_control(b"\0\0\0", value)
    with pytest.raises(MalformedMessageError):
        decode_control(key, value[:1])


def test_our_tags_in_a_voters_record() -> None:
    message = VotersRecord(target_voters=[TargetVoter(voter_id=4)], cluster_id="c")
    key, value = encode_control(ControlType.KRAFT_VOTERS, message)
    assert decode_control(key, value) == (ControlType.KRAFT_VOTERS, message, 0)
    assert encode_control(ControlType.KRAFT_VOTERS, VotersRecord())[1] == bytes([0, 0, 1, 0])
