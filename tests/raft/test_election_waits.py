"""Waits of voters that know no leader: what must not extend them, and what ends them early (rules D5, D7, D8 and D10 to
D12 of docs/internals/discovery.md)."""

import pytest

from kraft.raft.address_book import Known
from kraft.raft.config import RaftConfig
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    DiscoverRequest,
    FetchRequest,
    Loss,
    Lost,
    Message,
    Request,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.raft import Raft
from kraft.raft.ready import Answer, HardState, OutgoingRequest
from kraft.raft.replica import Ports
from kraft.raft.roles import Follower, Unattached
from kraft.raft.transitions import Role
from kraft.raft.types import Endpoints, OffsetAndEpoch
from kraft.raft.voters import VoterSet
from kraft.testing.memory_log import formatted
from tests.raft.world import CLUSTER, NoChance, address, key, voter

EMPTY = OffsetAndEpoch(0, 0)
LONG = OffsetAndEpoch(50, 1)
NEW = address(33)
"""Address of node 3 since its restart; the log has `address(3)`."""


class Core:
    """Replica of three voters whose log has a record of epoch 1 and whose random numbers are the largest. `sent`: its
    last requests, by node. `answers`: those to the last request that it received."""

    def __init__(self, node_id: int, state: HardState, **settings: object) -> None:
        log, snapshots = formatted(VoterSet.of(voter(1), voter(2), voter(3)))
        log.append(("a record",), 1, 0)
        log.start_flush(log.end.offset)
        log.finish_flush(log.end.offset)
        ports = Ports(log, snapshots, NoChance(1 << 30), lambda _now_ms, _event: None)
        config = RaftConfig(**{"key": key(node_id), "cluster_id": CLUSTER, "endpoints": address(node_id), **settings})
        self.raft = Raft(config, state, ports, now_ms=0)
        self.raft.tick(0)
        self.now_ms = 0
        self.sent: dict[int, OutgoingRequest] = {}
        self.answers: list[Answer] = []
        self.settle()

    def settle(self) -> None:
        ready = self.raft.take_ready()
        while ready.flush is not None:
            self.raft.log_flushed(ready.flush, self.now_ms)
            ready = self.raft.take_ready()
        self.answers = [each for each in ready.messages if isinstance(each, Answer)]
        self.sent |= {each.node_id: each for each in ready.messages if isinstance(each, OutgoingRequest)}

    def receive(self, request: Request) -> None:
        self.raft.step(100, 1, request, self.now_ms)
        self.settle()

    def answer(self, node_id: int, message: Message) -> None:
        """Answer the last request to that node."""
        self.raft.step(node_id, self.sent[node_id].correlation, message, self.now_ms)
        self.settle()

    def wait(self, until_ms: int) -> None:
        while (due_ms := max(self.now_ms + 1, self.raft.deadline_ms)) <= until_ms:
            self.now_ms = due_ms
            self.raft.tick(due_ms)
            self.settle()
        self.now_ms = until_ms

    @property
    def role(self) -> Role:
        return self.raft.replica.role.role

    @property
    def election_ms(self) -> int:
        role = self.raft.replica.role
        assert isinstance(role, Unattached)
        return role.election_ms

    @property
    def fetch_ms(self) -> int:
        role = self.raft.replica.role
        assert isinstance(role, Follower)
        return role.fetch_ms


def vote(candidate: int, receiver: int, epoch: int, end: OffsetAndEpoch, *, pre_vote: bool) -> VoteRequest:
    return VoteRequest(cluster_id=CLUSTER, candidate=key(candidate), epoch=epoch, log_end=end, voter=key(receiver),
                       pre_vote=pre_vote)


def announcement(of: int, receiver: int, epoch: int, endpoints: Endpoints) -> BeginQuorumEpochRequest:
    return BeginQuorumEpochRequest(cluster_id=CLUSTER, epoch=epoch, leader_id=of, voter=key(receiver),
                                   leader_endpoints=endpoints)


def listens(node_id: int, endpoints: Endpoints) -> DiscoverRequest:
    return DiscoverRequest(cluster_id=CLUSTER, sender=Known(key(node_id), 1, endpoints), epoch=1, leader_id=-1)


# --- D8: a higher epoch does not extend the wait of a follower in doubt -----------------------------------------------


def test_a_higher_epoch_does_not_extend_the_wait_of_a_follower_in_doubt() -> None:
    core = Core(3, HardState(1, None, 1))
    doubt_ms = core.fetch_ms
    assert doubt_ms <= 1000, "less than one election time-out"
    core.receive(vote(2, 3, 2, LONG, pre_vote=True))
    assert (core.role, core.raft.replica.epoch, core.election_ms) == (Role.UNATTACHED, 2, doubt_ms)


def test_a_higher_epoch_leaves_a_follower_of_a_live_leader_a_whole_time_out() -> None:
    core = Core(3, HardState(1, None, 1))
    role = core.raft.replica.role
    assert isinstance(role, Follower)
    role.has_fetched = True
    core.receive(vote(2, 3, 2, LONG, pre_vote=True))
    assert core.election_ms == 1999


# --- D10: a voter that refuses a shorter log campaigns soon -----------------------------------------------------------


@pytest.mark.parametrize("pre_vote", [True, False])
def test_a_voter_that_refuses_a_shorter_log_campaigns_soon(pre_vote: bool) -> None:
    core = Core(3, HardState(1, None, -1))
    assert core.election_ms == 1999
    core.receive(vote(2, 3, 2, EMPTY, pre_vote=pre_vote))
    assert core.election_ms <= 300, "after the voters with smaller ids"
    core.wait(300)
    assert core.role is Role.PROSPECTIVE
    assert isinstance(core.sent[2].request, VoteRequest)


def test_a_follower_that_lost_its_leader_campaigns_in_place_of_a_shorter_log() -> None:
    core = Core(3, HardState(1, None, 1))
    core.answer(1, Lost(Loss.DISCONNECTED))
    assert core.fetch_ms == 162, "after node 2"
    core.receive(vote(2, 3, 1, EMPTY, pre_vote=True))
    assert core.fetch_ms == 12, "node 2 cannot be elected"
    core.wait(12)
    assert core.role is Role.PROSPECTIVE


def test_a_follower_of_a_live_leader_does_not_campaign_for_a_shorter_log() -> None:
    core = Core(3, HardState(1, None, 1))
    role = core.raft.replica.role
    assert isinstance(role, Follower)
    role.has_fetched = True
    before_ms = core.fetch_ms
    core.receive(vote(2, 3, 1, EMPTY, pre_vote=True))
    assert core.fetch_ms == before_ms


def test_a_voter_that_has_voted_waits_for_the_result() -> None:
    core = Core(3, HardState(1, None, -1))
    core.receive(vote(1, 3, 2, LONG, pre_vote=False))
    core.receive(vote(2, 3, 2, EMPTY, pre_vote=False))
    assert core.election_ms == 1999


def test_a_leader_that_a_shorter_log_deposes_campaigns_soon() -> None:
    core = Core(3, HardState(1, None, -1))
    core.wait(1999)
    for pre_vote in (True, False):
        core.answer(2, VoteResponse(granted=True, pre_vote=pre_vote))
    assert core.role is Role.LEADER
    core.receive(vote(2, 3, 3, EMPTY, pre_vote=False))
    assert core.role is Role.UNATTACHED
    assert core.election_ms - core.now_ms <= 300


# --- D11: a voter that votes ends its own campaign --------------------------------------------------------------------


def test_a_prospective_that_votes_does_not_campaign_against_its_candidate() -> None:
    """The candidate has granted the pre-vote before, because pre-votes bind nobody."""
    core = Core(1, HardState(2, None, -1))
    core.wait(1999)
    assert core.role is Role.PROSPECTIVE
    core.receive(vote(2, 1, 2, LONG, pre_vote=False))
    core.answer(2, VoteResponse(epoch=2, granted=True, pre_vote=True))
    assert (core.role, core.raft.replica.epoch) == (Role.UNATTACHED, 2)
    assert core.raft.replica.voted == key(2)
    assert core.election_ms == 1999 + 1999, "a whole time-out for the result"


# --- split votes ------------------------------------------------------------------------------------------------------


def test_a_split_vote_does_not_wait_for_a_voter_that_does_not_answer() -> None:
    """Nothing accepts or refuses a connection at the address of node 3, so no loss is ever reported."""
    core = Core(1, HardState(1, None, -1))
    core.wait(1999)
    core.answer(2, VoteResponse(epoch=1, granted=True, pre_vote=True))
    assert core.role is Role.CANDIDATE
    core.answer(2, VoteResponse(epoch=2))
    core.wait(1999 + 250 + 100)
    assert core.role is Role.PROSPECTIVE


# --- D5, D7, D12: addresses of a leader that moved --------------------------------------------------------------------


def test_a_leader_that_restarted_names_its_own_new_address() -> None:
    core = Core(3, HardState(1, None, 3), endpoints=NEW)
    assert core.role is Role.RESIGNED
    core.receive(vote(1, 3, 1, EMPTY, pre_vote=True))
    response = core.answers[0].response
    assert isinstance(response, VoteResponse)
    assert (response.leader_id, response.leader_endpoints) == (3, NEW), "not the one of its log"


def test_a_follower_names_the_address_that_its_leader_announced() -> None:
    core = Core(1, HardState(1, None, 3))
    core.receive(listens(3, NEW))
    core.receive(vote(2, 1, 1, EMPTY, pre_vote=True))
    response = core.answers[0].response
    assert isinstance(response, VoteResponse)
    assert (response.leader_id, response.leader_endpoints) == (3, NEW)


def test_the_address_of_a_new_leader_is_tried_first() -> None:
    """Also where that node was not found earlier."""
    core = Core(1, HardState(1, None, 3))
    core.receive(listens(3, address(34)))
    core.raft.replica.address_failed(3)
    core.receive(announcement(3, 1, 2, address(34)))
    assert isinstance(core.sent[3].request, FetchRequest)
    assert core.sent[3].address == address(34)[0]


@pytest.mark.parametrize("has_answered", [True, False])
def test_a_leader_is_lost_when_all_its_addresses_were_tried(has_answered: bool) -> None:
    core = Core(2, HardState(1, None, -1))
    core.receive(listens(3, NEW))
    core.receive(announcement(3, 2, 2, NEW))
    role = core.raft.replica.role
    assert isinstance(role, Follower)
    role.has_fetched = has_answered
    tried = core.sent[3].address
    core.answer(3, Lost(Loss.DISCONNECTED))
    assert (core.fetch_ms <= 300) is has_answered
    assert core.fetch_ms <= 1000, "less than one election time-out"
    core.wait(20)
    assert core.sent[3].address != tried
    core.answer(3, Lost(Loss.DISCONNECTED))
    assert core.fetch_ms <= 300
