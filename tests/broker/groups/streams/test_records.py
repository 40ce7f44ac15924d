"""Records of streams groups: what is written is read back, and has Kafka's fields."""

import pytest

from kraft.broker.coordinator.shard import StoredRecord
from kraft.broker.groups.epochs import GroupEpoch, TargetEpoch
from kraft.broker.groups.group_records import ChangeReplay, decode, record_of
from kraft.broker.groups.streams.group import StreamsGroup
from kraft.broker.groups.streams.member import Current, Endpoint, MemberState, Properties
from kraft.broker.groups.streams.records import (
    Change,
    CurrentChange,
    EpochChange,
    MemberChange,
    TargetChange,
    TargetEpochChange,
    TopologyChange,
)
from kraft.broker.groups.streams.tasks import Held, TaskSet
from kraft.broker.groups.streams.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from kraft.protocol.messages.streams_group_current_member_assignment_key import StreamsGroupCurrentMemberAssignmentKey
from kraft.protocol.messages.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
    TaskIds,
)
from kraft.protocol.record_frames import GROUPS

TOPOLOGY = Topology(3, (
    Subtopology("1", ("b", "a"), (), (InternalTopic("log", 0, 2, (("k", "v"),)),), ("out",), (InternalTopic("in", 4),),
                (CopartitionGroup((0, 1), (), (0,)),)),
    Subtopology("0", ("c",))))
HELD = Held({"0": {1: 4, 2: 5}, "1": {0: 4}}, {"1": (3,)}, {"2": (0,)})
CHANGES: list[Change] = [
    MemberChange("m", Properties(None, "rack", "client", "/1.2.3.4", 60_000, 3, "process", Endpoint("host", 65_000),
                                 (("a", "b"), ("c", "d")))),
    MemberChange("m", Properties()),
    EpochChange(3, (("num.standby.replicas", "1"),), GroupEpoch(7, -5)),
    TargetEpochChange(TargetEpoch(6, 1_700_000_000_000)),
    TargetChange("m", TaskSet({"0": (1, 2)}, {"1": (3,)}, {"2": (0,)})),
    CurrentChange("m", Current(5, 4, MemberState.UNREVOKED_TASKS, HELD, Held({"3": {0: 1}}))),
    TopologyChange(TOPOLOGY),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: type(each).__name__)
def test_what_is_written_is_read_back(change: Change) -> None:
    record = record_of("g", change, 0)
    assert decode(StoredRecord(0, record.key, record.value)) == ChangeReplay("g", StreamsGroup, change)
    tombstone = decode(StoredRecord(0, record.key, None))
    assert isinstance(tombstone, ChangeReplay)
    assert tombstone.change[-1] is None


def test_tasks_without_epochs_count_as_got_in_the_members_epoch() -> None:
    key = StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id="m")
    value = StreamsGroupCurrentMemberAssignmentValue(member_epoch=9, state=77, active_tasks=[
        TaskIds(subtopology_id="0", partitions=[2, 1]),
        TaskIds(subtopology_id="1", partitions=[0, 1], assignment_epochs=[3])])
    found = decode(StoredRecord(0, GROUPS.encode_key(key), GROUPS.encode_value(value, 0)))
    assert isinstance(found, ChangeReplay)
    current = found.change[-1]
    assert current.assigned.active == {"0": {1: 9, 2: 9}, "1": {0: 9, 1: 9}}
    assert (current.epoch, current.state) == (9, MemberState.UNKNOWN)


def test_a_record_of_type_18_is_skipped() -> None:
    assert decode(StoredRecord(0, b"\0\x12\0\1g", b"\0\0")) is None
