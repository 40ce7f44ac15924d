"""Preview of changes of the voters: the steps of a reassignment, and how many failures the quorum survives before and
after each. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from kraft.raft.reassignment import Add, Done, HandOver, Remove, Wait, next_step
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import Voter, VoterSet
from kraft.structs import immutable

Change = Add | Remove | HandOver


@immutable
class Outlook:
    """Set of voters and how many failures it survives. `up` counts those that are caught up now. `survives`: how many
    voters may fail when all are up. `spare`: how many more may fail now, negative when too few are up to decide
    anything."""

    voters: tuple[ReplicaKey, ...]
    up: int

    @property
    def majority(self) -> int:
        return len(self.voters) // 2 + 1

    @property
    def survives(self) -> int:
        return len(self.voters) - self.majority

    @property
    def spare(self) -> int:
        return self.up - self.majority


@immutable
class PlannedStep:
    """Step of a plan. `danger`: why the change should not be made, empty when it may be."""

    change: Change
    before: Outlook
    after: Outlook
    danger: str = ""


@immutable
class QuorumState:
    """Current state of a quorum: the voters, the leader, and the replicas, voters or not, that have the whole log."""

    voters: tuple[ReplicaKey, ...]
    leader: ReplicaKey
    caught_up: tuple[ReplicaKey, ...]

    def outlook(self, voters: tuple[ReplicaKey, ...]) -> Outlook:
        return Outlook(voters, sum(key in self.caught_up for key in voters))


def reassignment_steps(quorum_state: QuorumState, targets: Sequence[ReplicaKey]) -> list[Change]:
    """Return the order in which a leader moves from the voters to the targets, when every target has caught up."""
    leader, voters = quorum_state.leader, VoterSet.of(*map(Voter, quorum_state.voters)).toward(tuple(targets))
    behind = [key for key in quorum_state.voters if key not in quorum_state.caught_up]
    changes: list[Change] = []
    while True:
        step = next_step(voters, leader, lambda key: key, behind)
        match step:
            case Add(key):
                voters = voters.with_voter(Voter(key))
            case Remove(key):
                voters = voters.without(key)
            case HandOver():
                leader = next(key for key in voters.keys if key in targets)
            case Done() | Wait():
                return changes
        changes.append(step)


def check_order(quorum_state: QuorumState, changes: Sequence[Change]) -> list[PlannedStep]:
    """Return each change in its order, with its danger: the quorum would stop, it would survive fewer failures than at
    both ends, or the change has no effect."""
    voters, steps = quorum_state.voters, []
    for change in changes:
        after = _changed(voters, change)
        steps.append(PlannedStep(change, quorum_state.outlook(voters), quorum_state.outlook(after),
                                 _misfit(quorum_state, voters, change)))
        voters = after
    least = min(quorum_state.outlook(quorum_state.voters).survives, quorum_state.outlook(voters).survives)
    return [step if step.danger else replace(step, danger=_danger(step, least)) for step in steps]


def _changed(voters: tuple[ReplicaKey, ...], change: Change) -> tuple[ReplicaKey, ...]:
    match change:
        case Add(key) if all(each.node_id != key.node_id for each in voters):
            return tuple(sorted((*voters, key)))
        case Remove(key):
            return tuple(each for each in voters if each != key)
    return voters


def _misfit(quorum_state: QuorumState, voters: tuple[ReplicaKey, ...], change: Change) -> str:
    match change:
        case Add(key):
            if any(each.node_id == key.node_id for each in voters):
                return f"node {key.node_id} votes already"
            if key not in quorum_state.caught_up:
                return f"node {key.node_id} is not caught up: it would raise the majority and not help to reach it"
        case Remove(key):
            if key not in voters:
                return f"node {key.node_id} does not vote"
            if len(voters) == 1:
                return "nobody would be left"
    return ""


def _danger(step: PlannedStep, least: int) -> str:
    after = step.after
    if after.spare < min(0, step.before.spare):
        return (f"{after.up} of {len(after.voters)} voters would be up, and {after.majority} are needed: the quorum "
                "would stop")
    if after.survives < least:
        return f"{after.survives} failures would be survived, before and afterwards it is {least}: add first"
    return ""
