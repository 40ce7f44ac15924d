"""Table of role changes, from KIP-996. It is asserted at run time, a test walks it over every (role, cause) pair, and
it is rendered into `docs/internals/raft.md`.

Two sentences of the KIP shape it: "only Prospective state can transition to Candidate state", and "Resigned always
transition[s] to Unattached with epoch + 1". The KIP draws Voted as a role of its own. Released Kafka keeps the vote
inside Unattached, Prospective and Follower, and so does kraft. VOTED is a cause that leads to Unattached: a Prospective
gives up its campaign for the candidate that has its vote.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """Role of a replica in the election of a leader. Voter and observer are not roles: they follow from the voters in
    the log. An observer has only the roles Unattached, Follower and Resigned."""

    UNATTACHED = "Unattached"
    PROSPECTIVE = "Prospective"
    CANDIDATE = "Candidate"
    LEADER = "Leader"
    FOLLOWER = "Follower"
    RESIGNED = "Resigned"


class Cause(StrEnum):
    """Reason for which a role changes."""

    HIGHER_EPOCH = "learned of a higher epoch without a leader"
    LEADER_FOUND = "discovered a leader"
    VOTED = "granted a standard vote"
    ELECTION_TIMEOUT = "the election time-out expired"
    FETCH_TIMEOUT = "the fetch time-out expired"
    WON = "received a majority of votes"
    NO_PRE_VOTE = "a voter does not know pre-votes"
    LOST = "the election is lost"
    GAVE_UP = "gives up the leadership"


TRANSITIONS: Final[Mapping[Role, Mapping[Cause, tuple[Role, ...]]]] = {
    Role.UNATTACHED: {
        Cause.HIGHER_EPOCH: (Role.UNATTACHED,),
        Cause.LEADER_FOUND: (Role.FOLLOWER,),
        Cause.VOTED: (Role.UNATTACHED,),
        Cause.ELECTION_TIMEOUT: (Role.PROSPECTIVE,),
    },
    Role.PROSPECTIVE: {
        Cause.HIGHER_EPOCH: (Role.UNATTACHED,),
        Cause.LEADER_FOUND: (Role.FOLLOWER,),
        Cause.VOTED: (Role.UNATTACHED,),
        Cause.ELECTION_TIMEOUT: (Role.FOLLOWER, Role.UNATTACHED),
        Cause.WON: (Role.CANDIDATE,),
        Cause.NO_PRE_VOTE: (Role.CANDIDATE,),
        Cause.LOST: (Role.FOLLOWER, Role.UNATTACHED),
    },
    Role.CANDIDATE: {
        Cause.HIGHER_EPOCH: (Role.UNATTACHED,),
        Cause.LEADER_FOUND: (Role.FOLLOWER,),
        Cause.ELECTION_TIMEOUT: (Role.PROSPECTIVE,),
        Cause.WON: (Role.LEADER,),
        Cause.LOST: (Role.PROSPECTIVE,),
    },
    Role.LEADER: {
        Cause.HIGHER_EPOCH: (Role.UNATTACHED,),
        Cause.GAVE_UP: (Role.RESIGNED,),
    },
    Role.FOLLOWER: {
        Cause.HIGHER_EPOCH: (Role.UNATTACHED,),
        Cause.LEADER_FOUND: (Role.FOLLOWER,),
        Cause.FETCH_TIMEOUT: (Role.PROSPECTIVE,),
    },
    Role.RESIGNED: {
        Cause.HIGHER_EPOCH: (Role.UNATTACHED,),
        Cause.LEADER_FOUND: (Role.FOLLOWER,),
        Cause.ELECTION_TIMEOUT: (Role.UNATTACHED,),
    },
}


def check_transition(role: Role, cause: Cause, target: Role) -> None:
    """Assert that the table has this change."""
    assert target in TRANSITIONS[role].get(cause, ()), f"{role} does not become {target} because it {cause}"


def render() -> str:
    """Return the table for the documentation: a row for each cause, a column for each role."""
    lines = ["| " + " | ".join(["cause", *Role]) + " |", "|---" * (len(Role) + 1) + "|"]
    for cause in Cause:
        cells = [" or ".join(TRANSITIONS[role].get(cause, ())) or "-" for role in Role]
        lines.append("| " + " | ".join([cause, *cells]) + " |")
    return "\n".join(lines)
