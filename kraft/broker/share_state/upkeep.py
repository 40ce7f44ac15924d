"""Upkeep of one partition of `__share_group_state`, whose log would grow without end: no compaction cleans it.

- *Pruning* removes the records below the first one that a load needs. They end at the oldest of the last snapshots.
- A share partition that is idle, or *cold*, keeps its old snapshot, and with it all later records. It gets a new one
  where that frees more records than it costs.
- States of deleted topics are deleted: at once when the topic is, and later where this node led the partition after
  that. A topic is deleted when the metadata lacks it twice, an interval apart: a new leader's metadata may be behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final
from uuid import UUID

from kraft.broker.coordinator.errors import RefusedError

if TYPE_CHECKING:
    from kraft.broker.share_state.shard import ShareStateShard

AGAIN_MS: Final = 1_000
"""Pause after a write that failed."""
_PRUNING: Final = ("pruning",)
_COLD: Final = ("cold",)
_LOST: Final = ("lost",)


def schedule(state: ShareStateShard) -> None:
    """Begin the upkeep of a partition that serves now."""
    _schedule_pruning(state)
    _schedule_cold(state)


# -------------------------------------------------------------------- pruning

def _schedule_pruning(state: ShareStateShard) -> None:
    state.shard.after(_PRUNING, state.environment.config.prune_interval_ms, lambda: _prune(state))


def _prune(state: ShareStateShard) -> None:
    """Remove what no load needs, once everything that was appended until now is committed: a snapshot that is lost with
    its leader would be missing."""
    _schedule_pruning(state)
    offset = first_needed(state)
    if offset > state.pruned_offset:
        state.pruned_offset = offset
        state.shard.after_commit(lambda: state.environment.prune(state.shard.partition, offset))


def first_needed(state: ShareStateShard) -> int:
    """Return the offset of the first record that a load needs; the end of the log when it needs none."""
    return next((each.offset for each in state.states.values()), state.shard.end_offset)


# -------------------------------------------------------------------- cold share partitions

def _schedule_cold(state: ShareStateShard) -> None:
    state.shard.after(_COLD, state.environment.config.cold_interval_ms, lambda: _visit(state))


def _visit(state: ShareStateShard) -> None:
    """Begin a round: find deleted topics, and write snapshots where these free more records than they add."""
    topics = state.environment.topics
    if topics.is_current:
        missing = {each: None for each in state.keys_of if topics.topic_name(each) is None}
        forget_topics(state, [each for each in missing if each in state.unknown_topics])
        state.unknown_topics = missing
    redundant = state.shard.end_offset - first_needed(state) - state.needed_count
    if redundant > len(state.states):
        _snapshot_cold(state, state.now_ms)
    else:
        _schedule_cold(state)


def _snapshot_cold(state: ShareStateShard, began_ms: int) -> None:
    """Write as many snapshots as this tick has steps for; the next tick continues. Each moves its state to the end, so
    the first one that is not cold ends the round."""
    limit_ms = began_ms - state.environment.config.cold_interval_ms
    count = 1 + state.shard.steps_left
    cold = [key for key, each in islice(state.states.items(), count) if each.write_ms <= limit_ms]
    state.shard.steps_left -= max(0, len(cold) - 1)
    try:
        for key in cold:
            state.snapshot(key)
    except RefusedError:
        _schedule_cold(state)
        return
    if len(cold) < count:
        _schedule_cold(state)
    else:
        state.shard.after(_COLD, 0, lambda: _snapshot_cold(state, began_ms))


# -------------------------------------------------------------------- deleted topics

def forget_topics(state: ShareStateShard, topic_ids: Iterable[UUID]) -> None:
    """Delete the states of deleted topics, in later ticks."""
    for topic_id in topic_ids:
        state.lost_keys.update(state.keys_of.get(topic_id, {}))
    if state.lost_keys:
        state.shard.after(_LOST, 0, lambda: _delete_lost(state))


def _delete_lost(state: ShareStateShard) -> None:
    count = 1 + state.shard.steps_left
    some = list(islice(state.lost_keys, count))
    state.shard.steps_left -= max(0, len(some) - 1)
    try:
        state.remove([key for key in some if key in state.states])
    except RefusedError:
        state.shard.after(_LOST, AGAIN_MS, lambda: _delete_lost(state))
        return
    for key in some:
        state.lost_keys.pop(key, None)
    if state.lost_keys:
        state.shard.after(_LOST, 0, lambda: _delete_lost(state))
