"""State of a replica that does not depend on its role: epoch, vote, leader, log, voters, and the changes between roles.

Every Raft rule about a single number is asserted here, where the number is stored. The epoch never falls, an epoch has
one vote and one leader, the high watermark never falls, and nothing below it is truncated.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from kraft.protocol.error_codes import ErrorCode
from kraft.raft import events
from kraft.raft.address_book import AddressBook, Known
from kraft.raft.config import RaftConfig
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    DiscoverRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    QuorumResponse,
    Request,
    Response,
    VoteRequest,
)
from kraft.raft.ports import AppendedControl, LogPort, Random, SnapshotPort, Trace
from kraft.raft.ready import Answer, HardState, OutgoingRequest
from kraft.raft.records import ControlRecord, KRaftVersion, Voters, apply_control
from kraft.raft.requests import Requests
from kraft.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Refusal,
    Resigned,
    RoleState,
    Unattached,
)
from kraft.raft.tally import Tally
from kraft.raft.transitions import Cause, check_transition
from kraft.raft.types import NOBODY, Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import VoterHistory, VoterSet
from kraft.structs import immutable

FIRST_BOOTSTRAP_ID = -2
# Elections alone do not bring a quorum to this epoch. Above it, an epoch is accepted only within a step that missed
# elections can explain, and a leap is refused. The numbers end at 2147483647, and no leader could be elected in the
# epoch after that.
EPOCH_EXPECTED_MAX = 1 << 30
EPOCH_STEP_MAX = 1 << 10
LOST_ELECTIONS_MAX = 16
"""Number of lost elections after which the back-off of a candidate grows no longer."""
ANSWERED_AT_ONCE = (VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, DiscoverRequest, FetchRequest)
"""Requests that are answered at once, except for the time that a Fetch allows its leader to wait."""

QR = TypeVar("QR", bound=QuorumResponse)


@immutable
class Ports:
    log: LogPort
    snapshots: SnapshotPort
    random: Random
    trace: Trace


class Replica:
    """State of one replica; it does nothing by itself. The log must be durable to its end when the object is created.

    Not for use from outside `kraft.raft`, except for reading.
    """

    def __init__(self, config: RaftConfig, hard_state: HardState, ports: Ports, now_ms: int) -> None:
        self.config = config
        self.log = ports.log
        self.snapshots = ports.snapshots
        self.now_ms = now_ms
        self._random = ports.random
        self._trace = ports.trace
        self.requests = Requests(config.request_timeout_ms, config.retry_backoff_ms)
        self.outbox: list[OutgoingRequest | Answer] = []
        self.own_entry = Known(config.key, now_ms, config.endpoints)
        self.addresses = AddressBook()
        self.cannot_discover: dict[int, None] = {}
        """Nodes that do not support DiscoverBrokers."""
        self.history = self._read_history()
        end = self.log.end
        latest = self.snapshots.latest()
        self.flushed = end.offset
        """Everything below this offset is durable here."""
        self.high_watermark = 0 if latest is None else latest.offset
        self.installed: OffsetAndEpoch | None = None
        # A log can be ahead of quorum-state only where no other vote was needed: a single voter writes both at once.
        state = hard_state if hard_state.epoch >= end.epoch else HardState(end.epoch)
        self.epoch, self.voted, self.leader_id = state.epoch, state.voted, state.leader_id
        if self.is_only_voter and self.leader_id == config.node_id:
            self.leader_id = NOBODY             # it led, and leads no more
        self.leader_endpoints: Endpoints = ()
        self.elections_lost = 0
        """Number of elections that this replica has lost in succession, since a leader last answered it."""
        self.leader_has_ended = False
        """True if the leader of this epoch announced that it has resigned: it never leads that epoch again."""
        self.role: RoleState = self._first_role()
        self.note(events.Started(self.role.role, self.epoch, end, self.voters))

    def _read_history(self) -> VoterHistory:
        history = VoterHistory(self.config.static_voters)
        snapshot = self.snapshots.latest()
        if snapshot is not None:
            self._restart_history(history, snapshot)
        for offset, record in self.log.controls():
            if snapshot is None or offset >= snapshot.offset:
                apply_control(history, offset, record)
        return history

    def _restart_history(self, history: VoterHistory, snapshot: OffsetAndEpoch) -> None:
        controls = self.snapshots.controls(snapshot)
        version = next((record.level for record in controls if isinstance(record, KRaftVersion)), 0)
        voters = next((record.voters for record in controls if isinstance(record, Voters)), self.config.static_voters)
        history.restart(snapshot.offset, version, voters)

    def _first_role(self) -> RoleState:
        """Return the role after a start.

        - A leader restarts as Resigned. It may not lead in its epoch: the records that it wrote last may be lost here
          and not elsewhere (KAFKA-10527). It may not vote in it either.
        - The only voter has no other voter to wait for or to notify. It campaigns at the first call, in the epoch after
          the last that it knows.
        - Other replicas that know no leader, or led themselves, may campaign soon (`start_grace_ms`): where a leader
          exists, the pre-vote is refused.
        - A replica whose quorum-state names another leader follows it in doubt: that information may be outdated.
        """
        if self.is_only_voter:
            return Unattached(self.now_ms + 1)
        if self.leader_id == self.config.node_id:
            return Resigned(self._start_deadline_ms())
        if self.leader_id != NOBODY and self.address_of(self.leader_id) is not None:
            return self._new_follower(is_in_doubt=True)
        return Unattached(self._start_deadline_ms())

    def _start_deadline_ms(self) -> int:
        grace_ms = self.config.start_grace_ms or self.config.election_timeout_ms
        return self.now_ms + grace_ms + self.random_ms(grace_ms)

    # --- identity ----------------------------------------------------------------------------------------------------

    @property
    def voters(self) -> VoterSet:
        """Voters of this replica's own log, committed or not."""
        return self.history.latest.voters

    @property
    def is_voter(self) -> bool:
        return self.config.can_vote and self.voters.has(self.config.key)

    @property
    def is_only_voter(self) -> bool:
        return self.is_voter and self.voters.ids == (self.config.node_id,)

    @property
    def may_campaign(self) -> bool:
        """Return whether it campaigns when there is no leader: as a voter, and also while its removal is in its log and
        perhaps not committed.

        Example: voters 1 and 2. The leader, 1, writes its own removal, and loses its leadership before 2 has that
        record. Now 2 needs the vote of 1, whose log is longer. So only 1 can be elected, by 2, and finish its removal
        (Ongaro's dissertation, 4.2.2).
        """
        latest = self.history.latest
        if latest.offset < self.high_watermark:
            return self.is_voter
        before = self.history.before(latest.offset).voters
        return self.is_voter or (self.config.can_vote and before.has(self.config.key))

    @property
    def cluster_id(self) -> str | None:
        """Id that this node was formatted with; else the id that the first leader created, once it is committed
        (KIP-642): a leader that was deposed may have created another."""
        return self.config.cluster_id or self.history.before(self.high_watermark).voters.cluster_id

    @property
    def hard_state(self) -> HardState:
        return HardState(self.epoch, self.voted, self.leader_id)

    @property
    def is_durable(self) -> bool:
        """Return whether the log is durable to its end. Only then may a Fetch be sent: its offset is an
        acknowledgement."""
        return self.flushed >= self.log.end.offset

    # --- addresses of the others -------------------------------------------------------------------------------------

    def addresses_of(self, node_id: int) -> tuple[Endpoint, ...]:
        """Return all known addresses of a node, the likeliest first: where its leadership was announced, where the node
        announced itself, what the log says. This replica's own addresses are excluded: it may have another node's
        previous address."""
        if node_id <= FIRST_BOOTSTRAP_ID:
            return self.config.bootstrap[FIRST_BOOTSTRAP_ID - node_id:][:1]
        voter = self.voters.find(node_id)
        sources = (self.leader_endpoints if node_id == self.leader_id else (), self.addresses.endpoints(node_id),
                   self.addresses.direct.get(node_id, ()), voter.endpoints if voter else ())
        found: tuple[Endpoint, ...] = ()
        for endpoints in sources:
            if endpoints and endpoints[0] not in found and endpoints[0] not in self.config.endpoints:
                found += endpoints[:1]
        return found

    def address_of(self, node_id: int) -> Endpoint | None:
        """Return the address to try next."""
        return self.addresses.choose(node_id, self.addresses_of(node_id))

    def address_failed(self, node_id: int) -> None:
        """Record that the node was not found at the address tried last. The next request uses another one, if one is
        known."""
        self.addresses.failed(node_id, self.addresses_of(node_id))

    def learn_address(self, known: Known, *, is_direct: bool = False) -> None:
        """Record where a node listens; `is_direct`: the node itself says so.

        A new address is tried at once: a pending request to the earlier address is given up. A voter that knows no
        leader campaigns soon, since the missing voter may be this one.
        """
        node_id = known.key.node_id
        if node_id == self.config.node_id or self.addresses.nodes.get(node_id) == known:
            return
        before, all_before = self.address_of(node_id), self.addresses_of(node_id)
        if self.addresses.learn(known):
            if node_id == self.leader_id and self.leader_endpoints:
                self.leader_endpoints = known.endpoints
        elif is_direct and all_before and known.endpoints and known.endpoints[0] not in (
                *all_before, *self.config.endpoints):
            self.addresses.direct[node_id] = known.endpoints
        if self.address_of(node_id) == before:
            return
        self.requests.forget(node_id)
        if self.voters.find(node_id) is not None:
            self.campaign_soon()

    # --- time and randomness -----------------------------------------------------------------------------------------

    def random_ms(self, limit_ms: int) -> int:
        """Return a number from 0 up to, not including, `limit_ms`."""
        return self._random.randrange(limit_ms)

    def random_bytes(self, count: int) -> bytes:
        return bytes(self._random.randrange(256) for _ in range(count))

    def election_deadline_ms(self) -> int:
        """Return a time one to two election time-outs from now: randomised, or voters would campaign together
        indefinitely (KIP-595)."""
        timeout_ms = self.config.election_timeout_ms
        return self.now_ms + timeout_ms + self.random_ms(timeout_ms)

    def note(self, event: events.Event) -> None:
        self._trace(self.now_ms, event)

    # --- messages ----------------------------------------------------------------------------------------------------

    def send(self, node_id: int, request: Request, address: Endpoint | None = None, *,
             timeout_ms: int | None = None) -> None:
        """Send a request, to `address` where that is given. If `may_send` is false, an earlier request is given up.
        `timeout_ms`: shorter than that of other requests."""
        if node_id in self.requests.unanswered(self.now_ms, self.config.patience_ms):
            self._unanswered(node_id)
        limits = [each for each in (timeout_ms, self._patience_ms(node_id, request)) if each is not None]
        correlation = self.requests.sent(node_id, request, self.now_ms, min(limits, default=None))
        where = address or self.address_of(node_id)
        self.addresses.sent(node_id, where)
        self.outbox.append(OutgoingRequest(node_id, where, correlation, request))

    def _unanswered(self, node_id: int) -> None:
        self.address_failed(node_id)
        self.requests.slow_down(node_id)

    def _patience_ms(self, node_id: int, request: Request) -> int | None:
        """Return how long to wait until the request is sent again, perhaps to another address. None: as long as usual,
        as for a leader that is known to answer.

        A node that did not answer in time gets twice as long the next time, up to an election time-out. So the answer
        of a slow node arrives eventually.
        """
        role = self.role
        if not isinstance(request, ANSWERED_AT_ONCE) or isinstance(role, Leader) or (
                isinstance(role, Follower) and role.has_fetched and node_id == self.leader_id):
            return None
        held_ms = request.max_wait_ms if isinstance(request, FetchRequest) else 0
        return held_ms + (self.config.patience_ms << self.requests.slowness(node_id))

    def may_send(self, node_id: int) -> bool:
        return self.requests.ready_ms(node_id, self.now_ms) <= self.now_ms

    def answer(self, source: int, correlation: int, response: Response) -> None:
        """Send a response. An answer of the quorum names the leader, unless the sender of the request belongs to
        another cluster."""
        if isinstance(response, QuorumResponse) and response.error is not ErrorCode.INCONSISTENT_CLUSTER_ID:
            response = self.with_leader(response)
        self.outbox.append(Answer(source, correlation, response))

    def with_leader(self, response: QR) -> QR:
        """Return the response with the leader in it; the same object if it has that already."""
        endpoints = self.endpoints_of_leader()
        if response.epoch == self.epoch and response.leader_id == self.leader_id and (
                response.leader_endpoints == endpoints):
            return response
        return replace(response, epoch=self.epoch, leader_id=self.leader_id, leader_endpoints=endpoints)

    def endpoints_of_leader(self) -> Endpoints:
        """Return where the leader listens, by the newest source: its log has the address of a leader that moved only
        when that leader has committed it."""
        if self.leader_endpoints:
            return self.leader_endpoints
        mine = self.config.endpoints if self.leader_id == self.config.node_id else ()
        voter = self.voters.find(self.leader_id)
        return mine or self.addresses.endpoints(self.leader_id) or (voter.endpoints if voter else ())

    def is_of_other_cluster(self, request: Request) -> bool:
        """Return whether the request is of another cluster. A missing cluster id is accepted, for peers that know none
        yet (KIP-642's "strictly" would lock them out)."""
        mine, theirs = self.cluster_id, request.cluster_id
        return theirs != mine and theirs is not None and mine is not None

    def leader_error(self, request: Request, epoch: int) -> ErrorCode:
        """Return why this replica does not act as the leader of `epoch`; NONE if it does."""
        if self.is_of_other_cluster(request):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if isinstance(self.role, Leader) else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def is_me(self, key: ReplicaKey) -> bool:
        """Return whether a request that names its receiver means this node and this disk. -1 means any receiver."""
        return key.node_id == NOBODY or key.is_same(self.config.key)

    # --- the log -----------------------------------------------------------------------------------------------------

    def append_control(self, records: Sequence[ControlRecord]) -> int:
        """Append control records as leader; they are in force at once. Return the offset of the first."""
        first = self.log.end.offset
        end_offset = self.log.append_control(records, self.epoch, self.now_ms)
        assert end_offset == first + len(records), f"control records at {first} end at {end_offset}"
        for offset, record in enumerate(records, first):
            self.apply(AppendedControl(offset, record))
        return first

    def apply(self, appended: AppendedControl) -> None:
        """Apply a control record that was appended to the log."""
        before = self.history.latest
        apply_control(self.history, appended.offset, appended.record)
        if self.history.latest[1:] != before[1:]:
            self.note(events.VotersApplied(
                appended.offset, self.history.latest.kraft_version, self.voters, self.leader_id))

    def truncate(self, end_offset: int) -> None:
        """Truncate the log, and revert the voters with it.

        The log is durable to its end then, because only the answer to a Fetch truncates it. So no flush is in progress
        whose end could be mistaken for that of records written after the cut, at the same offsets and perhaps of the
        same epoch.
        """
        assert self.is_durable, f"requested to truncate to {end_offset}, and the log is durable to {self.flushed} only"
        assert end_offset >= self.high_watermark, \
            f"requested to truncate to {end_offset}, and {self.high_watermark} is committed"
        self.note(events.LogTruncated(end_offset, self.log.end.offset))
        self.log.truncate(end_offset)
        before = self.voters
        self.history.truncate(end_offset)
        if self.voters != before:
            self.note(events.VotersReverted(self.history.latest.kraft_version, self.voters))
        self.flushed = end_offset

    def advance_high_watermark(self, offset: int, *, leader: int | None = None, by: int | None = None) -> None:
        """Commit everything below `offset`. A smaller offset than the current one is ignored. For the trace: `leader`
        reports it, or `by` is the replica with which a majority has it now."""
        assert offset <= self.log.end.offset, f"high watermark {offset} is past the log end {self.log.end}"
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.note(events.Committed(offset, leader, by))

    def replaced_by_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Take log end, voters and high watermark from a snapshot that has been installed. No flush was in progress
        (see `truncate`)."""
        assert snapshot.offset >= self.high_watermark, f"snapshot {snapshot} is older than what is committed here"
        self._restart_history(self.history, snapshot)
        self.flushed = snapshot.offset
        self.high_watermark = snapshot.offset
        self.installed = snapshot
        self.note(events.SnapshotInstalled(snapshot, self.voters))

    # --- epoch, vote, leader: stored in quorum-state -----------------------------------------------------------------

    def enter_epoch(self, epoch: int) -> None:
        assert epoch > self.epoch, f"epoch {epoch} follows {self.epoch}"
        self.epoch = epoch
        self.voted = None
        self.leader_id = NOBODY
        self.leader_endpoints = ()
        self.leader_has_ended = False

    def vote_for(self, candidate: ReplicaKey) -> None:
        assert self.voted is None, f"a second vote in epoch {self.epoch}: {self.voted}, then {candidate}"
        assert self.leader_id == NOBODY, f"a vote in epoch {self.epoch}, which {self.leader_id} leads"
        self.voted = candidate

    def set_leader(self, leader_id: int, endpoints: Endpoints) -> None:
        """Set the leader of the epoch, and try first where it is said to listen. Two leaders in one epoch are a fatal
        error: the node that detects it stops, as Kafka's does."""
        assert self.leader_id in (NOBODY, leader_id), \
            f"epoch {self.epoch} has two leaders: {self.leader_id} and {leader_id}"
        self.leader_id = leader_id
        if endpoints and endpoints != self.leader_endpoints:
            self.leader_endpoints = endpoints
            self.addresses.failures.pop(leader_id, None)

    # --- changes of role ---------------------------------------------------------------------------------------------

    def _become(self, cause: Cause, role: RoleState, source: int = NOBODY) -> None:
        """Change the role. `source`: the sender of the message that is the cause, if there is one."""
        check_transition(self.role.role, cause, role.role)
        for node_id in self.requests.unanswered(self.now_ms, self.config.patience_ms):
            self._unanswered(node_id)
        self.role = role
        self.requests.reset()
        self.note(events.RoleChanged(role.role, self.epoch, None if self.leader_id == NOBODY else self.leader_id, cause,
                                     None if source == NOBODY else source))

    def become_unattached(self, cause: Cause, epoch: int | None = None, source: int = NOBODY) -> None:
        """Become Unattached. After pre-votes that too few voters answered the wait is short: no voter refused this
        replica.

        Entering a higher epoch does not restart a running election time-out, nor does it extend the wait of a follower
        that doubts its leader. Otherwise candidates that campaign often and cannot win would keep the electable ones
        from campaigning (Redpanda's pre-vote live-lock).
        """
        before = self.role
        keeps_time = cause is Cause.HIGHER_EPOCH or isinstance(before, Resigned)
        if keeps_time and isinstance(before, Unattached | Prospective | Candidate | Resigned):
            election_ms = before.election_ms
        elif cause is Cause.ELECTION_TIMEOUT:
            election_ms = self.doubt_deadline_ms()
        else:
            election_ms = self.election_deadline_ms()
            if isinstance(before, Follower) and not (before.has_fetched or before.dismissed):
                election_ms = min(election_ms, before.fetch_ms)
        if epoch is not None:
            self.enter_epoch(epoch)
        self._become(cause, Unattached(election_ms), source)

    def become_voted(self, candidate: ReplicaKey) -> None:
        """Grant the vote of this epoch, and wait a whole election time-out for the result. A Prospective gives up its
        own campaign: pre-votes that it has requested would make it a candidate against the one that it has elected."""
        assert isinstance(self.role, Unattached | Prospective), f"a vote by a {self.role.role}"
        self.vote_for(candidate)
        if isinstance(self.role, Prospective):
            self._become(Cause.VOTED, Unattached(self.election_deadline_ms()))
        else:
            check_transition(self.role.role, Cause.VOTED, self.role.role)
            self.role.election_ms = self.election_deadline_ms()
        self.note(events.Voted(candidate, self.epoch, self.log.end))

    def become_follower(self, leader_id: int, endpoints: Endpoints, cause: Cause = Cause.LEADER_FOUND,
                        source: int = NOBODY, *, is_hearsay: bool = False) -> None:
        """Follow a leader. The vote of the epoch is kept (KIP-996: "we should not drop persisted state").

        `is_hearsay`: a node other than the leader names it, and may know no more than this replica.
        """
        assert leader_id != self.config.node_id, "follows itself"
        self.set_leader(leader_id, endpoints)
        self._become(cause, self._new_follower(is_in_doubt=is_hearsay or cause is Cause.ELECTION_TIMEOUT), source)

    def _new_follower(self, *, is_in_doubt: bool) -> Follower:
        """Return the state of a new follower.

        `is_in_doubt`: only a stored or reported state, its own or another replica's, says that the leader still leads.
        Then the replica waits less than a fetch time-out. If the leader has ended its epoch, the replica waits only as
        long as after a closed connection.
        """
        fetch_ms = deadline_ms = self.now_ms + self.config.fetch_timeout_ms
        if self.leader_has_ended:
            fetch_ms = self.disconnected_deadline_ms()
        elif is_in_doubt:
            fetch_ms = min(fetch_ms, self.doubt_deadline_ms())
        return Follower(fetch_ms=fetch_ms, update_voter_ms=deadline_ms if self.is_voter else self.now_ms)

    def doubt_deadline_ms(self) -> int:
        """Return a time within one election time-out, and after a Fetch that the leader may hold: a live leader has
        answered by then. Voters campaign one after the other, so that no vote is split."""
        patience_ms, voters = self.config.patience_ms, self.voters.ids
        before = sum(voter < self.config.node_id for voter in voters)
        step_ms = patience_ms // (len(voters) + 1)
        return (self.now_ms + max(3 * patience_ms, self.config.fetch_max_wait_ms) + before * step_ms
                + self.random_ms(1 + step_ms // 2))

    def disconnected_deadline_ms(self) -> int:
        """Return when a follower campaigns whose leader must be offline: one voter after the other, so that no vote is
        split.

        The step between two of them leaves time for one that notices late: a split vote costs an election time-out.
        """
        return self.config.disconnect_grace_ms + self.turn_ms(self.leader_id)

    def turn_ms(self, *others: int) -> int:
        """Return when this replica campaigns if each voter with a smaller id does so before it, except `others`."""
        grace_ms = self.config.disconnect_grace_ms
        before = [voter for voter in self.voters.ids if voter < self.config.node_id and voter not in others]
        return self.now_ms + 2 * grace_ms * len(before) + self.random_ms(1 + grace_ms // 4)

    def campaign_soon(self) -> None:
        """Shorten the wait of a replica that knows no leader and has not voted: an election may succeed now."""
        if isinstance(self.role, Unattached) and self.voted is None:
            self.role.election_ms = min(self.role.election_ms, self.disconnected_deadline_ms())

    def lost_deadline_ms(self, tally: Tally) -> int:
        """Return when a candidate that lost campaigns again: binary exponential back-off, up to
        `election_backoff_max_ms`.

        As long as that is long enough, the voters that can be reached campaign one after the other, by their ids.
        """
        config = self.config
        limit_ms = 2 * config.disconnect_grace_ms << min(self.elections_lost, LOST_ELECTIONS_MAX)
        self.elections_lost += 1
        reachable = [voter for voter in tally.voters.ids if voter not in tally.unreachable]
        if limit_ms * len(reachable) > config.election_backoff_max_ms:
            return self.now_ms + 1 + self.random_ms(config.election_backoff_max_ms)
        before = sum(voter < config.node_id for voter in reachable)
        return self.now_ms + 1 + before * limit_ms + self.random_ms(limit_ms)

    def note_leader_contact(self, role: Follower) -> None:
        """Restart the fetch time-out, because the leader has answered. An answer sent before the leader ended its epoch
        is not a sign that it leads."""
        if not self.leader_has_ended:
            self.elections_lost = 0
            role.fetch_ms = self.now_ms + self.config.fetch_timeout_ms
            role.has_fetched = True
            role.losses = 0

    def become_prospective(self, cause: Cause) -> None:
        assert self.may_campaign, "observers do not campaign"
        tally = Tally(self.voters)
        tally.record(self.config.node_id, granted=True)
        refusals: dict[int, Refusal] | None = None
        if isinstance(self.role, Follower) and (self.role.losses or self.leader_has_ended):
            refusals = {}
            if self.role.losses:
                tally.unreachable[self.leader_id] = None
        self._become(cause, Prospective(self.election_deadline_ms(), tally, refusals))

    def become_candidate(self, cause: Cause, source: int = NOBODY) -> None:
        assert self.may_campaign, "observers do not campaign"
        self.enter_epoch(self.epoch + 1)
        self.vote_for(self.config.key)
        unreachable = self.role.tally.unreachable if isinstance(self.role, Prospective) else {}
        tally = Tally(self.voters, unreachable=dict(unreachable))
        tally.record(self.config.node_id, granted=True)
        self._become(cause, Candidate(self.election_deadline_ms(), tally), source)

    def become_leader(self) -> Leader:
        self.elections_lost = 0
        leader = Leader(epoch_start=self.log.end.offset, since_ms=self.now_ms)
        self.set_leader(self.config.node_id, self.config.endpoints)
        self._become(Cause.WON, leader)
        return leader

    def become_resigned(self, preferred: tuple[ReplicaKey, ...]) -> None:
        unnotified = [node_id for node_id in self.voters.ids if node_id != self.config.node_id]
        self._become(Cause.GAVE_UP, Resigned(self.election_deadline_ms(), preferred, unnotified))

    # --- what messages say about the leader --------------------------------------------------------------------------

    def is_possible(self, epoch: int) -> bool:
        """Return whether a quorum can have reached an epoch that a message names."""
        return epoch <= max(EPOCH_EXPECTED_MAX, self.epoch + EPOCH_STEP_MAX)

    def learn(
        self, epoch: int, leader_id: int, endpoints: Endpoints = (), *, source: int, is_announcement: bool = False,
    ) -> None:
        """Process the report by `source` that `leader_id` (negative: none known) leads `epoch`. `is_announcement`: the
        leader itself says so. An epoch that is older than known, or higher than possible, is ignored.

        A Prospective does not return to the leader that it has lost because another replica names it. Otherwise two
        voters whose leader has died would send each other back to it indefinitely, by the very answers that grant each
        other's pre-vote.
        """
        if epoch < self.epoch or (epoch > self.epoch and not self.is_possible(epoch)):
            return
        knows_leader = leader_id >= 0 and leader_id != self.config.node_id
        if epoch > self.epoch and (not knows_leader or isinstance(self.role, Leader)):
            self.become_unattached(Cause.HIGHER_EPOCH, epoch, source)
        if not knows_leader:
            return
        is_hearsay = not is_announcement and source != leader_id
        if epoch > self.epoch:
            self.enter_epoch(epoch)
            self.become_follower(leader_id, endpoints, source=source, is_hearsay=is_hearsay)
        elif isinstance(self.role, (Follower, Leader, Resigned)) or (
                isinstance(self.role, Prospective) and self.leader_id == leader_id and not is_announcement):
            self.set_leader(leader_id, endpoints)
        else:
            self.become_follower(leader_id, endpoints, source=source, is_hearsay=is_hearsay)
