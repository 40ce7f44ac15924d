"""Elections: campaigning, voting, winning (KIP-595 with the pre-vote of KIP-996).

    Unattached -- election time-out --> Prospective -- majority of pre-votes --> Candidate -- majority --> Leader
                                             ^--------------- lost, or timed out ---------|
"""

from typing import Final

from kraft.deadlines import NEVER_MS
from kraft.protocol.error_codes import ErrorCode
from kraft.raft import leading
from kraft.raft.events import VoteAnswered, VoteRefusal
from kraft.raft.messages import (
    EndQuorumEpochRequest,
    Loss,
    Lost,
    Response,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.replica import Replica
from kraft.raft.roles import Candidate, Follower, Prospective, Refusal, Resigned, Unattached
from kraft.raft.searching import search
from kraft.raft.transitions import Cause
from kraft.raft.types import NOBODY

PRE_VOTES_MAX: Final = 4
"""Maximum number of pre-vote requests, within one campaign, to a voter that refuses."""

# --- campaigning ------------------------------------------------------------------------------------------------------


def drive_unattached(replica: Replica, role: Unattached) -> None:
    """Wait for the election time-out, and search for a leader meanwhile."""
    if replica.may_campaign and replica.now_ms >= role.election_ms:
        replica.become_prospective(Cause.ELECTION_TIMEOUT)
    else:
        search(replica)


def drive_prospective(replica: Replica, role: Prospective) -> None:
    if role.tally.is_won:
        replica.become_candidate(Cause.WON)
    elif role.tally.is_lost:
        _step_back(replica, Cause.LOST)
    elif replica.now_ms >= role.election_ms:
        _step_back(replica, Cause.ELECTION_TIMEOUT)
    else:
        _request_votes(replica, role)
        search(replica)


def _step_back(replica: Replica, cause: Cause) -> None:
    """Return to the role in which the replica fetches: a replica that was removed, and does not know it, finds the
    leader again. Both roles are also the back-off before the next pre-vote."""
    if replica.leader_id != NOBODY:
        replica.become_follower(replica.leader_id, (), cause)
    else:
        replica.become_unattached(cause)


def drive_candidate(replica: Replica, role: Candidate) -> None:
    """Count the votes. A candidate that cannot win any more waits a random time only, not for its time-out (KIP-595,
    gridlocked elections). Nor does it wait for a voter that cannot be reached or does not answer in time, because that
    may be the leader that died. Either way it requests pre-votes before it raises the epoch again."""
    if role.tally.is_won:
        leading.begin(replica, role.tally)
    elif replica.now_ms >= role.election_ms:
        replica.become_prospective(Cause.LOST if role.lost else Cause.ELECTION_TIMEOUT)
    else:
        if not role.lost:
            _request_votes(replica, role)
            role.tally.unreachable |= dict.fromkeys(filter(replica.requests.slowness, role.tally.unanswered))
            if role.tally.is_lost or role.tally.is_gridlocked:
                role.lost = True
                role.election_ms = min(role.election_ms, replica.lost_deadline_ms(role.tally))
        search(replica)


def _request_votes(replica: Replica, role: Prospective | Candidate) -> None:
    """Request the vote of every voter that has not answered yet, and a refused pre-vote again when that is due. A vote
    that was refused stays refused in its epoch."""
    for voter in role.tally.voters.voters:
        node_id = voter.key.node_id
        is_due = node_id in role.tally.unanswered or (
            isinstance(role, Prospective) and role.repeat_ms(node_id) <= replica.now_ms)
        if is_due and replica.may_send(node_id):
            replica.send(node_id, VoteRequest(
                cluster_id=replica.cluster_id, candidate=replica.config.key, epoch=replica.epoch,
                log_end=replica.log.end, voter=voter.key, pre_vote=isinstance(role, Prospective)))


def handle_vote_answer(replica: Replica, node_id: int, request: VoteRequest, answer: Response | Lost) -> None:
    """Count an answer. Ignore one to an earlier request: of another epoch, or to a pre-vote that is won by now."""
    role = replica.role
    is_pre_vote = isinstance(role, Prospective)
    if (not isinstance(role, Prospective | Candidate) or request.epoch != replica.epoch
            or request.pre_vote is not is_pre_vote):
        return
    if isinstance(answer, VoteResponse) and answer.error is ErrorCode.NONE:
        if is_pre_vote and answer.pre_vote is False:
            replica.become_candidate(Cause.NO_PRE_VOTE, node_id)
        else:
            role.tally.record(node_id, answer.granted)
            if isinstance(role, Prospective) and role.refusals is not None:
                _note_refusal(replica, role.refusals, node_id, granted=answer.granted)
    elif is_pre_vote and answer == Lost(Loss.UNSUPPORTED):
        replica.become_candidate(Cause.NO_PRE_VOTE, node_id)
    else:
        if answer == Lost(Loss.DISCONNECTED):
            role.tally.unreachable[node_id] = None
        replica.requests.back_off(node_id, replica.now_ms)


def _note_refusal(replica: Replica, refusals: dict[int, Refusal], node_id: int, *, granted: bool) -> None:
    """Plan when a voter that refused the pre-vote is queried again.

    When the leader's process ends, one of its followers notices first. The others still refuse then, and may have
    shorter logs. If the pre-vote were requested only once, no replica could be elected before the time-out. The pauses
    double, each with a random part, and the requests are counted: the voters do not drown in pre-votes.
    """
    count = 1 + (refusals[node_id].count if node_id in refusals else 0)
    pause_ms = replica.config.disconnect_grace_ms << count - 1
    is_over = granted or count >= PRE_VOTES_MAX
    refusals[node_id] = Refusal(
        count, NEVER_MS if is_over else replica.now_ms + pause_ms + replica.random_ms(1 + pause_ms // 4))


# --- voting -----------------------------------------------------------------------------------------------------------


def handle_vote(replica: Replica, source: int, correlation: int, request: VoteRequest) -> None:
    """Answer a vote or a pre-vote. Both raise the epoch when theirs is higher. On an error nothing changes.

    A voter that refuses a candidate for its shorter log, and knows no leader or has lost its own, campaigns soon. The
    candidate needs a leader, and can elect this replica.
    """
    error = _vote_error(replica, request)
    if error is not ErrorCode.NONE:
        replica.answer(source, correlation, VoteResponse(error=error, pre_vote=request.pre_vote))
        return
    replica.learn(request.epoch, NOBODY, source=request.candidate.node_id)
    granted = _is_granted(replica, request)
    refusal = (None, None) if granted else _why_refused(replica, request)
    if (request.pre_vote and not granted and isinstance(replica.role, Follower)
            and request.log_end.at_least(replica.log.end)):
        replica.role.refused_ms = replica.now_ms
    if refusal[0] is VoteRefusal.SHORTER_LOG:
        _campaign_in_place_of(replica, request.candidate.node_id)
    if granted and not request.pre_vote and replica.voted is None:
        replica.become_voted(request.candidate)
    replica.note(VoteAnswered(request.candidate, request.epoch, request.log_end, request.pre_vote, *refusal))
    replica.answer(source, correlation, VoteResponse(granted=granted, pre_vote=request.pre_vote))


def _campaign_in_place_of(replica: Replica, candidate_id: int) -> None:
    """Shorten the wait of a replica that knows no leader, or has lost its own: the candidate has a shorter log."""
    role = replica.role
    if isinstance(role, Follower) and role.losses > 0 and not role.has_fetched:
        role.fetch_ms = min(role.fetch_ms, replica.turn_ms(replica.leader_id, candidate_id))
    else:
        replica.campaign_soon()


def _vote_error(replica: Replica, request: VoteRequest) -> ErrorCode:
    end = request.log_end
    # A candidate has raised the epoch, so its log cannot hold records of it yet. A pre-vote has not raised it.
    epoch_is_possible = end.epoch <= request.epoch if request.pre_vote else end.epoch < request.epoch
    if replica.is_of_other_cluster(request):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if not replica.config.can_vote:
        return ErrorCode.INCONSISTENT_VOTER_SET
    if request.candidate.node_id < 0 or request.candidate.node_id == replica.config.node_id:
        return ErrorCode.INVALID_REQUEST
    if request.epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if min(end) < 0 or not epoch_is_possible or not replica.is_possible(request.epoch):
        return ErrorCode.INVALID_REQUEST
    if not replica.is_me(request.voter):
        return ErrorCode.INVALID_VOTER_KEY
    return ErrorCode.NONE


def _is_granted(replica: Replica, request: VoteRequest) -> bool:
    """Return whether the vote is granted.

    The candidate need not be a voter in this replica's log: its own log may be ahead, and refusing it could leave no
    voter electable. Pre-votes are not binding, so a replica that has voted, and a candidate, still grant them. A leader
    grants none, nor does a follower whose leader answers it.
    """
    role = replica.role
    is_up_to_date = request.log_end.at_least(replica.log.end)
    if request.pre_vote:
        match role:
            case Follower():
                return is_up_to_date and not role.has_fetched
            case Unattached() | Prospective() | Candidate() | Resigned():
                return is_up_to_date
        return False
    if not isinstance(role, Unattached | Prospective):
        return False
    if replica.voted is not None:
        return replica.voted == request.candidate
    return is_up_to_date and replica.leader_id == NOBODY


def _why_refused(replica: Replica, request: VoteRequest) -> tuple[VoteRefusal, object]:
    """Return the reason and its detail, for an operator that investigates why no leader is elected."""
    if not request.log_end.at_least(replica.log.end):
        return VoteRefusal.SHORTER_LOG, replica.log.end
    if replica.leader_id != NOBODY:
        return VoteRefusal.HAS_LEADER, replica.leader_id
    return (VoteRefusal.ROLE, replica.role.role) if replica.voted is None else (VoteRefusal.HAS_VOTED, replica.voted)


# --- after leading ----------------------------------------------------------------------------------------------------


def drive_resigned(replica: Replica, role: Resigned) -> None:
    """Announce to the voters that the epoch is over, then continue in the next one: in its own epoch the replica could
    only follow itself (KIP-996)."""
    if replica.now_ms >= role.election_ms:
        replica.become_unattached(Cause.ELECTION_TIMEOUT, replica.epoch + 1)
        return
    for node_id in role.unnotified:
        if replica.may_send(node_id):
            replica.send(node_id, EndQuorumEpochRequest(
                cluster_id=replica.cluster_id, epoch=replica.epoch, leader_id=replica.config.node_id,
                preferred=role.preferred, leader_endpoints=replica.config.endpoints))
    search(replica)


def handle_end_answer(
    replica: Replica, node_id: int, request: EndQuorumEpochRequest, answer: Response | Lost
) -> None:
    role = replica.role
    if not isinstance(role, Resigned) or request.epoch != replica.epoch:
        return
    if isinstance(answer, Lost):
        if answer.reason is Loss.DISCONNECTED:
            role.unreachable.append(node_id)
        replica.requests.back_off(node_id, replica.now_ms)
    elif node_id in role.unnotified:
        role.unnotified.remove(node_id)
