"""Every message, lost answer and time-out, given to a core in each of its roles: the role that follows by the rules.

The rows are written down from KIP-595, 642 and 996, not from the table that the core uses (`test_transitions`).
"""

from collections.abc import Callable, Mapping

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.address_book import Known
from kraft.raft.config import RaftConfig
from kraft.raft.messages import (
    ANSWERS,
    AddVoterRequest,
    BeginQuorumEpochRequest,
    DiscoverRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Loss,
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
    VoteResponse,
)
from kraft.raft.raft import Raft
from kraft.raft.ready import HardState, OutgoingRequest
from kraft.raft.replica import Ports
from kraft.raft.transitions import Role
from kraft.raft.types import NOBODY, OffsetAndEpoch
from kraft.raft.voters import VoterSet
from kraft.testing.memory_log import formatted
from tests.raft.world import CLUSTER, NoChance, address, key, voter

ME, OTHER, THIRD = 1, 2, 3
EPOCH = 5
LATE = 999
"""Correlation id of an answer that no request awaits."""

LETTERS: Mapping[str, Role] = {
    "U": Role.UNATTACHED, "P": Role.PROSPECTIVE, "C": Role.CANDIDATE, "L": Role.LEADER, "F": Role.FOLLOWER,
    "R": Role.RESIGNED}
SAME = "UPCLFR"
"""Role that follows from each role, in this order; here every role stays."""


class Core:
    """Node 1 of three voters in one of its roles: a follower of node 2, or for roles that lead or led, in its own
    epoch."""

    def __init__(self, letter: str) -> None:
        self.now_ms = 0
        self.sent: dict[int, OutgoingRequest] = {}
        log, snapshots = formatted(VoterSet.of(*map(voter, (ME, OTHER, THIRD))))
        config = RaftConfig(key=key(ME), cluster_id=CLUSTER, endpoints=address(ME))
        hard_state = HardState(EPOCH, None, OTHER if letter == "F" else NOBODY)
        self.raft = Raft(config, hard_state, Ports(log, snapshots, NoChance(100), lambda *_event: None), 0)
        self.settle()
        if letter in "PCLR":
            self.time_out()
        if letter in "CLR":
            self.answer(OTHER, VoteResponse(epoch=EPOCH, granted=True, pre_vote=True))
        if letter in "LR":
            self.answer(OTHER, VoteResponse(epoch=EPOCH + 1, granted=True))
        if letter == "R":
            self.raft.resign(EPOCH + 1, self.now_ms)
            self.settle()
        assert self.role is LETTERS[letter]

    @property
    def role(self) -> Role:
        return self.raft.replica.role.role

    @property
    def epoch(self) -> int:
        return self.raft.replica.epoch

    def settle(self) -> None:
        while True:
            ready = self.raft.take_ready()
            self.sent |= {each.node_id: each for each in ready.messages if isinstance(each, OutgoingRequest)}
            if ready.flush is None:
                return
            self.raft.log_flushed(ready.flush, self.now_ms)

    def step(self, source: int, correlation: int, message: Message) -> None:
        self.raft.step(source, correlation, message, self.now_ms)
        self.settle()

    def answer(self, node_id: int, message: Response | Lost) -> None:
        """Answer the last request to that node. A message that does not answer it arrives as a late answer."""
        sent = self.sent.get(node_id)
        waits = sent is not None and isinstance(message, Lost | ANSWERS[type(sent.request)])
        self.step(node_id, sent.correlation if sent is not None and waits else LATE, message)

    def time_out(self) -> None:
        """Move time to the time-out of the role, which is longer than that of any request in flight."""
        role = self.raft.replica.role
        self.now_ms = getattr(role, "election_ms", None) or getattr(role, "fetch_ms", None) or int(
            self.now_ms + self.raft.replica.config.check_quorum_timeout_ms)
        self.raft.tick(self.now_ms)
        self.settle()


Event = Callable[[Core], None]


def answers_to(make: Callable[[int], Request], after: int = 0) -> Event:
    """Step a request of node 2 whose epoch is `after` above this replica's own."""
    return lambda core: core.step(7, 8, make(core.epoch + after))


def vote(epoch: int, *, pre_vote: bool = False) -> Request:
    # A log that is longer than any here.
    end = OffsetAndEpoch(50, epoch if pre_vote else epoch - 1)
    return VoteRequest(cluster_id=CLUSTER, candidate=key(OTHER), epoch=epoch, log_end=end, pre_vote=pre_vote)


def pre_vote(epoch: int) -> Request:
    return vote(epoch, pre_vote=True)


def begin(epoch: int) -> Request:
    return BeginQuorumEpochRequest(cluster_id=CLUSTER, epoch=epoch, leader_id=OTHER)


def begin_of_third(epoch: int) -> Request:
    return BeginQuorumEpochRequest(cluster_id=CLUSTER, epoch=epoch, leader_id=THIRD)


def end(epoch: int) -> Request:
    return EndQuorumEpochRequest(cluster_id=CLUSTER, epoch=epoch, leader_id=OTHER)


def end_for_me(epoch: int) -> Request:
    return EndQuorumEpochRequest(cluster_id=CLUSTER, epoch=epoch, leader_id=OTHER, preferred=(key(ME),))


def fetch(epoch: int) -> Request:
    return FetchRequest(cluster_id=CLUSTER, replica=key(OTHER), epoch=epoch, fetch_offset=0, last_fetched_epoch=0)


def fetch_snapshot(epoch: int) -> Request:
    return FetchSnapshotRequest(
        cluster_id=CLUSTER, replica=key(OTHER), epoch=epoch, snapshot=OffsetAndEpoch(0, 0), position=0)


def discover(epoch: int) -> Request:
    return DiscoverRequest(
        cluster_id=CLUSTER, sender=Known(key(OTHER), 1, address(OTHER)), epoch=epoch, leader_id=THIRD)


def update(epoch: int) -> Request:
    return UpdateVoterRequest(cluster_id=CLUSTER, epoch=epoch, voter=voter(OTHER))


REQUESTS: Mapping[tuple[Callable[[int], Request], int], str] = {
    # Raft, 5.1: a replica that receives a higher epoch enters it, and leads nothing. A Prospective that votes gives up
    # its campaign. A vote changes no other role.
    (vote, -1): SAME, (vote, 0): "UUCLFR", (vote, 1): "UUUUUU",
    (pre_vote, -1): SAME, (pre_vote, 0): SAME, (pre_vote, 1): "UUUUUU",
    # A replica that leads no epoch follows the leader. A leader, and a replica that led the epoch, accept no other
    # leader.
    (begin, -1): SAME, (begin, 0): "FFFLFR", (begin, 1): "FFFFFF",
    (begin_of_third, 0): "FFFLFR",
    # A leader that resigns has led until then; its preferred successor campaigns at once.
    (end, -1): SAME, (end, 0): "FFFLFR", (end, 1): "FFFFFF",
    (end_for_me, -1): SAME, (end_for_me, 0): "PPPLPR", (end_for_me, 1): "PPPPPP",
    # The leader gives way to a replica in a later epoch, and campaigns. For others a Fetch is no news.
    (fetch, -1): SAME, (fetch, 0): SAME, (fetch, 1): "UPCPFR",
    (fetch_snapshot, -1): SAME, (fetch_snapshot, 0): SAME, (fetch_snapshot, 1): SAME,
    (discover, -1): SAME, (discover, 0): SAME, (discover, 1): "FFFFFF",
    (update, -1): SAME, (update, 0): SAME, (update, 1): SAME,
    (lambda _epoch: VersionsRequest(cluster_id=CLUSTER), 0): SAME,
    (lambda _epoch: AddVoterRequest(cluster_id=CLUSTER, voter=voter(9), timeout_ms=1000), 0): SAME,
    (lambda _epoch: RemoveVoterRequest(cluster_id=CLUSTER, voter=key(THIRD)), 0): SAME,
    (lambda _epoch: RemoveVoterRequest(cluster_id=CLUSTER, voter=key(ME)), 0): SAME,
    (lambda _epoch: ReassignVotersRequest(cluster_id=CLUSTER, targets=(4, 5, 6)), 0): SAME,
}


def check(event: Event, becomes: str) -> None:
    assert len(becomes) == len(SAME)
    roles = {}
    for letter in SAME:
        core = Core(letter)
        event(core)
        roles[letter] = core.role
    assert roles == {letter: LETTERS[after] for letter, after in zip(SAME, becomes, strict=True)}


@pytest.mark.parametrize(("make", "after", "becomes"), [(*key_, becomes) for key_, becomes in REQUESTS.items()])
def test_requests(make: Callable[[int], Request], after: int, becomes: str) -> None:
    check(answers_to(make, after), becomes)


def test_every_request_is_among_them() -> None:
    assert {type(make(EPOCH)) for make, _ in REQUESTS} == set(ANSWERS)


QUORUM_RESPONSES = sorted({each for each in ANSWERS.values() if issubclass(each, QuorumResponse)},
                          key=lambda each: each.__name__)


@pytest.mark.parametrize("kind", QUORUM_RESPONSES)
@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
@pytest.mark.parametrize(("after", "leader_id", "becomes"), [
    (-1, NOBODY, SAME), (-1, THIRD, SAME), (0, NOBODY, SAME), (0, OTHER, "FFFLFR"), (1, NOBODY, "UUUUUU"),
    (1, THIRD, "FFFFFF")])
def test_answers_name_the_leader(kind: type[QuorumResponse], error: ErrorCode, after: int, leader_id: int,
                                 becomes: str) -> None:
    """An answer of one voter alone decides nothing, whatever else it says. In the epoch that this replica leads, or
    led, all answers name it."""
    def event(core: Core) -> None:
        led = core.role in (Role.LEADER, Role.RESIGNED) and after == 0 and leader_id != NOBODY
        core.answer(OTHER, kind(error=error, epoch=core.epoch + after, leader_id=ME if led else leader_id))

    check(event, becomes)


def answered(*responses: Callable[[int], Response | Lost]) -> Event:
    """Let nodes 2 and 3 answer their requests."""
    def event(core: Core) -> None:
        epoch, role = core.epoch, core.role
        for node_id, make in zip((OTHER, THIRD), responses, strict=False):
            if core.role is role:
                core.answer(node_id, make(epoch))

    return event


@pytest.mark.parametrize(("event", "becomes"), [
    # A majority of pre-votes makes a candidate, one of votes a leader; a lost pre-vote ends the campaign.
    (answered(lambda epoch: VoteResponse(epoch=epoch, granted=True, pre_vote=True)), "UCLLFR"),
    (answered(lambda epoch: VoteResponse(epoch=epoch, granted=False, pre_vote=True),
              lambda epoch: VoteResponse(epoch=epoch, granted=False, pre_vote=True)), "UUCLFR"),
    # A replica that does not know pre-votes has none to grant.
    (answered(lambda epoch: VoteResponse(epoch=epoch, granted=False, pre_vote=False)), "UCCLFR"),
    (answered(lambda _epoch: Lost(Loss.UNSUPPORTED)), "UCCLFR"),
    (answered(lambda _epoch: Lost(Loss.DISCONNECTED), lambda _epoch: Lost(Loss.DISCONNECTED)), SAME),
    (answered(lambda _epoch: Lost(Loss.TIMED_OUT), lambda _epoch: Lost(Loss.TIMED_OUT)), SAME),
    (answered(lambda epoch: FetchResponse(epoch=epoch, diverging=OffsetAndEpoch(0, 0))), SAME),
    (answered(lambda epoch: FetchResponse(epoch=epoch, snapshot=OffsetAndEpoch(9, epoch))), SAME),
    (answered(lambda epoch: FetchResponse(epoch=epoch, not_follower=True)), SAME),
    (answered(lambda epoch: FetchSnapshotResponse(epoch=epoch, error=ErrorCode.SNAPSHOT_NOT_FOUND)), SAME),
    (answered(lambda _epoch: VersionsResponse()), SAME),
    # Candidates request pre-votes again, a leader from which no voter fetches resigns. A resigned replica enters the
    # next epoch, and campaigns there at once: it has waited.
    (Core.time_out, "PUPRPP"),
])
def test_answers_and_time_outs(event: Event, becomes: str) -> None:
    check(event, becomes)


def test_every_answer_is_among_them() -> None:
    assert {*QUORUM_RESPONSES, VersionsResponse} == set(ANSWERS.values())
