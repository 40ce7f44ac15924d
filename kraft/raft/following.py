"""Following: fetching the leader's log, truncating what diverges from it, and searching for the leader.

A Fetch acknowledges everything below its offset, so none is sent while the log is not durable to its end.
"""

from kraft.protocol.error_codes import ErrorCode
from kraft.raft import events
from kraft.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    Loss,
    Lost,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
)
from kraft.raft.ready import FollowLease, Outcome, OutgoingRequest
from kraft.raft.replica import Replica
from kraft.raft.roles import Download, Follower
from kraft.raft.searching import (
    announce,
    campaigns,
    inquiry_answered,
    next_fetch,
    query_bootstrap_servers,
    query_next_voter,
    searches,
)
from kraft.raft.snapshots import install, request_part
from kraft.raft.transitions import Cause
from kraft.raft.types import NOBODY, UNKNOWN_OFFSET, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import RECONFIGURABLE, Voter
from kraft_native.base.errors import ProtocolError


def drive(replica: Replica, role: Follower) -> None:
    """Campaign when the leader has not answered for too long; fetch as long as an answer is possible.

    While the leader does not answer, the follower also searches: every address that it knows may be outdated. A voter
    that will campaign queries the bootstrap servers only; it sends the voters its pre-vote requests.

    It does neither while it checks a snapshot that it has fetched, because the result would be lost with the role. If
    the leader does not answer meanwhile, another voter gets this one's pre-vote.
    """
    if role.download is not None and role.download.is_whole:
        if not install(replica, role, role.download):
            role.has_fetched = role.has_fetched and replica.now_ms < role.fetch_ms
            return
        role.fetch_ms = replica.now_ms + replica.config.fetch_timeout_ms    # it has sent nothing meanwhile
    if replica.now_ms >= role.fetch_ms and campaigns(replica, role):
        replica.become_prospective(Cause.FETCH_TIMEOUT)
        return
    if searches(replica):
        query_bootstrap_servers(replica)
        if not campaigns(replica, role):
            query_next_voter(replica, role)
    if not replica.is_durable or not replica.may_send(replica.leader_id):
        return
    if role.download is not None:
        request_part(replica, role.download)
    elif replica.now_ms < role.update_voter_ms or not _announce_address(replica, role):
        replica.send(replica.leader_id, next_fetch(replica, replica.config.fetch_max_wait_ms))


def lease(replica: Replica, role: Follower, *, is_flushing: bool) -> FollowLease | None:
    """Return the lease of a follower whose next request to the leader, or whose pending one, is the Fetch from the log
    end; None for any other. A Fetch that is not sent yet counts as pending from here on. `is_flushing`: a flush up to
    the log end is in progress."""
    node_id, end_offset = replica.leader_id, replica.log.end.offset
    if replica.now_ms >= role.fetch_ms or replica.now_ms >= role.update_voter_ms or role.download is not None:
        return None
    pending = replica.requests.pending(node_id)
    if pending is None and is_flushing and replica.may_send(node_id):
        return FollowLease(node_id, replica.epoch, end_offset, _registered(replica), is_sent=False)
    request = next_fetch(replica, replica.config.fetch_max_wait_ms)
    if pending is None or is_flushing or pending[1] != request:
        return None
    fetch = OutgoingRequest(node_id, replica.address_of(node_id), *pending)
    return FollowLease(node_id, replica.epoch, end_offset, fetch, is_sent=True)


def _registered(replica: Replica) -> OutgoingRequest:
    """Return the Fetch from the log end, which the driver sends or has sent."""
    node_id, request = replica.leader_id, next_fetch(replica, replica.config.fetch_max_wait_ms)
    correlation = replica.requests.sent(node_id, request, replica.now_ms)
    address = replica.address_of(node_id)
    replica.addresses.sent(node_id, address)
    return OutgoingRequest(node_id, address, correlation, request)


def revoke(replica: Replica, role: Follower, former: FollowLease, outcome: Outcome) -> OutgoingRequest | None:
    """Apply the outcome of a lease as if the leader had sent all records of it in one answer. Return the Fetch whose
    answer is outstanding."""
    node_id, end_offset = replica.leader_id, replica.log.end.offset
    assert (node_id, replica.epoch, end_offset) == (former.leader_id, former.epoch, outcome.end_offset), \
        f"{outcome} of {former}: the log ends at {end_offset}"
    if outcome.is_outstanding:
        replica.flushed = end_offset
    if outcome.high_watermark == UNKNOWN_OFFSET and outcome.is_outstanding:
        return former.fetch
    replica.requests.finish(node_id, former.fetch.correlation)
    if outcome.high_watermark != UNKNOWN_OFFSET:
        replica.requests.speed_up(node_id, replica.now_ms, replica.config.patience_ms)
        replica.note_leader_contact(role)
        replica.advance_high_watermark(min(outcome.high_watermark, end_offset), leader=node_id)
    return _registered(replica) if outcome.is_outstanding else None


def _announce_address(replica: Replica, role: Follower) -> bool:
    """Send the request by which this replica announces itself to the leader, if one is due. Return whether it sent one.

    - A voter requests that the leader writes its address and versions into the voters, if the log has others.
    - A replica that may become a voter announces where it listens, and requests to become one where that is configured.
    """
    config = replica.config
    role.update_voter_ms = replica.now_ms + config.fetch_timeout_ms
    if not replica.is_voter and config.can_vote and config.endpoints and not role.announced and (
            replica.leader_id not in replica.cannot_discover):
        announce(replica, replica.leader_id)
        return True
    if not config.can_vote or not config.endpoints:
        return False
    is_static = replica.history.latest.kraft_version < RECONFIGURABLE
    if not replica.is_voter:
        return config.auto_join and not is_static and _join(replica)
    mine = Voter(config.key, config.endpoints, config.kraft_versions)
    if role.announced if is_static else replica.voters.find(config.node_id) == mine:
        return False
    replica.send(replica.leader_id, UpdateVoterRequest(cluster_id=replica.cluster_id, epoch=replica.epoch, voter=mine))
    return True


def handle_update_answer(replica: Replica, node_id: int, _request: Request, answer: Response | Lost) -> None:
    """Process the answer. The log shows whether a change was made. A leader of static voters has noted the address, or
    has no use for it."""
    role = replica.role
    if isinstance(answer, Lost) and answer.reason is not Loss.UNSUPPORTED:
        replica.requests.back_off(node_id, replica.now_ms)
    elif isinstance(role, Follower) and node_id == replica.leader_id:
        role.announced = isinstance(answer, Lost) or answer.error in (ErrorCode.NONE, ErrorCode.UNSUPPORTED_VERSION)


def _join(replica: Replica) -> bool:
    """Request that the leader makes this replica a voter. If a voter has its id and a disk that it has no longer,
    request the removal of that voter first. Repeated after a while, until the log shows the change. Always True: a
    request was sent.

    The request must not be held by the leader: answers come in order, and the leader waits for this replica's Fetches.
    """
    config = replica.config
    former = replica.voters.find(config.node_id)
    mine = Voter(config.key, config.endpoints, config.kraft_versions)
    replica.send(replica.leader_id, AddVoterRequest(
        cluster_id=replica.cluster_id, voter=mine, timeout_ms=config.election_timeout_ms, ack_when_committed=False)
        if former is None else RemoveVoterRequest(cluster_id=replica.cluster_id, voter=former.key))
    return True


# --- what the leader sends --------------------------------------------------------------------------------------------


def handle_fetch_answer(replica: Replica, node_id: int, request: FetchRequest, answer: Response | Lost) -> None:
    """Process the answer to a Fetch. Only the leader's answer to a Fetch of this epoch is used. The answer of another
    node has already named the leader, and was requested for nothing else."""
    role = replica.role
    if not isinstance(role, Follower) or request.epoch != replica.epoch or node_id != replica.leader_id:
        inquiry_answered(replica, node_id, answer)
    elif isinstance(answer, FetchResponse) and answer.error is ErrorCode.NONE:
        replica.note_leader_contact(role)
        role.dismissed = answer.not_follower
        _take(replica, role, answer)
    else:
        _not_fetched(replica, role, node_id, answer)


def _not_fetched(replica: Replica, role: Follower, node_id: int, answer: Response | Lost) -> None:
    """Back off, and after a closed connection shorten the wait: the leader's process has ended.

    The follower then waits neither for the time-out, nor refuses its pre-vote to others until the leader answers it
    again. It can be wrong only about its own connection, and then the others refuse their pre-votes. Voters campaign
    one after the other, so that the votes are not split.

    A leader that has not answered yet may listen at another known address. Until all of them were tried, the loss
    proves only that this one is wrong, and the follower waits as in doubt.
    """
    replica.requests.back_off(node_id, replica.now_ms)
    if answer == Lost(Loss.DISCONNECTED):
        has_answered = role.has_fetched
        role.has_fetched = False
        role.losses += 1
        is_lost = has_answered or role.losses >= len(replica.addresses_of(node_id))
        campaign_ms = replica.disconnected_deadline_ms() if is_lost else replica.doubt_deadline_ms()
        if campaign_ms < role.fetch_ms:
            role.fetch_ms = campaign_ms
            replica.note(events.ConnectionLost(node_id))


def _take(replica: Replica, role: Follower, answer: FetchResponse) -> None:
    """Apply an answer of the leader. The high watermark rises only with records that agree with the leader's. It does
    not rise beside a divergence, where it would cover records that are about to be truncated (KAFKA-14704)."""
    if answer.snapshot is not None:
        replica.snapshots.begin(answer.snapshot)
        role.download = Download(answer.snapshot)
        replica.note(events.SnapshotRequested(answer.snapshot))
    elif answer.diverging is not None:
        _cut(replica, answer.diverging)
    elif answer.records is None or _append(replica, answer.records):
        replica.advance_high_watermark(min(answer.high_watermark, replica.log.end.offset), leader=replica.leader_id)


def _append(replica: Replica, records: object) -> bool:
    try:
        controls = replica.log.append_fetched(records, replica.epoch)
    except ProtocolError as error:
        replica.note(events.RecordsRefused(str(error)))
        replica.requests.back_off(replica.leader_id, replica.now_ms)
        return False
    for appended in controls:
        replica.apply(appended)
    return True


def _cut(replica: Replica, diverging: OffsetAndEpoch) -> None:
    """Truncate to where this log and the leader's may still agree: the end of the largest epoch that both have. The
    next Fetch shows whether they do; each round removes at least one epoch (KIP-595, KIP-101's rule)."""
    mine = replica.log.end_of_epoch(diverging.epoch)
    cut = min(mine.offset, diverging.offset) if mine.epoch == diverging.epoch else mine.offset
    if cut < replica.log.end.offset:
        replica.truncate(cut)
    else:
        replica.note(events.DivergenceRefused(diverging, replica.log.end))
        replica.requests.back_off(replica.leader_id, replica.now_ms)


# --- what leaders announce --------------------------------------------------------------------------------------------


def handle_begin_epoch(replica: Replica, source: int, correlation: int, request: BeginQuorumEpochRequest) -> None:
    error = _announcement_error(replica, request)
    if error is ErrorCode.NONE and not replica.is_me(request.voter):
        error = ErrorCode.INVALID_VOTER_KEY
    if error is ErrorCode.NONE:
        replica.learn(request.epoch, request.leader_id, request.leader_endpoints, source=request.leader_id,
                      is_announcement=True)
    replica.answer(source, correlation, BeginQuorumEpochResponse(error=error))


def handle_end_epoch(replica: Replica, source: int, correlation: int, request: EndQuorumEpochRequest) -> None:
    """Stop following a leader that resigns. The first preferred successor campaigns at once; each later one waits
    longer, by its position in the list.

    The preferred one learns of the end first. A replica that has just refused its pre-vote campaigns in its place,
    because a controller of Kafka does not repeat its request. It waits long enough for a repeated one and for the vote
    request after it; otherwise the vote would be split.
    """
    error = _announcement_error(replica, request)
    if error is ErrorCode.NONE:
        replica.learn(request.epoch, request.leader_id, request.leader_endpoints, source=request.leader_id,
                      is_announcement=True)
        role = replica.role
        if isinstance(role, Follower):
            wait_ms = _succession_ms(replica, request.preferred)
            if role.refused_ms is not None and replica.now_ms - role.refused_ms < replica.config.election_timeout_ms:
                wait_ms = min(wait_ms, 3 * replica.config.disconnect_grace_ms)
            replica.leader_has_ended = True
            role.fetch_ms = replica.now_ms + wait_ms
            role.has_fetched = False
    replica.answer(source, correlation, EndQuorumEpochResponse(error=error))


def _announcement_error(replica: Replica, request: BeginQuorumEpochRequest | EndQuorumEpochRequest) -> ErrorCode:
    """Return why the announcement is not accepted. One that names another leader of this epoch is refused: a single bad
    message must not stop this node, as it stops Kafka's."""
    if replica.is_of_other_cluster(request):
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if (request.leader_id < 0 or request.leader_id == replica.config.node_id
            or request.epoch < 1 or not replica.is_possible(request.epoch)):
        return ErrorCode.INVALID_REQUEST
    if request.epoch == replica.epoch and replica.leader_id not in (NOBODY, request.leader_id):
        replica.note(events.LeaderRefused(request.leader_id, request.epoch, replica.leader_id))
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def _succession_ms(replica: Replica, preferred: tuple[ReplicaKey, ...]) -> int:
    """Return how long a follower waits before it campaigns.

    The first of the list waits 0. Each later one waits twice as long as the one before it, and the last waits half of
    the longest back-off. A replica that is not in the list waits a random time up to the longest.
    """
    longest_ms = replica.config.election_backoff_max_ms
    for position, key in enumerate(preferred):
        if key.is_same(replica.config.key):
            return 0 if position == 0 else longest_ms >> min(len(preferred) - position, 31)
    return replica.random_ms(longest_ms)
