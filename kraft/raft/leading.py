"""Leading: the first record of the epoch, the followers' Fetches, the high watermark, and when to give up.

The leader sends records while it flushes them, but counts its own log only up to what is flushed. An offset is
committed when two conditions hold:

- A majority of the voters in the leader's own log have it durably.
- It lies behind the epoch's first record (Raft 5.4.2: records of earlier epochs are committed only together with one of
  the leader's).
"""

from typing import Final

from kraft.deadlines import NEVER_MS
from kraft.protocol.error_codes import ErrorCode
from kraft.raft import membership
from kraft.raft.events import MajorityLost
from kraft.raft.messages import (
    HIGH_WATERMARK_UNREPORTED,
    BeginQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Lost,
    QuorumResponse,
    Response,
)
from kraft.raft.progress import Progress
from kraft.raft.records import ControlRecord, KRaftVersion, LeaderChange, Voters
from kraft.raft.replica import Replica
from kraft.raft.roles import Leader, ParkedFetch, Unattached
from kraft.raft.snapshots import part_for
from kraft.raft.tally import Tally
from kraft.raft.types import NOBODY, START, UNKNOWN_OFFSET, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import RECONFIGURABLE, Voter
from kraft_native.partition.watermark import majority_value

OBSERVER_SESSION_MS: Final = 300_000

# --- the epoch --------------------------------------------------------------------------------------------------------


def begin(replica: Replica, tally: Tally) -> None:
    """Take the leadership that was won. The first leader of a log also writes the voters (KIP-642)."""
    leader = replica.become_leader()
    voters = tally.voters
    granting = tuple(voter.key for voter in voters.voters if voter.key.node_id in tally.granting)
    records: list[ControlRecord] = [LeaderChange(replica.config.node_id, voters.keys, granting)]
    latest = replica.history.latest
    if latest.offset == UNKNOWN_OFFSET and latest.kraft_version >= RECONFIGURABLE:
        records += [KRaftVersion(latest.kraft_version), Voters(membership.founding(replica, latest.voters))]
    first = replica.append_control(records)
    assert first == leader.epoch_start
    for key in voters.keys:
        if key.node_id != replica.config.node_id:
            progress_of(replica, leader, key)


def progress_of(replica: Replica, leader: Leader, key: ReplicaKey) -> Progress:
    """Return the progress of a replica. A voter of a set without directory ids is known by its node id alone."""
    if leader.others_of is replica.voters:
        for known, theirs in leader.others:
            if known.key == key:
                return theirs          # usual case
    voter = replica.voters.find(key.node_id)
    if voter is not None and replica.voters.has(key):
        key = voter.key
    progress = leader.progress.get(key)
    if progress is None:
        _drop_unresponsive(replica, leader)
        progress = leader.progress[key] = Progress(begin_due_ms=replica.now_ms)
    return progress


def others(replica: Replica, leader: Leader) -> tuple[tuple[Voter, Progress], ...]:
    """Return the other voters of the leader's own log, each with its progress."""
    voters = replica.voters
    if leader.others_of is not voters:
        mine = voters.find(replica.config.node_id)
        leader.others = tuple((voter, progress_of(replica, leader, voter.key)) for voter in voters.voters
                              if voter is not mine)
        leader.votes_itself = mine is not None and replica.config.key.is_same(mine.key)
        leader.is_replaced = mine is not None and not leader.votes_itself
        leader.others_of = voters
        leader.majority_until_ms = 0
    return leader.others


def _drop_unresponsive(replica: Replica, leader: Leader) -> None:
    """Remove observers that have not fetched for long: observers come and go, each with a directory id of its own."""
    observed = observers(replica, leader)
    for key in [each for each in leader.progress if each not in observed and not replica.voters.has(each)]:
        del leader.progress[key]


def observers(replica: Replica, leader: Leader) -> tuple[ReplicaKey, ...]:
    """Return the replicas that fetch and do not vote. One that has not fetched for `OBSERVER_SESSION_MS` is omitted."""
    return tuple(key for key, progress in leader.progress.items()
                 if not replica.voters.has(key) and replica.now_ms - progress.fetch_ms <= OBSERVER_SESSION_MS)


def drive(replica: Replica, leader: Leader) -> None:
    """Commit what a majority has, continue the changes of the voters, and remind voters that do not fetch.

    Give up when too much time has passed without a Fetch from a majority, or when the leader is no longer a voter.
    """
    _update_high_watermark(replica, leader)
    if membership.drive(replica, leader):
        resign(replica, leader)
        return
    if replica.now_ms >= leader.majority_until_ms:
        leader.majority_until_ms = _check_quorum_ms(replica, leader)
    if replica.now_ms >= leader.majority_until_ms:
        replica.note(MajorityLost(replica.epoch))
        resign(replica, leader)
        return
    for voter, progress in others(replica, leader):
        if replica.now_ms >= progress.begin_due_ms and replica.may_send(voter.key.node_id):
            progress.begin_due_ms = replica.now_ms + replica.config.begin_epoch_interval_ms
            replica.send(voter.key.node_id, BeginQuorumEpochRequest(
                cluster_id=replica.cluster_id, epoch=replica.epoch, leader_id=replica.config.node_id, voter=voter.key,
                leader_endpoints=replica.config.endpoints))


def _update_high_watermark(replica: Replica, leader: Leader) -> None:
    """Raise the high watermark. A leader that was removed does not count itself (KAFKA-16530)."""
    by, leader.acknowledged_by = leader.acknowledged_by, NOBODY
    committed = _majority_end(replica, leader, replica.flushed)
    if committed > leader.epoch_start:
        leader.is_established = True
        replica.advance_high_watermark(committed, by=by)


def awaits_flush(replica: Replica, leader: Leader) -> bool:
    """Return whether more is committed as soon as this log is durable to its end."""
    return _majority_end(replica, leader, replica.log.end.offset) > replica.high_watermark


def _majority_end(replica: Replica, leader: Leader, own_end: int) -> int:
    """Return the offset below which a majority has everything durably, if this replica has it up to `own_end`."""
    return majority_value(_with_own(leader, [each.end_offset for _, each in others(replica, leader)], own_end))


def deadline_ms(replica: Replica, leader: Leader) -> int:
    times = [_check_quorum_ms(replica, leader), membership.deadline_ms(leader)]
    times += [parked.expires_ms for parked in leader.parked]
    times += [max(progress.begin_due_ms, replica.requests.ready_ms(voter.key.node_id, replica.now_ms))
              for voter, progress in others(replica, leader)]
    return min(times)


def _check_quorum_ms(replica: Replica, leader: Leader) -> int:
    """Return when to give up: a leader that a majority cannot reach must not keep that majority from an election
    (KIP-996).

    A leader that votes counts itself; one that was removed needs a majority of the others (KAFKA-16531).
    """
    contacts = [progress.fetch_ms for _, progress in others(replica, leader)]
    contact_ms = majority_value(_with_own(leader, contacts, NEVER_MS))
    return min(max(leader.since_ms, contact_ms) + replica.config.check_quorum_timeout_ms, NEVER_MS)


def _with_own(leader: Leader, numbers: list[int], own: int) -> list[int]:
    """Return one number for each voter: those of the others, and `own` when this replica votes with this disk.

    An unknown number is -1. So is the number of another disk of this node that votes in its place.
    """
    if leader.votes_itself:
        numbers.append(own)
    elif leader.is_replaced:
        numbers.append(UNKNOWN_OFFSET)
    return numbers


def resign(replica: Replica, leader: Leader) -> None:
    """Stop leading, and propose successors: voters that are to stay come first, and of those the ones with the longest
    log."""
    targets = replica.voters.targets
    others = [voter.key for voter in replica.voters.voters if voter.key.node_id != replica.config.node_id]

    def rank(key: ReplicaKey) -> tuple[bool, int]:
        stays = targets is None or key.node_id in [target.node_id for target in targets]
        progress = leader.progress.get(key)
        return not stays, -(progress.end_offset if progress else UNKNOWN_OFFSET)

    replica.become_resigned(tuple(sorted(others, key=rank)))


def abdicate(replica: Replica, leader: Leader) -> None:
    """Refuse all pending requests, because the leadership has ended for any reason."""
    for parked in leader.parked:
        replica.answer(parked.source, parked.correlation, FetchResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    membership.abandon(replica, leader)


def handle_begin_answer(
    replica: Replica, node_id: int, request: BeginQuorumEpochRequest, answer: Response | Lost
) -> None:
    role = replica.role
    if not isinstance(role, Leader) or request.epoch != replica.epoch:
        return
    if isinstance(answer, Lost) or answer.error is not ErrorCode.NONE:
        replica.requests.back_off(node_id, replica.now_ms)
        progress_of(replica, role, request.voter).begin_due_ms = replica.now_ms


# --- serving ----------------------------------------------------------------------------------------------------------


def handle_fetch(replica: Replica, source: int, correlation: int, request: FetchRequest) -> None:
    """Serve a replica. Its offset is an acknowledgement only when it agrees with this log: records of another epoch at
    the same offset are not."""
    error = _fetch_error(replica, request)
    leader = replica.role
    if error is not ErrorCode.NONE or not isinstance(leader, Leader):
        if error is ErrorCode.UNKNOWN_LEADER_EPOCH and isinstance(leader, Leader) and request.replica.node_id != NOBODY:
            _step_down_for(replica, request)
        replica.answer(source, correlation, FetchResponse(error=error))
        return
    is_valid = _disagreement(replica, request) is None
    if request.replica.node_id != NOBODY:
        progress = progress_of(replica, leader, request.replica)
        progress.begin_due_ms = replica.now_ms + replica.config.begin_epoch_interval_ms
        if is_valid:
            progress.fetched(request.fetch_offset, replica.log.end.offset, replica.now_ms)
            leader.acknowledged_by = request.replica.node_id
        else:
            progress.note_contact(replica.now_ms)
    _release_earlier(replica, leader, source)
    leader.parked.append(ParkedFetch(source, correlation, request, replica.now_ms + request.max_wait_ms))


def _step_down_for(replica: Replica, request: FetchRequest) -> None:
    """Step down for a replica that is in a later epoch and cannot return to this one (Raft, 5.1).

    A candidate without pre-vote has raised that replica's epoch. The leader campaigns at once, since it was healthy;
    the next epoch is one that all replicas can enter.
    """
    replica.learn(request.epoch, NOBODY, source=request.replica.node_id)
    if isinstance(replica.role, Unattached):
        replica.role.election_ms = replica.now_ms


def _fetch_error(replica: Replica, request: FetchRequest) -> ErrorCode:
    is_possible = request.fetch_offset >= 0 and 0 <= request.last_fetched_epoch <= request.epoch
    error = replica.leader_error(request, request.epoch)
    if error is not ErrorCode.INCONSISTENT_CLUSTER_ID and (
            not is_possible or request.replica.node_id == replica.config.node_id):
        return ErrorCode.INVALID_REQUEST
    return error


def _release_earlier(replica: Replica, leader: Leader, source: int) -> None:
    """Answer the earlier Fetches of a source that sends another: it does not wait for them. One parked Fetch for each
    source bounds the memory."""
    for parked in [each for each in leader.parked if each.source == source]:
        leader.parked.remove(parked)
        replica.answer(parked.source, parked.correlation, _answer(replica, leader, parked.request))


def answer_parked(replica: Replica, leader: Leader) -> None:
    """Answer every Fetch that has news or has waited long enough. Called when the driver collects what is ready, so
    that all records of one step are sent in one answer."""
    waiting = []
    for parked in leader.parked:
        if parked.expires_ms <= replica.now_ms or _has_news(replica, leader, parked.request):
            replica.answer(parked.source, parked.correlation, _answer(replica, leader, parked.request))
        else:
            waiting.append(parked)
    leader.parked = waiting


def _has_news(replica: Replica, leader: Leader, request: FetchRequest) -> bool:
    knows_less = (leader.is_established and request.high_watermark != HIGH_WATERMARK_UNREPORTED
                  and request.high_watermark < min(replica.high_watermark, request.fetch_offset))
    return (knows_less or request.fetch_offset != replica.log.end.offset
            or _disagreement(replica, request) is not None)


def _answer(replica: Replica, leader: Leader, request: FetchRequest) -> FetchResponse:
    """Return the answer that is due. Followers that keep up get the same object, so that its records are read once."""
    response = _disagreement(replica, request)
    if response is not None:
        return response
    not_follower = request.is_follower and _votes_no_more(replica, request.replica)
    high_watermark, start_offset = _reported_high_watermark(replica, leader), replica.log.start_offset
    key = (request.fetch_offset, request.max_bytes, replica.log.end.offset, high_watermark, start_offset,
           int(not_follower))
    if leader.answered is not None and leader.answered[0] == key:
        return leader.answered[1]
    response = FetchResponse(
        epoch=replica.epoch, leader_id=replica.leader_id, leader_endpoints=replica.endpoints_of_leader(),
        high_watermark=high_watermark, log_start_offset=start_offset, not_follower=not_follower,
        records=replica.log.read(request.fetch_offset, request.max_bytes))
    leader.answered = key, response
    return response


def _reported_high_watermark(replica: Replica, leader: Leader) -> int:
    """Return the high watermark, unknown until a record of this epoch is committed: before that it might be below one
    that was exposed earlier (KAFKA-12619)."""
    return replica.high_watermark if leader.is_established else UNKNOWN_OFFSET


def _disagreement(replica: Replica, request: FetchRequest) -> FetchResponse | None:
    """Return the answer for a replica whose log does not fit onto this one: it must fetch a snapshot or truncate. None
    if it fits."""
    log_end = replica.log.end
    if request.last_fetched_epoch == log_end.epoch and (
            replica.log.start_offset < request.fetch_offset <= log_end.offset):
        return None                    # usual case: within the epoch that this log ends with
    position = OffsetAndEpoch(request.fetch_offset, request.last_fetched_epoch)
    start = replica.log.end_of_epoch(UNKNOWN_OFFSET)
    latest = replica.snapshots.latest()
    is_empty = position == START
    is_before_log = start.offset > 0 and (
        position.offset < start.offset or position.epoch < start.epoch
        or (position.offset == start.offset and position.epoch != start.epoch))
    if latest is not None and (is_before_log or (is_empty and latest.offset > 0)):
        return FetchResponse(snapshot=latest, log_start_offset=start.offset)
    end = replica.log.end_of_epoch(position.epoch)
    if not is_empty and (end.epoch != position.epoch or end.offset < position.offset):
        return FetchResponse(diverging=end, log_start_offset=start.offset)
    return None


def _votes_no_more(replica: Replica, key: ReplicaKey) -> bool:
    """Return whether the replica is no longer a voter. True only when the removal is committed (KIP-642): before that
    it may still be truncated."""
    return not replica.voters.has(key) and replica.history.latest.offset < replica.high_watermark


def handle_fetch_snapshot(replica: Replica, source: int, correlation: int, request: FetchSnapshotRequest) -> None:
    error = replica.leader_error(request, request.epoch)
    leader = replica.role
    if error is ErrorCode.NONE and isinstance(leader, Leader):
        if request.replica.node_id not in (NOBODY, replica.config.node_id):
            progress_of(replica, leader, request.replica).note_contact(replica.now_ms)
        response: QuorumResponse = part_for(replica, request)
    else:
        response = FetchSnapshotResponse(error=error, snapshot=request.snapshot)
    replica.answer(source, correlation, response)
