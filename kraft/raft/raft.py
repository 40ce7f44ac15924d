"""Consensus core: one replica of the metadata quorum as a state machine. The driver reports events to it, and carries
out what it returns:

    raft = Raft(config, hard_state, Ports(log, snapshots, random, trace), now_ms)
    while True:
        ... raft.step(source, correlation, message, now_ms)     for every message that came in
        ... raft.log_flushed(end_offset, now_ms)                for every flush that ended
        ... raft.tick(now_ms)                                   when `deadline_ms` has come
        ready = raft.take_ready()                               ->  carry it out, in its order (see `Ready`)

Many calls, one `take_ready`: all proposals of one step are flushed by one flush and sent in one answer.

Time comes in as `now_ms`, from a clock that does not go back; randomness and the log are ports. No call waits. A call
that raises an `OperationError` has changed nothing. An `AssertionError` means that an invariant is broken, here or by a
peer: the node must stop and not answer.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from kraft.deadlines import NEVER_MS
from kraft.protocol.error_codes import ErrorCode
from kraft.raft import discovery, elections, following, leading, membership, searching, snapshots, upgrading
from kraft.raft.config import RaftConfig
from kraft.raft.errors import NotLeaderError
from kraft.raft.events import LogTrimmed
from kraft.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DiscoverRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Lost,
    Message,
    QuorumResponse,
    ReassignVotersRequest,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VersionsRequest,
    VersionsResponse,
    VoteRequest,
)
from kraft.raft.ready import FollowLease, HardState, Leadership, Outcome, OutgoingRequest, Ready
from kraft.raft.replica import Ports, Replica
from kraft.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, RoleState, Unattached
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, UNKNOWN_OFFSET, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import Assignment
from kraft.structs import immutable

CHANGES_OF_ROLE_MAX: Final = 8


def _answer_versions(replica: Replica, source: int, correlation: int, _request: VersionsRequest) -> None:
    replica.answer(source, correlation, VersionsResponse(kraft_versions=replica.config.kraft_versions))


def _back_off(replica: Replica, node_id: int, _request: Request, answer: Response | Lost) -> None:
    """Process the answer to a request to join: the log shows whether the change was made."""
    if isinstance(answer, Lost):
        replica.requests.back_off(node_id, replica.now_ms)


Handler = Callable[[Replica, int, int, Any], None]
AnswerHandler = Callable[[Replica, int, Any, Response | Lost], None]

REQUEST_HANDLERS: Final[Mapping[type[Request], Handler]] = {
    VoteRequest: elections.handle_vote,
    BeginQuorumEpochRequest: following.handle_begin_epoch,
    EndQuorumEpochRequest: following.handle_end_epoch,
    FetchRequest: leading.handle_fetch,
    FetchSnapshotRequest: leading.handle_fetch_snapshot,
    DiscoverRequest: discovery.handle_discover,
    VersionsRequest: _answer_versions,
    AddVoterRequest: membership.handle_add,
    RemoveVoterRequest: membership.handle_remove,
    UpdateVoterRequest: upgrading.handle_update,
    ReassignVotersRequest: membership.handle_reassign,
}

DUE: Final[Mapping[type[RoleState], Callable[[Replica, Any], None]]] = {
    Leader: leading.drive,
    Follower: following.drive,
    Unattached: elections.drive_unattached,
    Prospective: elections.drive_prospective,
    Candidate: elections.drive_candidate,
    Resigned: elections.drive_resigned,
}
"""Action that is due in each role."""

ANSWER_HANDLERS: Final[Mapping[type[Request], AnswerHandler]] = {
    VoteRequest: elections.handle_vote_answer,
    BeginQuorumEpochRequest: leading.handle_begin_answer,
    EndQuorumEpochRequest: elections.handle_end_answer,
    FetchRequest: following.handle_fetch_answer,
    FetchSnapshotRequest: snapshots.handle_snapshot_answer,
    DiscoverRequest: discovery.handle_discover_answer,
    VersionsRequest: membership.handle_versions_answer,
    UpdateVoterRequest: following.handle_update_answer,
    AddVoterRequest: _back_off,
    RemoveVoterRequest: _back_off,
}


@immutable
class ReplicaView:
    """Progress of a replica. Times and offset are -1 where they are not known."""

    key: ReplicaKey
    end_offset: int
    fetch_ms: int
    caught_up_ms: int
    endpoints: Endpoints


@immutable
class QuorumView:
    """Result of DescribeQuorum; only the leader knows the progress of others. `targets` is None when no reassignment is
    in progress."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[ReplicaView, ...]
    targets: tuple[ReplicaView, ...] | None
    observers: tuple[ReplicaView, ...]


class Raft:
    """One replica; see the module. One thread at a time; no call waits."""

    def __init__(self, config: RaftConfig, hard_state: HardState, ports: Ports, now_ms: int) -> None:
        self.replica = Replica(config, hard_state, ports, now_ms)
        """State of the replica, readable by tools, tests and metrics."""
        self._saved = hard_state
        self._reported: tuple[int, Leadership | None] = (0, None)
        self._flushing: int | None = None
        self._is_settled = True
        self._lease: FollowLease | None = None
        self._settle()

    # --- events ------------------------------------------------------------------------------------------------------

    def _happens(self, now_ms: int) -> None:
        """Begin to process an event."""
        assert self._lease is None, f"an event during {self._lease}"
        self.replica.now_ms = max(self.replica.now_ms, now_ms)

    def step(self, source: int, correlation: int, message: Message, now_ms: int) -> None:
        """Process a message. A request is answered with the same `source` and `correlation`, which have no meaning
        here. For a response, or `Lost`, they are the `node_id` and `correlation` of the `OutgoingRequest`."""
        self._happens(now_ms)
        replica = self.replica
        before = replica.role
        if isinstance(message, Request):
            searching.note_sender_is_up(replica, message)
            REQUEST_HANDLERS[type(message)](replica, source, correlation, message)
        else:
            request = replica.requests.finish(source, correlation)
            if isinstance(message, QuorumResponse) and message.error is not ErrorCode.INCONSISTENT_CLUSTER_ID:
                replica.learn(message.epoch, message.leader_id, message.leader_endpoints, source=source)
            if request is not None:
                searching.judge_address(replica, source, message)
                ANSWER_HANDLERS[type(request)](replica, source, request, message)
        self._settle(before)

    def tick(self, now_ms: int) -> None:
        """Process the passing of time. May be called at any time, and must be by `deadline_ms`."""
        self._happens(now_ms)
        self._settle()

    def log_flushed(self, end_offset: int, now_ms: int) -> None:
        """Process the successful end of the flush that a `Ready` requested. What is due then is done with the next
        event, or the next `Ready`. A failed flush is not reported: the node ends."""
        self._happens(now_ms)
        replica = self.replica
        assert end_offset == self._flushing, f"flushed to {end_offset}, and {self._flushing} was requested"
        self._flushing = None
        replica.flushed = end_offset
        if isinstance(replica.role, Leader):
            replica.role.acknowledged_by = replica.config.node_id
        self._is_settled = False

    def propose(self, records: object, now_ms: int, epoch: int | None = None) -> OffsetAndEpoch:
        """Append records of the state machine; return the log end after them. They are committed when the high
        watermark reaches it. They may be lost when the leadership ends before. `epoch`: append only as the leader of
        that epoch.

        Raises `NotLeaderError`.
        """
        self._happens(now_ms)
        replica = self.replica
        if not isinstance(replica.role, Leader) or epoch not in (None, replica.epoch):
            raise NotLeaderError(f"node {replica.config.node_id} is {replica.role.role} in epoch {replica.epoch}")
        return OffsetAndEpoch(replica.log.append(records, replica.epoch, replica.now_ms), replica.epoch)

    def upgrade(self, level: int, epoch: int, now_ms: int) -> int:
        """Raise kraft.version to `level` as the leader of `epoch`; return the log end behind the records of the
        upgrade.

        Raises `NotLeaderError`, and `UpgradeRefusedError` while not every voter is known to be ready.
        """
        self._happens(now_ms)
        replica = self.replica
        if not isinstance(replica.role, Leader) or epoch != replica.epoch:
            raise NotLeaderError(f"node {replica.config.node_id} is {replica.role.role} in epoch {replica.epoch}")
        return upgrading.upgrade(replica, replica.role, level)

    def resign(self, epoch: int, now_ms: int) -> None:
        """Give up the leadership of `epoch`, if it is held: the state machine cannot lead, or the node is to stop. The
        driver of a node that stops continues until `has_left`."""
        self._happens(now_ms)
        replica = self.replica
        before = replica.role
        if isinstance(before, Leader) and replica.epoch == epoch:
            leading.resign(replica, before)
        self._settle(before)

    # --- reaction ----------------------------------------------------------------------------------------------------

    def _settle(self, before: object = None) -> None:
        """Do what is due in the role, and in the roles that follow from it at once: a single voter goes all the way
        from Unattached to Leader."""
        replica = self.replica
        before = before or replica.role
        self._is_settled = True
        for _ in range(CHANGES_OF_ROLE_MAX):
            role = replica.role
            if isinstance(before, Leader) and role is not before:
                leading.abdicate(replica, before)
            before = role
            DUE[type(role)](replica, role)
            if replica.role is role:
                return
        raise AssertionError(f"the role does not settle: {replica.role.role} in epoch {replica.epoch}")

    def take_ready(self) -> Ready:
        """Return what has to be done now; each thing is returned once."""
        assert self._lease is None, f"nothing is decided during {self._lease}"
        if not self._is_settled:
            self._settle()
        replica = self.replica
        role = replica.role
        if isinstance(role, Leader):
            leading.answer_parked(replica, role)
        hard_state = self._unsaved()
        high_watermark = replica.high_watermark if replica.high_watermark > self._reported[0] else None
        now = self.leadership
        leadership = None if now is self._reported[1] else now
        self._reported = (replica.high_watermark, now)
        messages, replica.outbox = tuple(replica.outbox), []
        installed, replica.installed = replica.installed, None
        return Ready(hard_state, messages, self._next_flush(), installed, high_watermark, leadership)

    @property
    def _is_saved(self) -> bool:
        replica, saved = self.replica, self._saved
        return replica.epoch == saved.epoch and replica.leader_id == saved.leader_id and replica.voted == saved.voted

    def _unsaved(self) -> HardState | None:
        if self._is_saved:
            return None
        self._saved = self.replica.hard_state
        return self._saved

    def take_high_watermark(self) -> int | None:
        """Return the high watermark of the next `Ready` before that is created, None if there is none or it may not
        come first.

        What a leader's state machine proposes because of it is sent in the same answers that announce it to the
        followers, and is flushed with them. It may come first only if nothing precedes it in that `Ready` and this
        replica's leadership is known.
        """
        if not self._is_settled:
            self._settle()
        replica = self.replica
        if (replica.high_watermark <= self._reported[0] or replica.installed is not None
                or not self._is_saved or self.leadership is not self._reported[1]):
            return None
        self._reported = (replica.high_watermark, self._reported[1])
        return replica.high_watermark

    def lease(self) -> FollowLease | None:
        """Let the driver follow the leader without this core; None when that is not possible now. Until `revoke`, the
        core knows nothing of the lease's answers, and accepts no event (docs/internals/raft.md)."""
        replica, role = self.replica, self.replica.role
        assert self._lease is None, f"leased already: {self._lease}"
        if isinstance(role, Follower) and self._flushing in (None, replica.log.end.offset):
            self._lease = following.lease(replica, role, is_flushing=self._flushing is not None)
        return self._lease

    def revoke(self, outcome: Outcome, now_ms: int) -> OutgoingRequest | None:
        """End the lease; must come before any other event. Return the Fetch whose answer is outstanding.

        When it is not outstanding, a flush up to the log end is in progress, and its end is to be reported as ever.
        """
        lease, self._lease = self._lease, None
        role = self.replica.role
        assert lease is not None, "not leased"
        assert isinstance(role, Follower), f"leased, and {role.role}"
        self._happens(now_ms)
        self._flushing = None if outcome.is_outstanding else outcome.end_offset
        return following.revoke(self.replica, role, lease, outcome)

    @property
    def awaits_flush(self) -> bool:
        """Return whether the end of the flush in progress would have an effect. It has none for a leader whose
        followers have less than that. Then `log_flushed` may be reported before any other event."""
        role = self.replica.role
        return not isinstance(role, Leader) or leading.awaits_flush(self.replica, role)

    def _next_flush(self) -> int | None:
        """Return the end of the next flush. One flush at a time: what is appended during a flush is flushed together by
        the next."""
        if self.replica.is_durable or self._flushing is not None:
            return None
        self._flushing = self.replica.log.end.offset
        return self._flushing

    # --- queries -----------------------------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int:
        """Time at which `tick` is due; far away when nothing is."""
        replica = self.replica
        return min(_deadline_ms(replica), replica.requests.deadline_ms(replica.now_ms))

    @property
    def leadership(self) -> Leadership:
        """Current leadership; the same object as last reported as long as it is equal, because it is read all the
        time."""
        replica, role, reported = self.replica, self.replica.role, self._reported[1]
        if (reported is not None and reported.role is role.role and reported.epoch == replica.epoch
                and reported.leader_id == replica.leader_id):
            return reported
        epoch_start = role.epoch_start if isinstance(role, Leader) else UNKNOWN_OFFSET
        return Leadership(role.role, replica.epoch, replica.leader_id, epoch_start)

    @property
    def has_left(self) -> bool:
        """Return whether a node that resigned may stop: another leads, or every reachable voter has acknowledged the
        resignation. An unreachable voter needs no message: its broken connection shows it that the leader is
        offline."""
        role = self.replica.role
        if isinstance(role, Resigned):
            return all(node_id in role.unreachable for node_id in role.unnotified)
        return not isinstance(role, Leader)

    @property
    def state_name(self) -> str:
        """Kafka's metric `current-state`."""
        replica, role = self.replica, self.replica.role
        if not replica.is_voter and role.role in (Role.FOLLOWER, Role.UNATTACHED):
            return "observer"
        voted = replica.voted is not None and role.role in (Role.UNATTACHED, Role.PROSPECTIVE)
        return role.role.lower() + ("-voted" if voted else "")

    def describe(self) -> QuorumView:
        """Return the quorum as this replica sees it."""
        replica, role = self.replica, self.replica.role
        progress = role.progress if isinstance(role, Leader) else {}
        observers = leading.observers(replica, role) if isinstance(role, Leader) else ()

        def view(key: ReplicaKey, endpoints: Endpoints) -> ReplicaView:
            if key.is_same(replica.config.key):
                return ReplicaView(key, replica.log.end.offset, replica.now_ms, replica.now_ms, endpoints)
            known = progress.get(key)
            if known is None:
                return ReplicaView(key, UNKNOWN_OFFSET, -1, -1, endpoints)
            return ReplicaView(key, known.end_offset, known.fetch_ms, known.caught_up_ms, endpoints)

        voters = replica.voters
        targets = None if voters.targets is None else tuple(
            view(target if (voter := voters.find(target.node_id)) is None else voter.key, ())
            for target in voters.targets)
        # A replica that has resigned leads no longer, and no other replica leads its epoch.
        leader_id = NOBODY if isinstance(role, Resigned) else replica.leader_id
        return QuorumView(
            leader_id, replica.epoch, replica.high_watermark,
            tuple(view(voter.key, voter.endpoints) for voter in voters.voters), targets,
            tuple(view(key, replica.addresses.endpoints(key.node_id)) for key in observers))

    # --- snapshots ---------------------------------------------------------------------------------------------------

    def snapshot_id(self, end_offset: int) -> OffsetAndEpoch:
        """Return the id of a snapshot of everything below `end_offset`, which must be committed and in the log."""
        replica = self.replica
        assert replica.log.start_offset <= end_offset <= replica.high_watermark, f"{end_offset} is not committed here"
        start = replica.log.end_of_epoch(UNKNOWN_OFFSET)
        if end_offset == start.offset:
            return start
        epoch = replica.log.end.epoch
        while (earlier := replica.log.end_of_epoch(epoch - 1)).offset >= end_offset:
            epoch = earlier.epoch
        return OffsetAndEpoch(end_offset, epoch)

    def assignment_at(self, end_offset: int) -> Assignment:
        """Return what a snapshot of everything below `end_offset` says about the voters."""
        return self.replica.history.before(end_offset)

    def trim_log(self, snapshot: OffsetAndEpoch) -> None:
        """Move the log start to the end of a snapshot. The snapshot must be durable: only it will hold what was
        before."""
        replica = self.replica
        assert snapshot.offset <= replica.high_watermark, f"{snapshot} is not committed"
        replica.snapshots.trim_log(snapshot)
        assert replica.log.start_offset == snapshot.offset
        replica.history.trim(snapshot.offset)
        replica.note(LogTrimmed(snapshot))


def _deadline_ms(replica: Replica) -> int:
    match replica.role:
        case Leader() as role:
            return leading.deadline_ms(replica, role)
        case Follower() as role:
            now_ms, deadline_ms = replica.now_ms, NEVER_MS
            for time_ms in (role.fetch_ms, searching.search_ms(replica, role), role.passes_ms):
                if now_ms < time_ms < deadline_ms:
                    deadline_ms = time_ms
            return deadline_ms
        case Unattached() as role:
            passes_ms = role.passes_ms if role.passes_ms > replica.now_ms else NEVER_MS
            return min(role.election_ms, passes_ms) if replica.may_campaign else passes_ms
        case Prospective() as role:
            return role.deadline_ms(replica.now_ms)
        case Candidate() | Resigned() as role:
            return role.election_ms
    raise AssertionError(f"unknown role {replica.role}")
