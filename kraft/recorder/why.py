"""Diagnosis: why there is no leader, why a voter is not caught up, why a change is pending. Each answer is a sentence.

It is derived from what the controllers report of themselves, so it works also where no node has the whole picture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, NamedTuple

from kraft.raft.transitions import Role
from kraft.recorder.entry import Entry, ids_of
from kraft.recorder.state import NodeState, states_of
from kraft.recorder.timeline import clock_text
from kraft.structs import mutable

CAUGHT_UP_MS: Final = 1000
"""A voter lags if it was last caught up longer ago than this."""
UNNAMED_DISK: Final = ":"
WANTS_TO_LEAD: Final = (Role.CANDIDATE, Role.PROSPECTIVE)


class Answer(NamedTuple):
    """One answer of the diagnosis.

    `about`: `leader`, `voter` or `change`. `node_id`: the voter or the leader, -1 for none. `is_well`: nothing is wrong
    or missing.
    """

    about: str
    node_id: int
    is_well: bool
    text: str


@mutable
class Situation:
    """Input of the diagnosis: `entries` of all nodes in the order of time.

    `running`: the nodes that answered just now, None when only files were read. `silent`: why a node did not answer, by
    its id.
    """

    entries: Sequence[Entry]
    running: Sequence[int] | None = None
    silent: Mapping[int, str] = field(default_factory=dict)
    states: dict[int, NodeState] = field(init=False)

    def __post_init__(self) -> None:
        self.states = states_of(self.entries)

    @property
    def present(self) -> list[NodeState]:
        """States that are evidence: of the nodes that answered, or of all nodes in the files."""
        return [state for node_id, state in self.states.items() if self.running is None or node_id in self.running]

    @property
    def leader(self) -> NodeState | None:
        """Leader of the highest epoch. A leader of a lower epoch may not have learned of the later one."""
        leaders = [state for state in self.present if state.role == Role.LEADER]
        return max(leaders, key=lambda state: state.epoch, default=None)

    @property
    def voters(self) -> list[str]:
        """Voters as the leader has them; without a leader, those of the longest log of the highest epoch."""
        if self.leader is not None:
            return self.leader.voters
        newest = max(self.present, key=lambda state: (state.epoch, state.end_offset), default=None)
        return [] if newest is None else newest.voters

    def has_disk(self, voter: str) -> bool:
        """Return whether the node that runs under a voter's id has the voter's disk."""
        disk = str(self.states[ids_of([voter])[0]].values.get("disk", voter))
        return UNNAMED_DISK not in voter or disk == voter


def answers(situation: Situation) -> list[Answer]:
    """Return the answers about the leader, each voter that does not lead, and the change of the voters."""
    leader = situation.leader
    found = [_about_leader(situation, leader)]
    if leader is not None:
        found += [_about_voter(situation, leader, voter) for voter in leader.voters
                  if ids_of([voter])[0] != leader.node_id]
    found.append(_about_change(situation, leader))
    return found


# --- the leader -------------------------------------------------------------------------------------------------------


def _about_leader(situation: Situation, leader: NodeState | None) -> Answer:
    if leader is None:
        if not situation.present:
            return Answer("leader", -1, False, "It is not known whether there is a leader: no controller answers"
                          + _reasons(situation.silent) + ".")
        return Answer("leader", -1, False, "There is no leader: " + _why_none(situation))
    since = f" since {clock_text(leader.role_ms)}: {leader.because}" if leader.role_ms >= 0 else ""
    text = f"Node {leader.node_id} leads epoch {leader.epoch}{since}."
    if leader.values.get("is_established", True):
        return Answer("leader", leader.node_id, True, text)
    missing = [str(each["disk"]) for each in leader.values["progress"]
               if str(each["disk"]) in leader.voters and each["fetched_ms"] < 0]
    return Answer("leader", leader.node_id, False, f"{text} It has not committed a record of that epoch yet, and "
                  f"decides nothing before{_by_name(', without contact in this epoch: ', missing)}.")


def _why_none(situation: Situation) -> str:
    voters = situation.voters
    if not voters:
        return ("no controller that answers knows the voters: it was formatted without initial controllers, and has "
                "not found a quorum.")
    ids, majority = ids_of(voters), len(voters) // 2 + 1
    wiped = [voter for voter, node_id in zip(voters, ids, strict=True)
             if node_id in situation.states and not situation.has_disk(voter)]
    answering = [node_id for voter, node_id in zip(voters, ids, strict=True)
                 if node_id in [state.node_id for state in situation.present] and voter not in wiped]
    if len(answering) < majority:
        silent = {node_id: why for node_id, why in situation.silent.items() if node_id in ids}
        answer = "answers" if len(answering) == 1 else "answer"
        return (f"{len(answering)} of {len(voters)} voters {answer}, {majority} are needed" + _reasons(silent)
                + _by_name("; on another disk than the one that votes: ", wiped) + ".")
    campaigning = [state for state in situation.present if state.role in WANTS_TO_LEAD]
    if campaigning:
        return " ".join(_campaigning(situation, state) for state in campaigning)
    return ("no node campaigns at the moment; " + "; ".join(
        f"node {state.node_id} is {state.role} in epoch {state.epoch} ({state.because or 'no cause is recorded'})"
        for state in situation.present if state.node_id in answering) + ".")


def _campaigning(situation: Situation, state: NodeState) -> str:
    values = state.values
    what = "requests pre-votes" if state.role == Role.PROSPECTIVE else "campaigns"
    parts = [f"node {state.node_id} {what} in epoch {state.epoch} ({state.because})"]
    granting = [node_id for node_id in values.get("granting", ()) if node_id != state.node_id]
    if granting:
        parts.append("granted by " + ", ".join(map(str, granting)))
    parts += [f"refused by {node_id}{_refusal(situation.entries, node_id, state.node_id)}"
              for node_id in values.get("refusing", ())]
    if values.get("unanswered"):
        parts.append("no answer from " + ", ".join(map(str, values["unanswered"])))
    return ", ".join(parts) + "."


def _refusal(entries: Sequence[Entry], voter_id: int, candidate_id: int) -> str:
    """Return a voter's last refusal of a candidate."""
    for entry in reversed(entries):
        if (entry.node_id == voter_id and entry.what in ("answers vote", "answers pre-vote")
                and ids_of([str(entry.values.get("candidate", "-1"))]) == [candidate_id] and "because" in entry.values):
            return f" ({entry.values['because']})"
    return ""


def _reasons(silent: Mapping[int, str]) -> str:
    return "".join(f"; node {node_id}: {why}" for node_id, why in silent.items())


def _by_name(text: str, names: Sequence[str]) -> str:
    return text + ", ".join(names) if names else ""


# --- a voter ----------------------------------------------------------------------------------------------------------


def _about_voter(situation: Situation, leader: NodeState, voter: str) -> Answer:
    node_id = ids_of([voter])[0]
    progress = next((each for each in leader.values.get("progress", ()) if each["disk"] == voter), None)
    if progress is None and leader.number < 0:
        return Answer("voter", node_id, True, f"Voter {node_id}: the files of the leader do not contain its progress.")
    if progress is not None and 0 <= progress["caught_up_ms"] <= CAUGHT_UP_MS:
        return Answer("voter", node_id, True, f"Voter {node_id} is caught up.")
    return Answer("voter", node_id, False, f"Voter {node_id} is not caught up: "
                  + _why_behind(situation, leader, voter, progress))


def _why_behind(situation: Situation, leader: NodeState, voter: str, progress: Mapping[str, Any] | None) -> str:
    node_id = ids_of([voter])[0]
    if node_id in situation.silent:
        return f"it does not answer ({situation.silent[node_id]})."
    state = next((each for each in situation.present if each.node_id == node_id), None)
    if state is None:
        return _fetches(leader, progress)
    if not situation.has_disk(voter):
        return (f"it runs on the disk {state.values['disk']}, and {voter} is the one that votes: remove that voter and "
                "add this one.")
    if state.leader_id != leader.node_id or state.epoch != leader.epoch:
        knows = "knows no leader" if state.leader_id < 0 else f"takes {state.leader_id} for the leader"
        return (f"it is {state.role} in epoch {state.epoch} and {knows}, while {leader.node_id} leads epoch "
                f"{leader.epoch}: the two do not reach each other.")
    if "download" in state.values:
        return f"it fetches a snapshot, {state.values['download']}."
    if int(state.values.get("flushed", 0)) < state.end_offset:
        return (f"it waits for its disk: its log ends at {state.end_offset} and is durable to "
                f"{state.values['flushed']}.")
    trouble = _trouble(situation.entries, node_id)
    return f"{trouble}; {_fetches(leader, progress)}" if trouble else _fetches(leader, progress)


def _fetches(leader: NodeState, progress: Mapping[str, Any] | None) -> str:
    if progress is None or progress["fetched_ms"] < 0:
        return f"it has not fetched from {leader.node_id} in this epoch."
    return (f"it fetched {progress['fetched_ms'] / 1000:.1f} s ago and lacks "
            f"{max(0, leader.end_offset - int(progress['end']))} of {leader.end_offset} records.")


def _trouble(entries: Sequence[Entry], node_id: int) -> str:
    """Return the last event of a follower, if it is a reason for its lag."""
    last = next((entry for entry in reversed(entries) if entry.node_id == node_id and entry.what != "state"), None)
    if last is not None and last.what in ("refuses records", "refuses divergence", "gives up snapshot"):
        return f"it {last.what}: {last.values.get('error') or last.values.get('why') or last.values.get('at')}"
    return ""


# --- a change ---------------------------------------------------------------------------------------------------------


def _about_change(situation: Situation, leader: NodeState | None) -> Answer:
    if leader is not None:
        pending = leader.values.get("pending")
        if pending is None:
            return Answer("change", leader.node_id, True, "No change of the voters is pending.")
        return Answer("change", leader.node_id, False,
                      f"A change of the voters is pending, {pending['change']}: it waits for {pending['waits_for']}.")
    targets = next((state.values["targets"] for state in situation.present if "targets" in state.values), None)
    if targets is None:
        return Answer("change", -1, True, "No change of the voters is known.")
    return Answer("change", -1, False, f"A change of the voters is pending, to {', '.join(targets)}: it continues when "
                                       "there is a leader.")
