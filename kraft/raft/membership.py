"""Changes of the voters: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter (KIP-853), and KIP-642's reassignment on top.

Every change is one Voters record that differs by one member from the one before. None is written while an earlier one
is uncommitted, nor before the leader has committed a record of its own epoch. Otherwise two leaders that do not know
each other's change could each find a majority (the bug of Raft's single-server changes, found in 2015).
"""

from base64 import urlsafe_b64encode
from dataclasses import replace
from typing import Final

from kraft.deadlines import NEVER_MS
from kraft.protocol.error_codes import ErrorCode
from kraft.raft import events
from kraft.raft.events import ChangeReason
from kraft.raft.messages import (
    AddVoterRequest,
    ChangeVotersResponse,
    Lost,
    ReassignVotersRequest,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VersionsRequest,
    VersionsResponse,
)
from kraft.raft.reassignment import Add, Done, HandOver, Remove, Step, next_step
from kraft.raft.records import Voters
from kraft.raft.replica import Replica
from kraft.raft.roles import Leader, Reassignment, VoterChange
from kraft.raft.types import NOBODY, UNKNOWN_OFFSET, ReplicaKey
from kraft.raft.voters import RECONFIGURABLE, VersionRange, Voter, VoterSet

TARGETS_MAX: Final = 128
"""Maximum of voters that a reassignment may request. They are kept in the log and compared in each step."""

Refusal = tuple[ErrorCode, str]


def founding(replica: Replica, voters: VoterSet) -> VoterSet:
    """Return the first voters as the first leader writes them: with the cluster id, which the leader creates if it has
    none (KIP-642). A created id is 16 random bytes in URL-safe base64, like Kafka's."""
    known = replica.cluster_id or voters.cluster_id
    generated_id = urlsafe_b64encode(replica.random_bytes(16)).rstrip(b"=").decode() if known is None else ""
    return replace(voters, cluster_id=known or generated_id)


# --- what may be changed, and when ------------------------------------------------------------------------------------


def _refusal(replica: Replica, request: Request, epoch: int) -> Refusal | None:
    """Return why the voters cannot be changed now; the codes and their order are Kafka's. REQUEST_TIMED_OUT: try
    again."""
    error = replica.leader_error(request, epoch)
    leader = replica.role
    if error is not ErrorCode.NONE or not isinstance(leader, Leader):
        return error, error.message
    if leader.change is not None:
        return ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is under way"
    if not leader.is_established:
        return ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed a record of its epoch yet"
    if replica.history.latest.kraft_version < RECONFIGURABLE:
        return ErrorCode.UNSUPPORTED_VERSION, "kraft.version 0 has no voters that can be changed"
    if not is_settled(replica):
        return ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed yet"
    return None


def is_settled(replica: Replica) -> bool:
    return replica.history.latest.offset < replica.high_watermark


def _supports(replica: Replica, versions: VersionRange) -> bool:
    return versions.lowest <= replica.history.latest.kraft_version <= versions.highest


def _write(replica: Replica, voters: VoterSet, reason: ChangeReason, detail: object = None) -> int:
    """Append the voters, which are in force at once. Return the offset of the record."""
    replica.note(events.VotersWritten(reason, detail))
    return replica.append_control([Voters(voters)])


def refuse(replica: Replica, source: int, correlation: int, refusal: Refusal) -> None:
    replica.note(events.VoterChangeRefused(*refusal))
    replica.answer(source, correlation, ChangeVotersResponse(error=refusal[0], text=refusal[1]))


# --- the requests -----------------------------------------------------------------------------------------------------


def handle_add(replica: Replica, source: int, correlation: int, request: AddVoterRequest) -> None:
    """Add a replica that follows the log already, as soon as it is caught up. Until then, and for at most `timeout_ms`,
    the request is pending."""
    refusal = _refusal(replica, request, replica.epoch)
    if refusal is None and replica.voters.targets is not None:
        refusal = ErrorCode.REASSIGNMENT_IN_PROGRESS, "the voters are being reassigned"
    if refusal is None and replica.voters.find(request.voter.key.node_id) is not None:
        refusal = ErrorCode.DUPLICATE_VOTER, f"node {request.voter.key.node_id} is a voter already"
    if refusal is None and (request.voter.key.node_id < 0 or not request.voter.endpoints):
        refusal = ErrorCode.INVALID_REQUEST, "a voter needs an id that is not negative, and an address"
    leader = replica.role
    if refusal is not None or not isinstance(leader, Leader):
        assert refusal is not None
        refuse(replica, source, correlation, refusal)
        return
    leader.change = VoterChange(
        source, correlation, replica.now_ms + request.timeout_ms, joining=request.voter,
        ack_when_committed=request.ack_when_committed)


def handle_remove(replica: Replica, source: int, correlation: int, request: RemoveVoterRequest) -> None:
    """Remove a voter, possibly the leader itself. A removed leader leads until the removal is committed, without
    counting itself."""
    refusal = _refusal(replica, request, replica.epoch)
    if refusal is None and replica.voters.targets is not None:
        refusal = ErrorCode.REASSIGNMENT_IN_PROGRESS, "the voters are being reassigned"
    remaining = replica.voters.without(request.voter)
    if refusal is None and (remaining == replica.voters or not remaining.voters):
        refusal = ErrorCode.VOTER_NOT_FOUND, f"{request.voter} is no voter, or the only one"
    leader = replica.role
    if refusal is not None or not isinstance(leader, Leader):
        assert refusal is not None
        refuse(replica, source, correlation, refusal)
        return
    leader.change = VoterChange(
        source, correlation, replica.now_ms + replica.config.request_timeout_ms,
        offset=_write(replica, remaining, ChangeReason.REMOVAL, request.voter))


def handle_update(replica: Replica, source: int, correlation: int, request: UpdateVoterRequest) -> None:
    """Update the address and versions of a voter. The answer is sent when the record is appended, as in Kafka: the
    voter's next Fetch is what commits it (KAFKA-19400 shows the consequences of waiting)."""
    refusal = _refusal(replica, request, request.epoch)
    if refusal is None and not replica.voters.has(request.voter.key):
        refusal = ErrorCode.VOTER_NOT_FOUND, f"{request.voter.key} is no voter"
    if refusal is None and not (request.voter.endpoints and _supports(replica, request.voter.kraft_versions)):
        refusal = ErrorCode.INVALID_REQUEST, "a voter needs an address, and to support the kraft.version in force"
    if refusal is not None:
        refuse(replica, source, correlation, refusal)
        return
    updated = replica.voters.with_voter(request.voter)
    if updated != replica.voters:
        _write(replica, updated, ChangeReason.REPORT, request.voter.key)
    replica.answer(source, correlation, ChangeVotersResponse())


def handle_reassign(replica: Replica, source: int, correlation: int, request: ReassignVotersRequest) -> None:
    """Set the targets of the voters, or clear them with None; answer when that is committed. A reassignment in progress
    does not block another (KIP-642): the new targets wait for its current step only."""
    error = replica.leader_error(request, replica.epoch)
    leader = replica.role
    if error is not ErrorCode.NONE or not isinstance(leader, Leader):
        refuse(replica, source, correlation, (error, error.message))
    elif replica.history.latest.kraft_version < RECONFIGURABLE:
        refuse(replica, source, correlation, (ErrorCode.UNSUPPORTED_VERSION, "kraft.version 0 has static voters"))
    elif request.targets is not None and len(request.targets) > TARGETS_MAX:
        refuse(replica, source, correlation, (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{len(request.targets)} ids: at most {TARGETS_MAX} are allowed"))
    elif request.targets is not None and not _is_possible(request.targets):
        refuse(replica, source, correlation, (
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{request.targets}: ids, none negative, each once, at least one"))
    else:
        leader.reassignments.append(
            Reassignment(source, correlation, replica.now_ms + request.timeout_ms, request.targets))


def _is_possible(targets: tuple[int, ...]) -> bool:
    return len(targets) > 0 and min(targets) >= 0 and len(dict.fromkeys(targets)) == len(targets)


def handle_versions_answer(replica: Replica, node_id: int, _request: Request, answer: Response | Lost) -> None:
    """Record the versions of kraft.version that the new voter supports."""
    leader = replica.role
    if not isinstance(leader, Leader) or leader.change is None or leader.change.joining is None:
        return
    change, voter = leader.change, leader.change.joining
    if voter.key.node_id != node_id:
        return
    if not isinstance(answer, VersionsResponse) or answer.error is not ErrorCode.NONE:
        replica.requests.back_off(node_id, replica.now_ms)
    elif _supports(replica, answer.kraft_versions):
        change.joining = replace(voter, kraft_versions=answer.kraft_versions)
        change.versions_known = True
    else:
        _finish(replica, leader, ErrorCode.INVALID_REQUEST, f"it supports kraft.version {answer.kraft_versions}")


# --- what the leader does about it ------------------------------------------------------------------------------------


def drive(replica: Replica, leader: Leader) -> bool:
    """Continue the change in progress; without one, correct the leader's own entry and continue the reassignment.

    Return whether the leader has to give up, because its removal is committed or it is the last voter to be removed.
    """
    if leader.at_rest is replica.history.latest and leader.change is None and not leader.reassignments:
        return False
    _answer_committed(replica, leader)
    _expire(replica, leader)
    if leader.change is not None:
        _admit(replica, leader, leader.change)
        return False
    if not leader.is_established or not is_settled(replica):
        return False
    if not replica.is_voter:
        return True
    if replica.history.latest.kraft_version >= RECONFIGURABLE:
        if _correct_own_entry(replica):
            return False
        if leader.reassignments or replica.voters.targets is not None:
            return _reassign(replica, leader)
    leader.at_rest = replica.history.latest
    return False


def deadline_ms(leader: Leader) -> int:
    times = [waiting.expires_ms for waiting in leader.reassignments]
    if leader.change is not None:
        times.append(leader.change.expires_ms)
    return min(times, default=NEVER_MS)


def _expire(replica: Replica, leader: Leader) -> None:
    if leader.change is not None and replica.now_ms >= leader.change.expires_ms:
        _finish(replica, leader, ErrorCode.REQUEST_TIMED_OUT, "not committed in time: it lags or does not answer")
    for waiting in [each for each in leader.reassignments if replica.now_ms >= each.expires_ms]:
        leader.reassignments.remove(waiting)
        refuse(replica, waiting.source, waiting.correlation, (ErrorCode.REQUEST_TIMED_OUT, "not committed in time"))


def _admit(replica: Replica, leader: Leader, change: VoterChange) -> None:
    """Append the new voter once it is known to fit and has caught up. Added earlier, it would raise the majority
    without helping to reach it."""
    voter = change.joining
    if voter is None or change.offset != UNKNOWN_OFFSET:
        return
    if not change.versions_known:
        if replica.may_send(voter.key.node_id):
            replica.send(voter.key.node_id, VersionsRequest(cluster_id=replica.cluster_id), voter.endpoints[0])
        return
    if is_caught_up(replica, leader, voter.key):
        change.offset = _write(replica, replica.voters.with_voter(voter), ChangeReason.ADDITION, voter.key)
        if not change.ack_when_committed:
            _reply(replica, change, ErrorCode.NONE, "")


def is_caught_up(replica: Replica, leader: Leader, key: ReplicaKey) -> bool:
    """Return whether a replica had everything within the last election time-out (KIP-642, observer promotion). It
    obtains what it still lacks sooner than an election would end."""
    progress = leader.progress.get(key)
    return progress is not None and 0 <= replica.now_ms - progress.caught_up_ms <= replica.config.election_timeout_ms


def _answer_committed(replica: Replica, leader: Leader) -> None:
    change = leader.change
    if change is not None and UNKNOWN_OFFSET != change.offset < replica.high_watermark:
        _finish(replica, leader, ErrorCode.NONE, "")
    for waiting in [each for each in leader.reassignments if UNKNOWN_OFFSET != each.offset < replica.high_watermark]:
        leader.reassignments.remove(waiting)
        replica.answer(waiting.source, waiting.correlation, ChangeVotersResponse())


def abandon(replica: Replica, leader: Leader) -> None:
    """Refuse the pending changes, because the leadership has ended. Their senders must query the next leader for the
    result."""
    if leader.change is not None:
        _finish(replica, leader, ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leadership has ended")
    for waiting in leader.reassignments:
        refuse(replica, waiting.source, waiting.correlation,
                (ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leadership has ended"))
    leader.reassignments.clear()


def _finish(replica: Replica, leader: Leader, error: ErrorCode, text: str) -> None:
    change = leader.change
    assert change is not None
    leader.change = None
    _reply(replica, change, error, text)


def _reply(replica: Replica, change: VoterChange, error: ErrorCode, text: str) -> None:
    if change.source != NOBODY:
        replica.answer(change.source, change.correlation, ChangeVotersResponse(error=error, text=text))
        change.source = NOBODY


def _correct_own_entry(replica: Replica) -> bool:
    """Announce a leader that was restarted at another address through the log; return whether a record was written."""
    config = replica.config
    mine = Voter(config.key, config.endpoints, config.kraft_versions)
    known = replica.voters.find(config.node_id)
    if not config.endpoints or known is None or known.key != config.key or known == mine:
        return False
    _write(replica, replica.voters.with_voter(mine), ChangeReason.OWN_ADDRESS)
    return True


def _reassign(replica: Replica, leader: Leader) -> bool:
    """Do one step of KIP-642's algorithm, after appending new targets. Return whether the leadership is to be handed
    over."""
    for waiting in [each for each in leader.reassignments if each.offset == UNKNOWN_OFFSET]:
        waiting.offset = _set_targets(replica, leader, waiting.targets)
        if not is_settled(replica):
            return False               # other pending requests wait for that record
    _answer_committed(replica, leader)
    if replica.voters.targets is None:
        return False
    step = step_now(replica, leader)
    match step:
        case Add(key):
            joined = replica.voters.with_voter(Voter(key, replica.addresses.endpoints(key.node_id)))
            _write(replica, joined, ChangeReason.STEP, step)
        case Remove(key) if can_continue(replica, leader, replica.voters.without(key)):
            _write(replica, replica.voters.without(key), ChangeReason.STEP, step)
        case Remove():
            pass                       # wait for the voters that are to stay, or for other targets
        case Done():
            _write(replica, replica.voters.toward(None), ChangeReason.STEP, step)
        case HandOver():
            replica.note(events.LeadershipHandedOver())
    return isinstance(step, HandOver)


def step_now(replica: Replica, leader: Leader) -> Step:
    """Return the next step toward the targets, as far as this leader can determine it now. The targets must exist."""

    def find_caught_up(target: ReplicaKey) -> ReplicaKey | None:
        keys = (key for key in leader.progress if is_reachable(replica, target) and key.is_same(target))
        return next((key for key in keys if is_caught_up(replica, leader, key)), None)

    return next_step(replica.voters, replica.config.key, find_caught_up, behind(replica, leader, replica.voters))


def is_reachable(replica: Replica, key: ReplicaKey) -> bool:
    """Return whether a voter could be reached: where voters have addresses, one without an address could never receive
    a vote request."""
    return not replica.config.endpoints or bool(replica.addresses.endpoints(key.node_id))


def can_continue(replica: Replica, leader: Leader, voters: VoterSet) -> bool:
    """Return whether a majority of these voters is reachable and caught up. KIP-642 does not require that. But to
    remove a voter that answers and keep those that do not would end the quorum for good if their disks are lost."""
    return len(voters.voters) - len(behind(replica, leader, voters)) >= voters.majority


def behind(replica: Replica, leader: Leader, voters: VoterSet) -> list[ReplicaKey]:
    """Return those of these voters that are not reachable or not caught up."""
    return [key for key in voters.keys
            if not (replica.config.key.is_same(key) or is_caught_up(replica, leader, key))]


def _set_targets(replica: Replica, leader: Leader, ids: tuple[int, ...] | None) -> int:
    """Append the targets; return the offset of their record. If they are set already, nothing is written."""
    targets = None if ids is None else tuple(_key_of(replica, leader, node_id) for node_id in ids)
    if replica.voters.targets == targets:
        return replica.history.latest.offset
    after = replica.voters.toward(targets)
    if ids is None:
        return _write(replica, after, ChangeReason.TARGETS_CANCELLED)
    return _write(replica, after, ChangeReason.TARGETS, ids)


def _key_of(replica: Replica, leader: Leader, node_id: int) -> ReplicaKey:
    """Return the disk that a target means. It is the one that fetched last, because the node's process has that disk
    now. For a voter that has not fetched it is the voter's own, otherwise any disk of that node."""
    if node_id == replica.config.node_id:
        return replica.config.key
    voter = replica.voters.find(node_id)
    known = [voter.key] if voter is not None else []
    known += [key for key in leader.progress if key.node_id == node_id]
    return max(known, key=lambda key: leader.progress[key].fetch_ms if key in leader.progress else -1,
               default=ReplicaKey(node_id))
