"""Description of what a leader's change of the voters waits for."""

from typing import NamedTuple

from kraft.raft.membership import behind, can_continue, is_caught_up, is_reachable, is_settled, step_now
from kraft.raft.reassignment import Add, Done, HandOver, Remove, Wait
from kraft.raft.replica import Replica
from kraft.raft.roles import Leader, VoterChange
from kraft.raft.types import UNKNOWN_OFFSET, ReplicaKey
from kraft.raft.voters import RECONFIGURABLE


class Pending(NamedTuple):
    """`change`: the pending change of the voters. `waits_for`: what has to happen first."""

    change: str
    waits_for: str


def pending_change(replica: Replica) -> Pending | None:
    """Return the change that is in progress at this leader; None without one, and on a replica that does not lead."""
    leader = replica.role
    if not isinstance(leader, Leader):
        return None
    change = _what(replica, leader)
    if change is None:
        return None
    if not leader.is_established:
        return Pending(change, f"the first record of epoch {replica.epoch} to be committed: "
                               + _majority(replica, leader, leader.epoch_start))
    if not is_settled(replica):
        offset = replica.history.latest.offset
        return Pending(change, f"the record of the voters at offset {offset} to be committed: "
                               + _majority(replica, leader, offset))
    if leader.change is not None:
        return Pending(change, _admission(replica, leader, leader.change))
    return Pending(change, _reassignment(replica, leader))


def _what(replica: Replica, leader: Leader) -> str | None:
    voters, before = replica.voters, replica.history.before(replica.history.latest.offset).voters
    if leader.change is not None and leader.change.joining is not None:
        return f"adding voter {leader.change.joining.key}"
    if leader.reassignments:
        targets = leader.reassignments[-1].targets
        return "ending the reassignment" if targets is None else f"reassigning the voters to {_listed(targets)}"
    if voters.targets is not None:
        return f"reassigning the voters to {_listed(voters.targets)}"
    if leader.change is not None or not is_settled(replica):
        removed = [key for key in before.keys if key not in voters.keys]
        return f"removing voter {_listed(removed)}" if removed else "writing down the voters"
    return None


def _listed(keys: object) -> str:
    return ", ".join(map(str, keys))  # type: ignore[call-overload]


def _majority(replica: Replica, leader: Leader, offset: int) -> str:
    """Return which voters have the record at `offset`, and which lack it."""
    missing = []
    for voter in replica.voters.voters:
        progress = leader.progress.get(voter.key)
        end_offset = progress.end_offset if progress else UNKNOWN_OFFSET
        if voter.key.is_same(replica.config.key):
            end_offset = replica.flushed
        if end_offset <= offset:
            missing.append(voter.key)
    voters = replica.voters
    have = len(voters.voters) - len(missing)
    return (f"{have} of {len(voters.voters)} voters have it, {voters.majority} are needed"
            + (f", not yet {_listed(missing)}" if missing else ""))


def _admission(replica: Replica, leader: Leader, change: VoterChange) -> str:
    voter = change.joining
    if voter is None:
        return "nothing more"
    if not change.versions_known:
        return f"node {voter.key} to report its versions, at {voter.endpoints[0].host}:{voter.endpoints[0].port}"
    return _catching_up(replica, leader, voter.key)


def _catching_up(replica: Replica, leader: Leader, key: ReplicaKey) -> str:
    found = next((each for each in leader.progress if each.is_same(key)), None)
    if found is None or leader.progress[found].end_offset == UNKNOWN_OFFSET:
        return f"node {key}, which has not fetched from this leader"
    progress = leader.progress[found]
    if not is_reachable(replica, found):
        return f"node {found} to report its address (DiscoverBrokers, which Apache Kafka's controllers do not send)"
    if is_caught_up(replica, leader, found):
        return "nothing more"
    end_offset = replica.log.end.offset
    return (f"node {found} to catch up: it lacked {end_offset - progress.end_offset} of {end_offset} records when it "
            f"fetched {(replica.now_ms - progress.fetch_ms) / 1000:.1f} s ago")


def _reassignment(replica: Replica, leader: Leader) -> str:
    if replica.voters.targets is None or replica.history.latest.kraft_version < RECONFIGURABLE:
        return "nothing more"
    match step_now(replica, leader):
        case Wait(missing):
            return "; ".join(_catching_up(replica, leader, key) for key in missing)
        case Remove(key) if not can_continue(replica, leader, stay := replica.voters.without(key)):
            return (f"a majority of the voters without {key} to be reachable and caught up: {stay.majority} of "
                    f"{len(stay.voters)} are needed, not yet {_listed(behind(replica, leader, stay))}")
        case Add() | Remove() | HandOver() | Done() as step:
            return f"the leader to {step}"
