"""Pruning, snapshots of idle share partitions, deleted topics; and that a load finds the same state after all of it."""

import random
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest

from kraft.broker.share_state import upkeep
from kraft.broker.share_state.state import ShareKey
from kraft.protocol.error_codes import ErrorCode
from tests.broker.node import Logs
from tests.broker.share_state.share_node import (
    ACKNOWLEDGED,
    CLICKS,
    GROUP,
    ORDERS,
    ShareNode,
    delete,
    initialize,
    read,
    state_read,
    write,
)

INTERVAL_MS = 300_000
KEYS = [ShareKey(GROUP, ORDERS, 0), ShareKey(GROUP, ORDERS, 1), ShareKey("other", CLICKS, 0)]


def state_of(node: ShareNode) -> Any:
    """Everything that outlives a restart, with what follows from it."""
    state = node.shard()
    return (list(state.states), [(each.snapshot(0), each.offset, each.updates) for each in state.states.values()],
            state.needed_count, {topic: set(keys) for topic, keys in state.keys_of.items()},
            upkeep.first_needed(state))


def loaded(node: ShareNode, end: int, begin: int) -> Any:
    """State of a coordinator that loads the records from `begin` to `end`."""
    logs = Logs(1)
    logs.records[0] = node.logs.records[0][:end]
    logs.committed[0] = end
    fresh = ShareNode.__new__(ShareNode)
    fresh.__dict__.update(node.__dict__)
    fresh.logs, fresh.pruned = logs, [begin]
    fresh.coordinator = fresh._new_coordinator()
    fresh.load()
    return fresh


def check(node: ShareNode) -> None:
    """The state in memory is that of the log. Of each prefix of the log, every part that pruning may leave has the same
    state."""
    end = len(node.logs.records[0])
    assert state_of(node) == state_of(loaded(node, end, node.pruned[0]))
    for prefix in range(end + 1):
        whole = loaded(node, prefix, 0)
        expected = state_of(whole)
        for begin in range(upkeep.first_needed(whole.shard()) + 1):
            assert state_of(loaded(node, prefix, begin)) == expected, f"records {begin} to {prefix}"


def steps(node: ShareNode) -> list[Callable[[], object]]:
    return [
        lambda: node.call(initialize(state_epoch=1, key=KEYS[0])),
        lambda: node.call(initialize(state_epoch=2, start_offset=3, key=KEYS[0])),
        lambda: node.call(write((0, 3, ACKNOWLEDGED, 1), state_epoch=-1, key=KEYS[0])),
        lambda: node.call(write((2, 5, 0, 2), state_epoch=-1, start_offset=2, key=KEYS[0])),
        lambda: node.call(read(leader_epoch=4, key=KEYS[0])),
        lambda: node.call(delete(KEYS[0])),
        lambda: node.call(initialize(key=KEYS[2])),
        lambda: node.advance(INTERVAL_MS),
    ]


def test_every_short_history_loads_to_its_state() -> None:
    count = len(steps(ShareNode()))
    for history in product(range(count), repeat=4):
        node = ShareNode(updates_per_snapshot=1)
        for step in history:
            steps(node)[step]()
        end = len(node.logs.records[0])
        assert state_of(node) == state_of(loaded(node, end, node.pruned[0])), history
        whole = loaded(node, end, 0)
        for begin in range(upkeep.first_needed(whole.shard()) + 1):
            assert state_of(loaded(node, end, begin)) == state_of(whole), history


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_load_to_their_state(seed: int) -> None:
    rng = random.Random(seed)
    node = ShareNode(updates_per_snapshot=rng.choice((0, 1, 2, 5)))
    for _ in range(60):
        random_step(rng, node)
    check(node)


def random_step(rng: random.Random, node: ShareNode) -> None:
    key, offset = rng.choice(KEYS), rng.randrange(20)
    rng.choice([
        lambda: node.call(initialize(rng.randrange(4), rng.randrange(-1, 9), key)),
        lambda: node.call(write((offset, offset + rng.randrange(4), rng.choice((0, 2, 4)), rng.randrange(1, 4)),
                                state_epoch=rng.randrange(-1, 4), leader_epoch=rng.randrange(-1, 4),
                                start_offset=rng.randrange(-1, 20), count=rng.randrange(-1, 5), key=key)),
        lambda: node.call(write((offset, offset, 2, 1), state_epoch=-1, leader_epoch=-1, key=key)),
        lambda: node.call(read(rng.randrange(-1, 5), key)),
        lambda: node.call(delete(key)) if rng.random() < 0.3 else None,
        lambda: node.advance(rng.choice((1_000, INTERVAL_MS))),
        node.fail_over,
    ])()


def test_the_log_is_pruned_below_the_oldest_needed_snapshot() -> None:
    node = ShareNode(updates_per_snapshot=2)
    for key in KEYS[:2]:
        node.call(initialize(key=key))
    for offset in range(7):
        node.call(write((offset, offset, 2, 1), key=KEYS[0]))
    node.advance(INTERVAL_MS - 1)
    assert node.pruned == [0]
    node.advance(1)
    assert node.pruned == [1], "the other share partition needs its only record"
    node.call(delete(KEYS[1]))
    node.advance(INTERVAL_MS)
    assert node.pruned[0] == node.shard().states[KEYS[0]].offset > 1
    assert state_of(node) == state_of(loaded(node, len(node.logs.records[0]), node.pruned[0]))


def test_an_uncommitted_snapshot_prunes_nothing_yet() -> None:
    """Another leader may not have it."""
    node = ShareNode(updates_per_snapshot=0)
    node.call(initialize())
    node.lag = True
    node.send(write((0, 0, 2, 1)))
    node.advance(INTERVAL_MS)
    assert node.pruned == [0]
    node.commit()
    assert node.pruned == [1]


def test_an_idle_share_partition_does_not_hold_the_log_indefinitely() -> None:
    node = ShareNode(updates_per_snapshot=3)
    for key in KEYS:
        node.call(initialize(key=key))
    for offset in range(40):
        node.call(write((offset, offset, 2, 1), key=KEYS[1]))
        node.advance(INTERVAL_MS // 10)
    assert node.pruned[0] > 20
    for key in (KEYS[0], KEYS[2]):
        assert state_read(node, key=key) == (1, -1, [])
    assert state_read(node, key=KEYS[1]) == (1, 0, [(0, 39, 2, 1)])
    # Nothing is written for nothing: an idle partition of the log stays as it is.
    node.advance(3 * INTERVAL_MS)
    end = len(node.logs.records[0])
    node.advance(20 * INTERVAL_MS)
    assert len(node.logs.records[0]) == end
    assert state_of(node) == state_of(loaded(node, end, node.pruned[0]))


def test_states_of_deleted_topics_are_deleted() -> None:
    node = ShareNode()
    keys = [ShareKey(f"group {number}", ORDERS, 0) for number in range(600)]
    for key in [*keys, KEYS[2]]:
        node.call(initialize(key=key))
    node.topics.change("orders", None)
    node.logs.error = ErrorCode.NOT_ENOUGH_REPLICAS
    node.coordinator.topics_deleted([ORDERS], node.now_ms)
    node.settle()
    assert len(node.shard().states) == 601
    node.logs.error = None
    node.advance(1_000)
    assert list(node.shard().states) == [KEYS[2]]
    assert max(end - begin for begin, end in pairwise(node.logs.batches[0])) < 300
    node.fail_over()
    assert list(node.shard().states) == [KEYS[2]]


def test_a_topic_that_was_deleted_under_another_coordinator_is_found_later() -> None:
    """A topic that the metadata does not have yet is not taken for a deleted one."""
    node = ShareNode()
    node.call(initialize(key=KEYS[0]))
    node.call(initialize(key=KEYS[2]))
    node.topics.change("orders", None)
    node.fail_over()
    node.advance(INTERVAL_MS)
    assert len(node.shard().states) == 2
    node.topics.change("orders", ORDERS, 8)
    node.advance(INTERVAL_MS)
    node.topics.change("orders", None)
    node.advance(INTERVAL_MS)
    assert len(node.shard().states) == 2
    node.advance(INTERVAL_MS)
    assert list(node.shard().states) == [KEYS[2]]


def test_a_node_that_is_behind_forgets_nothing() -> None:
    node = ShareNode()
    node.call(initialize(key=KEYS[0]))
    node.topics.change("orders", None)
    node.topics.is_current = False
    node.advance(5 * INTERVAL_MS)
    assert list(node.shard().states) == [KEYS[0]]
