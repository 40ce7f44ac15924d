"""The explorer visits each state once, distinguishes nodes only where they differ, and finds a fault by the shortest
path."""

from dataclasses import replace

import pytest

from kraft.raft.messages import AddVoterRequest
from kraft.testing.explore.frozen import NodeId, Renaming, freeze, thaw
from kraft.testing.explore.models import MODELS, Budget
from kraft.testing.explore.search import explore
from kraft.testing.explore.space import Space, State
from kraft.testing.explore.trace import replay
from kraft.testing.mutants.patches import planted
from kraft.testing.mutants.registry import MUTANTS
from kraft_native.base.errors import InvalidArgumentError

ELECTIONS = MODELS["elections"]

VOTES_AGAIN = """
1. time-out 1
2. time-out 2
3. deliver 1->3 VoteRequest candidate=1 epoch=0 log_end=0@0 voter=3 pre_vote=True
4. deliver 2->3 VoteRequest candidate=2 epoch=0 log_end=0@0 voter=3 pre_vote=True
5. deliver 3->1 VoteResponse granted=True pre_vote=True
6. deliver 3->2 VoteResponse granted=True pre_vote=True
7. deliver 1->3 VoteRequest candidate=1 epoch=1 log_end=0@0 voter=3
8. deliver 3->1 VoteResponse epoch=1 granted=True pre_vote=False
9. crash 1, 0 of its unflushed records kept
10. deliver 2->1 VoteRequest candidate=2 epoch=1 log_end=0@0 voter=1
"""


@pytest.mark.parametrize("name", MODELS)
def test_a_sample_holds(name: str) -> None:
    found = explore(MODELS[name], 500)
    assert found.trace is None
    assert found.states >= 500 > found.depth > 2
    assert not found.is_complete


def test_a_model_can_be_explored_to_its_end() -> None:
    """One time-out and no faults: one node may be elected, and nothing else can happen."""
    model = replace(ELECTIONS, voters=2, nodes=2, budget=Budget(timeouts=1))
    found = explore(model)
    assert found.is_complete
    assert found.trace is None
    again = explore(model)
    assert (again.states, again.transitions, again.depth) == (found.states, found.transitions, found.depth)


@pytest.mark.parametrize(("name", "invariant", "events"), [
    ("no-pre-vote", "NoEpochWithoutConsent", 1),
    ("votes-twice", "ValidRolesAndStates", 7),
])
def test_a_bug_is_found_by_the_shortest_way(name: str, invariant: str, events: int) -> None:
    with planted(MUTANTS[name]):
        trace = explore(ELECTIONS).trace
        assert trace is not None
        assert trace.violation is not None
        assert (trace.violation.name, len(trace.events)) == (invariant, events)
        assert explore(replace(ELECTIONS, depth_max=events - 1)).trace is None
        again = replay(Space(ELECTIONS), str(trace))
    assert str(again) == str(trace)
    without = replay(Space(ELECTIONS), "\n".join(str(trace).splitlines()[:-1]).rpartition(f"{events}. ")[0])
    assert without.violation is None
    assert without.events == trace.events[:-1]


def test_a_restarted_leader_votes_no_second_time() -> None:
    """The shortest path to a bug that seeds rarely meet, as the explorer found it."""
    with planted(MUTANTS["restarted-leader-votes-again"]):
        trace = replay(Space(ELECTIONS), VOTES_AGAIN)
    assert trace.violation is not None
    assert (trace.violation.name, len(trace.events)) == ("OneVotePerEpoch", 10)
    assert replay(Space(ELECTIONS), VOTES_AGAIN).violation is None


def test_an_observer_becomes_a_voter() -> None:
    """The model of that exploration begins with two voters; the third node can be added."""
    space = Space(MODELS["joining"])
    assert [space.thawed(number).raft.replica.is_voter for number in space.first[0]] == [True, True, False]
    [added] = [after for event, after in space.successors(space.first)
               if event.what == "change" and isinstance(event.argument, AddVoterRequest)]
    after = space.run_until(added, lambda nodes: all(each.applied == space_end(space) for each in nodes))
    assert [space.thawed(number).raft.replica.is_voter for number in after[0]] == [True, True, True]


def space_end(space: Space) -> int:
    """Log end when the voters were changed: their record follows the leader's first one."""
    return len(space.model.records) + 2


def test_an_event_that_cannot_happen_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="event 2: 'flushed 1'"):
        replay(Space(ELECTIONS), "1. time-out 1\n2. flushed 1\n")


def test_a_frozen_state_is_the_same_when_it_is_thawed() -> None:
    space = Space(MODELS["voters"])
    for state in walked(space, 150):
        for number in state[0]:
            assert space.thawed(number).frozen() == space.nodes.values[number]
        ledger = space.ledgers.values[state[2]]
        assert freeze(thaw(ledger)) == ledger


@pytest.mark.parametrize("name", MODELS)
def test_nodes_are_alike(name: str) -> None:
    """Renaming the nodes of a state and stepping it give the same in either order. So the names of nodes carry no
    information, and one state of those that differ only in them is enough."""
    space = Space(MODELS[name])
    renaming = Renaming(99, tuple(map(NodeId, (0, 2, 3, 1))), space.chains)
    for state in walked(space, 150):
        renamed = rename(space, state, renaming)
        after = sorted({rename(space, each, renaming) for _, each in space.successors(state)})
        assert after == sorted({each for _, each in space.successors(renamed)})
        assert space.representative(renamed) == space.representative(state)


def rename(space: Space, state: State, renaming: Renaming) -> State:
    nodes, exchanges, ledger, budget = state
    return (tuple(space.nodes.renamed(nodes[place], renaming) for place in renaming.places),
            tuple(space.exchanges.renamed(exchanges[place], renaming) for place in renaming.places),
            space.ledgers.renamed(ledger, renaming), budget)


def walked(space: Space, count: int) -> list[State]:
    """Return the states on some path that leads far."""
    states = [space.first]
    while len(states) < count:
        following = [after for _, after in space.successors(states[-1]) if after not in states]
        if not following:
            following = [space.first]
        states.append(following[len(states) * 7919 % len(following)])
    return states
