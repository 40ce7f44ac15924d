"""Reassignments from any set of voters to any other: all pairs of sets of five nodes, and every leader."""

from itertools import combinations

import pytest

from kraft.raft.membership import is_caught_up
from kraft.raft.reassignment import Add, Done, HandOver, Remove, Step, Wait, next_step
from kraft.raft.roles import Leader
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import Voter, VoterSet
from tests.raft.world import World, key, voter

NODES = (1, 2, 3, 4, 5)
SETS = [ids for size in range(1, len(NODES) + 1) for ids in combinations(NODES, size)]


def everybody(target: ReplicaKey) -> ReplicaKey | None:
    return target


def walk(current: tuple[int, ...], targets: tuple[int, ...], leader: int) -> tuple[VoterSet, list[Step], list[int]]:
    """Carry out the steps; a hand-over makes the first target that votes the leader."""
    voters = VoterSet.of(*map(voter, current)).toward(tuple(map(key, targets)))
    steps: list[Step] = []
    sizes = [len(current)]
    while len(steps) < 20:
        step = next_step(voters, key(leader), everybody)
        steps.append(step)
        match step:
            case Add(added):
                voters = voters.with_voter(Voter(added))
            case Remove(removed):
                assert removed != key(leader), "the leader does not remove itself"
                voters = voters.without(removed)
            case HandOver():
                leader = next(node_id for node_id in voters.ids if node_id in targets)
            case Done():
                return voters, steps, sizes
        sizes.append(len(voters.voters))
    raise AssertionError(f"{current} to {targets} does not end: {steps}")


@pytest.mark.parametrize("current", SETS, ids=str)
def test_every_target_is_reached(current: tuple[int, ...]) -> None:
    for targets in SETS:
        for leader in current:
            voters, steps, sizes = walk(current, targets, leader)
            assert voters.ids == targets
            added = [node_id for node_id in targets if node_id not in current]
            removed = [node_id for node_id in current if node_id not in targets]
            assert len([step for step in steps if isinstance(step, Add)]) == len(added)
            assert len([step for step in steps if isinstance(step, Remove)]) == len(removed)
            assert len([step for step in steps if isinstance(step, HandOver)]) == (leader in removed)
            assert min(sizes) >= min(len(current), len(targets))
            assert max(sizes) <= max(len(current), len(targets)) + 1


def test_the_example_of_the_kip() -> None:
    _, steps, _ = walk((1, 2, 3), (4, 5, 6), leader=1)
    assert [str(step) for step in steps] == [
        "add 4:d004", "remove 3:d003", "add 5:d005", "remove 2:d002", "add 6:d006", "hand over", "remove 1:d001",
        "done"]


def test_it_waits_for_somebody_to_catch_up() -> None:
    voters = VoterSet.of(voter(1), voter(2)).toward((key(1), key(2), key(3), key(4)))
    assert next_step(voters, key(1), lambda target: None) == Wait((key(3), key(4)))
    assert next_step(voters, key(1), lambda target: target if target == key(4) else None) == Add(key(4))


def test_a_node_whose_disk_was_replaced_leaves_before_it_comes() -> None:
    voters = VoterSet.of(voter(1), voter(2), voter(3)).toward((key(1), key(2), key(3, disk=1)))
    assert next_step(voters, key(1), everybody) == Remove(key(3))
    voters = voters.without(key(3))
    assert next_step(voters, key(1), everybody) == Add(key(3, disk=1))


def test_the_voter_that_lags_leaves_first() -> None:
    """A majority without 3, which is caught up, would need 2, which is not."""
    voters = VoterSet.of(voter(1), voter(2), voter(3)).toward((key(4),))
    assert next_step(voters, key(1), everybody) == Remove(key(3))
    assert next_step(voters, key(1), everybody, [key(2)]) == Remove(key(2))
    assert next_step(voters, key(2), everybody, [key(1)]) == Remove(key(1))


def test_any_disk_matches_an_unspecified_one() -> None:
    voters = VoterSet.of(voter(1)).toward((ReplicaKey(1), ReplicaKey(2)))
    assert next_step(voters, key(1), lambda target: key(2, disk=7)) == Add(key(2, disk=7))
    voters = voters.with_voter(voter(2, disk=7))
    assert next_step(voters, key(1), everybody) == Done()


def test_a_replica_counts_as_caught_up_for_one_election_time_out() -> None:
    """KIP-642, observer promotion: one replication round must take less than the election time-out."""
    world = World(observers=(4,))
    world.elect(1)
    world.deliver()
    raft = world.raft(1)
    leader, timeout_ms = raft.replica.role, raft.replica.config.election_timeout_ms
    assert isinstance(leader, Leader)
    progress = leader.progress[key(4)]
    for caught_up_ms, expected in ((-1, False), (0, True)):
        progress.caught_up_ms = caught_up_ms
        for age_ms in (timeout_ms, timeout_ms + 1):
            raft.replica.now_ms = age_ms
            assert is_caught_up(raft.replica, leader, key(4)) is (expected and age_ms == timeout_ms)
    assert not is_caught_up(raft.replica, leader, key(5)), "it has never fetched"
