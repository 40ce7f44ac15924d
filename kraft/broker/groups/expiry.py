"""Expiry of unused offsets and empty groups.

An offset expires `offsets.retention.minutes` after its group became empty. In two cases that time counts from the
commit: in a group that no member ever joined, and for topics that a stable consumer group does not subscribe to. A
commit of an old client may carry its own time. A group without members is deleted with its last offset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from kraft.broker.coordinator.shard import Record
from kraft.broker.groups.classic.group import ClassicGroup, GroupState
from kraft.broker.groups.group_records import offset_record
from kraft.broker.groups.offsets import CommittedOffset
from kraft.broker.groups.shard import Group, GroupShard
from kraft.broker.groups.share.group import ShareGroup
from kraft.broker.groups.steps import Unit, new_key, units_of, visit

_KEY = ("expiry",)


def schedule(state: GroupShard) -> None:
    """Schedule the next visit of all offsets in `offsets.retention.check.interval.ms`. What cannot be written now is
    still due then."""
    state.shard.after(_KEY, state.config.offsets_retention_check_interval_ms, lambda: visit(
        state, _KEY, units_of(state, list(state.groups)), lambda units: expire(state, units),
        lambda _: schedule(state)))


def expire(state: GroupShard, units: Iterable[Unit]) -> None:
    """Delete expired offsets, and groups without any. Raises RefusedError; everything before the failure is written."""
    records: list[Record] = []
    for group_id, key in units:
        group = state.groups.get(group_id)
        if group is None:
            continue
        if key is None:
            state.shard.write(records)
            records = state.deletion_records(group_id) if _is_over(state, group) else []
            continue
        offset = state.offsets.get(group_id, *key)
        if (offset is not None and _is_expired(state, group, key[0], offset)
                and not state.offsets.is_pending(group_id, *key)):
            records.append(offset_record(group_id, *key, None, state.now_ms))
    state.shard.write(records)


def _is_over(state: GroupShard, group: Group) -> bool:
    if isinstance(group, ShareGroup):
        return False        # only an operator deletes one
    if state.offsets.of_group(group.group_id) or state.offsets.has_open_transactions(group.group_id):
        return False
    return group.state is GroupState.EMPTY if isinstance(group, ClassicGroup) else group.is_empty


def _is_expired(state: GroupShard, group: Group, topic: str, offset: CommittedOffset) -> bool:
    if isinstance(group, ShareGroup):
        return False        # an offset from before it was a share group belongs to nobody
    if group.is_subscribed_to(topic):
        return False
    if not isinstance(group, ClassicGroup) or group.protocol_type is None:
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


def delete_partitions(state: GroupShard, deleted: Collection[tuple[str, int]]) -> None:
    """Delete the offsets of deleted partitions, in every group, over as many ticks as that needs. Later commits stay:
    they are for a new topic of the same name."""
    end_offset = state.shard.end_offset

    def delete(units: Sequence[Unit]) -> None:
        state.shard.write([
            offset_record(group_id, *key, None, state.now_ms) for group_id, key in units
            if key is not None and key in deleted
            and ((offset := state.offsets.get(group_id, *key)) is None or offset.record_offset < end_offset)])

    key = new_key(state, "deleted partitions")
    state.shard.after(key, 0, lambda: visit(
        state, key, units_of(state, state.offsets.groups()), delete, lambda _: None))


def drop_states(state: GroupShard) -> None:
    """Remove deleted topics from the states of share groups, over as many ticks as that needs. The share coordinators
    delete the states of such topics themselves."""
    group_ids = [group_id for group_id, group in state.groups.items() if isinstance(group, ShareGroup)]
    if not group_ids:
        return
    # Imported here: a node without share groups starts without the classes of their records.
    from kraft.broker.groups.share.removing import drop_deleted_topics
    key = new_key(state, "deleted topics")
    units: Iterable[Unit] = ((group_id, None) for group_id in group_ids)
    state.shard.after(key, 0, lambda: visit(
        state, key, iter(units), lambda some: drop_deleted_topics(state, [group_id for group_id, _ in some]),
        lambda _: None))
