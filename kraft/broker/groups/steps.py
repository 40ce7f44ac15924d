"""Work on every offset of some groups, divided over several ticks so that other requests are served meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from kraft.broker.coordinator.errors import RefusedError
from kraft.broker.coordinator.timers import Key
from kraft.broker.groups.shard import GroupShard
from kraft.protocol.error_codes import ErrorCode

# Work of one step: an offset of a group by topic and partition, or, after its offsets, the group itself (None).
Unit: TypeAlias = tuple[str, tuple[str, int] | None]


def units_of(state: GroupShard, group_ids: Iterable[str]) -> Iterator[Unit]:
    """Yield the units of these groups. Offsets and groups may change meanwhile."""
    for group_id in group_ids:
        for key in state.offsets.keys_of_group(group_id):
            yield group_id, key
        yield group_id, None


def new_key(state: GroupShard, name: str) -> Key:
    """Return the key of a timer, unique among work of the same kind."""
    return name, str(state.shard.timers.armed)


def visit(state: GroupShard, key: Key, units: Iterator[Unit], act: Callable[[Sequence[Unit]], None],
          end: Callable[[ErrorCode], None]) -> None:
    """Act on as many units as this tick has steps, and leave the others to the next tick, by the timer `key`. `end` is
    called after the last unit, or with the error when a write failed."""
    count = 1 + state.shard.steps_left
    due = list(islice(units, count))
    state.shard.steps_left -= max(0, len(due) - 1)
    try:
        act(due)
    except RefusedError as refused:
        end(refused.error)
        return
    if len(due) < count:
        end(ErrorCode.NONE)
    else:
        state.shard.after(key, 0, lambda: visit(state, key, units, act, end))
