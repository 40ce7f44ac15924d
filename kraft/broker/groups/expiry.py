"""Offsets that nobody needs any more, and groups that have nothing left.

An offset expires `offsets.retention.minutes` after its group became empty; in a group that nobody ever joined, and for
topics that a stable consumer group does not subscribe to, after it was committed. A commit of an old client may name
its own time. A group without members whose last offset is gone is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.shard import Record
from kraft.broker.groups.foreign import ForeignGroup
from kraft.broker.groups.group import ClassicGroup, GroupState
from kraft.broker.groups.group_records import offset_record
from kraft.broker.groups.offsets import CommittedOffset
from kraft.broker.groups.shard import GroupShard

_KEY = ("expiry",)

# One turn looks at this many groups, and a batch has this many tombstones at most.
GROUPS_PER_TURN = 256
RECORDS_PER_BATCH = 1_000


def schedule(state: GroupShard) -> None:
    """The next look at everything is due after `offsets.retention.check.interval.ms`."""
    state.shard.after(_KEY, state.config.offsets_retention_check_interval_ms, lambda: _run(state, list(state.groups)))


def _run(state: GroupShard, group_ids: Sequence[str]) -> None:
    """Expires what is due in some groups, and leaves the others to the next turn."""
    for group_id in group_ids[:GROUPS_PER_TURN]:
        try:
            expire_group(state, group_id)
        except RefusedError:
            break       # what could not be written now is still due at the next look
    else:
        if rest := group_ids[GROUPS_PER_TURN:]:
            state.shard.after(_KEY, 0, lambda: _run(state, rest))
            return
    schedule(state)


def expire_group(state: GroupShard, group_id: str) -> None:
    """Deletes the expired offsets of one group, and the group with the last one. Raises RefusedError."""
    group = state.groups.get(group_id)
    if group is None:
        return
    records = []
    all_gone = not state.offsets.has_open_transactions(group_id)
    for topic, partitions in state.offsets.of_group(group_id).items():
        for partition, offset in partitions.items():
            if (_is_expired(state, group, topic, offset)
                    and not state.offsets.is_pending(group_id, topic, partition)):
                records.append(offset_record(group_id, topic, partition, None, state.now_ms))
            else:
                all_gone = False
    if all_gone and (group.is_empty if isinstance(group, ForeignGroup) else group.state is GroupState.EMPTY):
        records += state.deletion_records(group_id)
    write_in_batches(state, records)


def _is_expired(state: GroupShard, group: ClassicGroup | ForeignGroup, topic: str, offset: CommittedOffset) -> bool:
    if isinstance(group, ForeignGroup):
        if not group.is_empty:
            return False
        base_ms = offset.commit_timestamp_ms
    elif group.is_subscribed_to(topic):
        return False
    elif group.protocol_type is None:
        base_ms = offset.commit_timestamp_ms
    elif group.state is GroupState.EMPTY:
        base_ms = offset.commit_timestamp_ms if group.state_timestamp_ms is None else group.state_timestamp_ms
    elif group.is_consumer_type and group.subscribed_topics is not None and group.state is GroupState.STABLE:
        base_ms = offset.commit_timestamp_ms
    else:
        return False
    if offset.expire_timestamp_ms != -1:
        return state.now_ms >= offset.expire_timestamp_ms
    return state.now_ms - base_ms >= state.config.offsets_retention_ms


def delete_partitions(state: GroupShard, partitions: Iterable[tuple[str, int]]) -> None:
    """Deletes the offsets of partitions that were deleted, in every group. Raises RefusedError."""
    deleted = list(dict.fromkeys(partitions))
    records = []
    for group_id in state.offsets.groups():
        records += [offset_record(group_id, topic, partition, None, state.now_ms) for topic, partition in deleted
                    if state.offsets.get(group_id, topic, partition) is not None
                    or state.offsets.is_pending(group_id, topic, partition)]
    write_in_batches(state, records)


def write_in_batches(state: GroupShard, records: Sequence[Record]) -> None:
    """Writes tombstones, each of which stands for itself. Raises RefusedError; batches before it are written."""
    for start in range(0, len(records), RECORDS_PER_BATCH):
        state.shard.write(records[start:start + RECORDS_PER_BATCH])
