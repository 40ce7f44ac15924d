"""Plans: the steps of a reassignment, and what is dangerous about an order of steps."""

from itertools import combinations, pairwise

import pytest

from kraft.raft.planning import Change, QuorumState, check_order, reassignment_steps
from kraft.raft.reassignment import Add, HandOver, Remove
from kraft.raft.types import ReplicaKey
from tests.raft.world import key


def quorum_state(voters: tuple[int, ...], up: tuple[int, ...] | None = None, leader: int = 1) -> QuorumState:
    """Build the standing of a quorum; `up` are the replicas that are caught up, by default all."""
    keys = tuple(map(key, voters))
    return QuorumState(keys, key(leader), tuple(map(key, range(1, 10) if up is None else up)))


def order(text: str) -> list[Change]:
    return [Add(key(int(word[1:]))) if word[0] == "+" else Remove(key(int(word[1:]))) for word in text.split()]


def dangers(of: QuorumState, text: str) -> list[str]:
    return [step.danger for step in check_order(of, order(text))]


def test_the_example_of_the_kip() -> None:
    steps = reassignment_steps(quorum_state((1, 2, 3)), [key(4), key(5), key(6)])
    assert list(map(str, steps)) == ["add 4:d004", "remove 3:d003", "add 5:d005", "remove 2:d002", "add 6:d006",
                                     "hand over", "remove 1:d001"]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_plan_of_a_leader_is_safe_and_gets_there(count: int) -> None:
    for voters in combinations(range(1, 6), count):
        for size in (1, 2, 3, 4):
            for targets in combinations(range(1, 6), size):
                of = quorum_state(voters, leader=voters[0])
                steps = check_order(of, reassignment_steps(of, list(map(key, targets))))
                assert [step.danger for step in steps if step.danger] == []
                assert [each.after for each in steps[:-1]] == [each.before for each in steps[1:]]
                end = steps[-1].after.voters if steps else of.voters
                assert end == tuple(map(key, targets))


def test_a_step_changes_one_voter_at_most() -> None:
    of = quorum_state((1, 2, 3))
    steps = check_order(of, reassignment_steps(of, [key(7), key(8), key(9)]))
    for before, after in pairwise([of.voters, *(step.after.voters for step in steps)]):
        assert sum(each not in after for each in before) + sum(each not in before for each in after) <= 1
    assert isinstance(steps[-2].change, HandOver)


def test_figures() -> None:
    step, = check_order(quorum_state((1, 2, 3), up=(1, 2, 4)), order("+4"))
    assert (step.before.survives, step.after.survives) == (1, 1)
    assert (step.before.spare, step.after.spare) == (0, 0)
    assert (step.before.majority, step.after.majority) == (2, 3)


def test_dangers() -> None:
    three = quorum_state((1, 2, 3), up=(1, 2, 4, 5))
    assert dangers(three, "+4 -3") == ["", ""]
    assert "1 of 2 voters would be up, and 2 are needed: the quorum would stop" in dangers(three, "-2")[0]
    assert "0 failures would be survived, before and afterwards it is 1: add first" in dangers(three, "-3 +4")[0]
    assert dangers(three, "+3") == ["node 3 votes already"]
    assert dangers(three, "-4") == ["node 4 does not vote"]
    assert "node 6 is not caught up" in dangers(three, "+6")[0]
    assert dangers(quorum_state((1,)), "-1") == ["nobody would be left"]


def test_a_repair_is_no_danger() -> None:
    """A quorum that has stopped, or is about to, may be made smaller where that helps."""
    assert dangers(quorum_state((1, 2, 3), up=(1, 2)), "-3") == [""]
    assert dangers(quorum_state((1, 2, 3, 4), up=(1, 2)), "-4") == [""]


def test_a_replaced_disk_is_removed_first() -> None:
    of = QuorumState((key(1), key(2), key(3)), key(1), (key(1), key(2), key(3, 1)))
    steps = reassignment_steps(of, [key(1), key(2), key(3, 1)])
    assert steps == [Remove(key(3)), Add(key(3, 1))]
    assert isinstance(steps[1], Add)
    assert steps[1].key == ReplicaKey(3, key(3, 1).directory_id)
