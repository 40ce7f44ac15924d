"""Bugs in elections: which nodes campaign, which get a vote, and when a leader resigns."""

from collections.abc import Callable
from typing import Any

from kraft.deadlines import NEVER_MS
from kraft.raft import elections, following, leading, raft, searching
from kraft.raft.events import Voted
from kraft.raft.messages import VoteRequest
from kraft.raft.replica import Replica
from kraft.raft.requests import Requests
from kraft.raft.roles import Candidate, Follower, Leader, Prospective, RoleState, Unattached
from kraft.raft.transitions import Cause
from kraft.raft.types import NOBODY, OffsetAndEpoch
from kraft.testing.mutants.patches import Collection, Patches

VOTING = Collection()
Granted = Callable[[Replica, VoteRequest], bool]


@VOTING.add(1, "KAFKA-10527")
def restarted_leader_stays_leader(patches: Patches) -> None:
    """A restarted leader continues to lead in its epoch, without its unflushed records."""
    def around(original: Callable[[Replica], RoleState]) -> Callable[[Replica], RoleState]:
        def first_role(replica: Replica) -> RoleState:
            if replica.leader_id == replica.config.node_id:
                return Leader(epoch_start=max(0, replica.log.end.offset - 1), since_ms=replica.now_ms)
            return original(replica)

        return first_role

    patches.wrap(Replica, "_first_role", around)


# Two nodes campaign in one epoch. The winner loses power before its first record is flushed, and the other one's
# request reaches it after that. So there are many elections, many of them disputed, and short outages.
@VOTING.add(2, "KAFKA-10661", voters=3, observers=0, dynamic=False, old_peers=3, election_timeout_ms=100,
            election_backoff_max_ms=3, delay_ms=10, jitter_ms=100, drop_per_mille=100, late_per_mille=100, late_ms=500,
            isolate_every_ms=1000, cut_ms=300, power_every_ms=500, down_ms=50, flush_us=50_000)
def restarted_leader_votes_again(patches: Patches) -> None:
    """A restarted leader has forgotten that it led, and which node had its vote."""
    def around(original: Callable[[Replica], RoleState]) -> Callable[[Replica], RoleState]:
        def first_role(replica: Replica) -> RoleState:
            if replica.leader_id == replica.config.node_id:
                replica.leader_id, replica.voted = NOBODY, None
            return original(replica)

        return first_role

    patches.wrap(Replica, "_first_role", around)


@VOTING.add(6, "KAFKA-15489")
def no_check_quorum(patches: Patches) -> None:
    """A leader continues to lead although no voter fetches from it."""
    patches.put(leading, "_check_quorum_ms", lambda _replica, _leader: NEVER_MS)


@VOTING.add(7, "KAFKA-16531")
def removed_leader_counts_its_own_fetch(patches: Patches) -> None:
    """Check quorum counts a leader that is not a voter any more."""
    def around(original: Callable[[Replica, Leader], int]) -> Callable[[Replica, Leader], int]:
        def check_quorum_ms(replica: Replica, leader: Leader) -> int:
            return original(replica, leader) if replica.voters.has(replica.config.key) else NEVER_MS

        return check_quorum_ms

    patches.wrap(leading, "_check_quorum_ms", around)


@VOTING.add(10, "KAFKA-17067")
def observers_campaign(patches: Patches) -> None:
    """A node that is not a voter campaigns."""
    patches.put(Replica, "may_campaign", property(lambda replica: bool(replica.voters.voters)))


@VOTING.add(0, "Ongaro's thesis, 4.2.2")
def removed_leader_never_campaigns(patches: Patches) -> None:
    """A leader that wrote its own removal and died does not campaign again, though no other node can commit it."""
    patches.put(Replica, "may_campaign", property(lambda replica: replica.is_voter))


@VOTING.add(11, "KAFKA-17751")
def timer_is_not_reset(patches: Patches) -> None:
    """An expired time-out without effect is still the next deadline."""
    def around(original: Callable[[Replica], int]) -> Callable[[Replica], int]:
        def deadline_ms(replica: Replica) -> int:
            return replica.role.fetch_ms if isinstance(replica.role, Follower) else original(replica)

        return deadline_ms

    patches.wrap(raft, "_deadline_ms", around)


@VOTING.add(13, "KAFKA-13104")
def resigning_is_ignored(patches: Patches) -> None:
    """The state machine resigns, but the core continues to lead."""
    patches.put(raft.Raft, "resign", lambda _raft, _epoch, _now_ms: None)


@VOTING.add(25, "KAFKA-17642")
def no_pre_vote(patches: Patches) -> None:
    """A node raises its epoch at once instead of requesting pre-votes."""
    table: Any = raft.DUE
    patches.entry(table, Prospective, lambda replica, _role: replica.become_candidate(Cause.WON))


# Followers of a leader that has lost its disk doubt it within an election time-out. Then they request pre-votes
# themselves, and as prospective voters they grant them. So the bug stops a quorum only under two conditions. All
# remaining voters are needed, and a doubt takes much longer than an election time-out, since it outlasts a Fetch that
# the leader may hold.
@VOTING.add(25, "KAFKA-20895", voters=5, observers=0, dynamic=True, old_peers=0, election_timeout_ms=100,
            election_backoff_max_ms=100, fetch_timeout_ms=2000, wipe_every_ms=3000, change_every_ms=0,
            reassign_every_ms=0)
def followers_never_grant_pre_votes(patches: Patches) -> None:
    """A follower refuses pre-votes although it cannot reach its leader, or the leader has resigned."""
    def around(original: Granted) -> Granted:
        def is_granted(replica: Replica, request: VoteRequest) -> bool:
            if request.pre_vote and isinstance(replica.role, Follower):
                return False
            return original(replica, request)

        return is_granted

    patches.wrap(elections, "_is_granted", around)


@VOTING.add(26, "Redpanda 30815")
def pre_vote_needs_a_longer_log(patches: Patches) -> None:
    """A pre-vote is refused to a log as long as one's own. Equal logs refuse each other indefinitely."""
    def around(original: Granted) -> Granted:
        def is_granted(replica: Replica, request: VoteRequest) -> bool:
            return original(replica, request) and not (request.pre_vote and request.log_end == replica.log.end)

        return is_granted

    patches.wrap(elections, "_is_granted", around)


@VOTING.add(0, "Raft 5.4.1")
def any_log_wins(patches: Patches) -> None:
    """A vote is granted whatever records the candidate's log has."""
    patches.put(OffsetAndEpoch, "at_least", lambda _mine, _other: True)


@VOTING.add(0, "Raft 5.4.1")
def longer_log_wins(patches: Patches) -> None:
    """Logs are compared by length first, instead of by the epoch of their last record."""
    patches.put(OffsetAndEpoch, "at_least", lambda mine, other: mine.offset >= other.offset)


@VOTING.add(0, "Raft 5.2")
def votes_twice(patches: Patches) -> None:
    """A voter may vote for several candidates in the same epoch."""
    def become_voted(replica: Replica, candidate: Any) -> None:
        replica.voted = candidate
        replica.note(Voted(candidate, replica.epoch, replica.log.end))

    def around(original: Granted) -> Granted:
        def is_granted(replica: Replica, request: VoteRequest) -> bool:
            if not request.pre_vote and isinstance(replica.role, Unattached | Prospective | Candidate):
                replica.voted = None
                return request.log_end.at_least(replica.log.end) and replica.leader_id == NOBODY
            return original(replica, request)

        return is_granted

    patches.put(Replica, "become_voted", become_voted)
    patches.wrap(elections, "_is_granted", around)


@VOTING.add(0, "KIP-642: a new address at every restart", relocation=True)
def searches_after_two_losses(patches: Patches) -> None:
    """A follower queries the bootstrap servers only after two losses in a row. No driver reports two before it
    campaigns, and a campaigning node does not query them either. So no node learns its address."""
    def searches(replica: Replica) -> bool:
        role = replica.role
        if isinstance(role, Follower):
            return role.losses > 1 or replica.now_ms >= role.fetch_ms
        return isinstance(role, Unattached)

    patches.put(searching, "searches", searches)
    patches.put(following, "searches", searches)


@VOTING.add(12, "KAFKA-15100")
def late_answers_are_taken(patches: Patches) -> None:
    """The answer to a Fetch changes the log although the replica has another leader, or another epoch, by now."""
    from dataclasses import replace

    from kraft.raft.messages import FetchRequest
    handlers: Any = raft.ANSWER_HANDLERS
    original = handlers[FetchRequest]

    def handle(replica: Replica, _node_id: int, request: FetchRequest, answer: Any) -> None:
        original(replica, replica.leader_id, replace(request, epoch=replica.epoch), answer)

    patches.put(Requests, "reset", lambda _requests: None)
    patches.entry(handlers, FetchRequest, handle)
