"""Requests about the stored state of share partitions, where a group begins, and its settings."""

from typing import Any
from uuid import UUID

import pytest

from kraft.broker.share_partitions.requests import (
    Stored,
    Write,
    error_for_clients,
    outcomes,
    read_request,
    stored_state,
    write_request,
)
from kraft.broker.share_partitions.settings import offset_reset, share_settings
from kraft.broker.share_partitions.start import duration_ms, start_offset
from kraft.config.effective import BrokerLayers
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import read_share_group_state_response as read
from kraft.protocol.messages import write_share_group_state_response as written

TOPIC = bytes(range(16))
DAY_MS = 86_400_000


def test_a_read_names_the_leader_epoch() -> None:
    request = read_request("grüße".encode(), TOPIC, 3, 8)
    assert request.group_id == "grüße"
    [topic] = request.topics
    assert topic.topic_id == UUID(bytes=TOPIC)
    assert [(part.partition, part.leader_epoch) for part in topic.partitions] == [(3, 8)]


def test_stored_batches_come_in_the_order_of_their_offsets() -> None:
    batches = [read.StateBatch(first_offset=first, last_offset=first + 4, delivery_state=2, delivery_count=1)
               for first in (10, 0)]
    response = read.ReadShareGroupStateResponse(results=[read.ReadStateResult(
        topic_id=UUID(bytes=TOPIC), partitions=[read.PartitionResult(
            partition=3, state_epoch=5, start_offset=0, state_batches=batches)])])
    assert stored_state(response) == Stored(0, 5, 0, [(0, 4, 2, 1), (10, 14, 2, 1)])
    assert stored_state(read.ReadShareGroupStateResponse()).error == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_write_has_all_partitions_of_a_group() -> None:
    other = bytes(16)
    request = write_request(b"g", [Write(TOPIC, 0, 1, 2, 10, 3, [(10, 12, 2, 1)]), Write(other, 1, 1, 2, 4, 0, []),
                                   Write(TOPIC, 5, 1, 2, 0, 2**40, [])])
    assert [(topic.topic_id.bytes, [part.partition for part in topic.partitions]) for topic in request.topics] == [
        (TOPIC, [0, 5]), (other, [1])]
    part = request.topics[0].partitions[0]
    assert (part.state_epoch, part.leader_epoch, part.start_offset, part.delivery_complete_count) == (1, 2, 10, 3)
    assert request.decode(request.encode(1), 1) == request
    response = written.WriteShareGroupStateResponse(results=[written.WriteStateResult(
        topic_id=UUID(bytes=TOPIC), partitions=[
            written.PartitionResult(partition=5, error_code=ErrorCode.NOT_COORDINATOR)])])
    assert list(outcomes(response)) == [(TOPIC, 5, ErrorCode.NOT_COORDINATOR)]


@pytest.mark.parametrize(("code", "wanted"), [
    (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
])
def test_errors_of_the_coordinator_as_clients_get_them(code: ErrorCode, wanted: ErrorCode) -> None:
    assert error_for_clients(code) is wanted


@pytest.mark.parametrize(("text", "ms"), [
    ("p1d", DAY_MS), ("pt1h", DAY_MS // 24), ("p2dt3h4m5.5s", 2 * DAY_MS + 11_045_500), ("pt0.001s", 1),
    ("-pt5s", 0), ("nonsense", 0),
])
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


class Log:
    """A partition with ten records from offset 5 on, one each second."""

    def earliest(self) -> tuple[int, int, int]:
        return 5, -1, 0

    def latest(self) -> tuple[int, int, int]:
        return 15, -1, 0

    def offset_for_time(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        second = -(-timestamp_ms // 1000)
        return None if second >= 10 else (5 + max(0, second), 1000 * second, 0)


@pytest.mark.parametrize(("reset", "offset"), [
    ("latest", 15), ("earliest", 5), ("by_duration:pt3s", 12), ("by_duration:p1d", 5), ("by_duration:pt0s", 15),
])
def test_a_new_group_begins_where_its_setting_says(reset: str, offset: int) -> None:
    log: Any = Log()
    assert start_offset(log, reset, 10_000) == offset


def test_settings_of_a_group_are_its_own_within_the_limits_of_the_brokers() -> None:
    def found(own: dict[str, str], **static: str) -> tuple[int, int, int, bool, bool]:
        made = share_settings(own, BrokerLayers(static={name.replace("_", "."): text for name, text in static.items()}))
        return made.lock_ms, made.locks_max, made.deliveries_max, made.committed, made.renews

    assert found({}) == (30_000, 2_000, 5, False, True)
    assert found({}, group_share_record_lock_duration_ms="20000") == (20_000, 2_000, 5, False, True)
    assert found({"share.record.lock.duration.ms": "1000", "share.partition.max.record.locks": "9999",
                  "share.delivery.count.limit": "3", "share.isolation.level": "read_committed",
                  "share.renew.acknowledge.enable": "false"}) == (15_000, 4_000, 3, True, False)
    assert offset_reset({}, BrokerLayers()) == "latest"
    assert offset_reset({"share.auto.offset.reset": "by_duration:PT1H"}, BrokerLayers()) == "by_duration:pt1h"
