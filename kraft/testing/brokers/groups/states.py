"""State of a group coordinator as a value, and the judge of `__consumer_offsets`: a load from the log, or from the
compacted log, has the state of the leader."""

from collections.abc import Sequence
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

from kraft.broker.coordinator.loading import load_batches
from kraft.broker.coordinator.shard import Producer, Record, Shard
from kraft.broker.coordinator.shards import Shards
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.consumer.group import ConsumerGroup
from kraft.broker.groups.ports import Environment
from kraft.broker.groups.shard import GroupShard
from kraft.testing.brokers.log_view import WALL_MS
from kraft.testing.sim.violation import ViolationError
from kraft_native.facade.log import Log
from kraft_native.segment.config import LogConfig

READ_BYTES = 1 << 20


class _NoAppends:
    """Port of a coordinator that only loads."""

    def append(self, partition: int, records: Sequence[Record], producer: Producer | None = None) -> int:
        raise AssertionError(f"a load appends {len(records)} records to partition {partition} for {producer}")

    def watch(self, partition: int, end_offset: int) -> None:
        raise AssertionError(f"a load watches partition {partition} for {end_offset}")


def state_of(state: GroupShard) -> dict[str, Any]:
    """Return what outlives a fail-over, by group. Of a classic group that is its last recorded generation; a group that
    is between two of them is left out."""
    found: dict[str, Any] = {}
    for group_id, group in state.groups.items():
        if isinstance(group, ConsumerGroup):
            found[group_id] = ("consumer", group.epoch, group.metadata_hash, group.target_epoch,
                               group.target_computed_ms, group.subscriptions, group.currents, group.targets,
                               group.regexes, group.owners, group.static_members, group.classic_count)
        elif isinstance(group, ClassicGroup) and group.state in (GroupState.STABLE, GroupState.EMPTY):
            found[group_id] = ("classic", group.generation_id, group.protocol_name, group.leader_id, {
                each.member_id: (each.assignment, each.group_instance_id) for each in group.members.values()})
    for group_id in state.offsets.groups():
        found[f"offsets of {group_id}"] = {
            (topic, index): (offset.offset, offset.metadata, offset.topic_id)
            for topic, parts in state.offsets.of_group(group_id).items() for index, offset in parts.items()}
    return found


def loaded(log: Log, environment: Environment) -> dict[str, Any]:
    """Return the state that a coordinator loads from the whole log."""
    made: list[GroupShard] = []

    def make(shard: Shard) -> GroupShard:
        made.append(GroupShard(shard, environment))
        return made[-1]

    shards: Shards[GroupShard] = Shards(_NoAppends(), make, 0)
    shards.start_load(0, 0)
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, READ_BYTES, "log_end")
        before = offset
        for end in load_batches(shards, 0, piece):
            offset = end
        if offset == before:
            break
    return state_of(made[0])


def judge_log(name: str, state: GroupShard, source: Path, target: Path) -> int:
    """Check LoadIsTheSame and SameAfterCompaction on a copy of the leader's log in `source`, which lies in `target`
    meanwhile. Return the number of bytes that the compaction removed."""
    copytree(source, target)
    try:
        config = LogConfig(cleanup_policy="compact", high_watermark="auto", delete_retention_ms=0)
        with Log(target, config) as copy:
            _compare("LoadIsTheSame", name, state, loaded(copy, state.environment))
            size = copy.size_bytes
            copy.roll()
            copy.compact(WALL_MS, force=True)
            _compare("SameAfterCompaction", name, state, loaded(copy, state.environment))
            return size - copy.size_bytes
    finally:
        rmtree(target)


def _compare(invariant: str, name: str, state: GroupShard, found: dict[str, Any]) -> None:
    expected = state_of(state)
    for key in sorted({**expected, **found}):
        is_between = key in state.groups and key not in expected
        if not is_between and expected.get(key) != found.get(key):
            raise ViolationError(invariant, f"{name}: {key} is {found.get(key)} after a load, {expected.get(key)} in "
                                            "the leader")
