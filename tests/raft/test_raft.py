"""Contract of `Raft`: the order in a `Ready`, group commit, time, refusals, and assertions that stop a node."""

from dataclasses import replace
from itertools import pairwise

import pytest

from kraft.deadlines import NEVER_MS
from kraft.protocol.error_codes import ErrorCode
from kraft.raft.address_book import Known
from kraft.raft.config import RaftConfig
from kraft.raft.errors import NotLeaderError
from kraft.raft.messages import (
    BeginQuorumEpochRequest,
    DiscoverRequest,
    DiscoverResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    Loss,
    Lost,
    VoteRequest,
    VoteResponse,
)
from kraft.raft.raft import Raft
from kraft.raft.ready import Answer, HardState, Leadership, OutgoingRequest
from kraft.raft.records import Voters
from kraft.raft.replica import Ports
from kraft.raft.roles import Follower, Leader
from kraft.raft.tally import Tally
from kraft.raft.transitions import Role
from kraft.raft.types import Endpoint, OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import VoterSet
from kraft.testing.memory_log import formatted
from tests.raft.world import CLUSTER, NoChance, Packet, World, address, answered, key, voter

THREE = VoterSet.of(voter(1), voter(2), voter(3))


def core(node_id: int = 1, hard_state: HardState | None = None, voters: VoterSet = THREE, **settings: object) -> Raft:
    log, snapshots = formatted(voters)
    given = {"key": key(node_id), "cluster_id": CLUSTER, "endpoints": address(node_id), **settings}
    ports = Ports(log, snapshots, NoChance(0), lambda _now_ms, _event: None)
    return Raft(RaftConfig(**given), hard_state or HardState(), ports, now_ms=0)


def vote(epoch: int, *, pre_vote: bool = False) -> VoteRequest:
    return VoteRequest(cluster_id=CLUSTER, candidate=key(2), epoch=epoch, log_end=OffsetAndEpoch(0, 0),
                       voter=key(1), pre_vote=pre_vote)


def pre_votes(raft: Raft) -> list[OutgoingRequest]:
    """Let a replica campaign; return its requests for pre-votes."""
    raft.tick(1000)
    return [each for each in raft.take_ready().messages if isinstance(each, OutgoingRequest)
            and isinstance(each.request, VoteRequest)]


# --- Ready ------------------------------------------------------------------------------------------------------------


def test_a_vote_is_in_the_hard_state_of_the_ready_that_answers_it() -> None:
    raft = core()
    raft.take_ready()
    raft.step(7, 8, vote(epoch=1), now_ms=1)
    ready = raft.take_ready()
    assert ready.hard_state == HardState(1, key(2), -1)
    answer = next(each for each in ready.messages if isinstance(each, Answer))
    assert (answer.source, answer.correlation) == (7, 8)
    assert isinstance(answer.response, VoteResponse)
    assert answer.response.granted


def test_a_pre_vote_is_not() -> None:
    raft = core()
    raft.take_ready()
    raft.step(7, 8, vote(epoch=0, pre_vote=True), now_ms=1)
    assert raft.take_ready().hard_state is None


def test_everything_is_given_once() -> None:
    world = World()
    world.elect(1)
    ready = world.raft(1).take_ready()
    assert (ready.hard_state, ready.messages, ready.flush, ready.installed, ready.high_watermark,
            ready.leadership) == (None, (), None, None, None, None)


def test_a_candidate_votes_for_itself_before_it_requests_votes() -> None:
    raft = core()
    pre_vote = pre_votes(raft)[0]
    raft.step(pre_vote.node_id, pre_vote.correlation, VoteResponse(granted=True, pre_vote=True), 1001)
    ready = raft.take_ready()
    assert ready.hard_state == HardState(1, key(1), -1)
    votes = [each.request for each in ready.messages if isinstance(each, OutgoingRequest)]
    assert all(isinstance(each, VoteRequest) and each.epoch == 1 and not each.pre_vote for each in votes)
    assert len(votes) == 2


def test_proposals_of_one_iteration_are_one_flush_and_one_answer() -> None:
    world = World()
    world.elect(1)
    raft = world.raft(1)
    for number in range(10):
        raft.propose((f"r{number}",), world.now_ms)
    ready = raft.take_ready()
    assert ready.flush == 13
    answers = [each.response for each in ready.messages if isinstance(each, Answer)]
    assert [getattr(each, "records", None) for each in answers] and len(answers) == 2
    raft.propose(("later",), world.now_ms)
    assert raft.take_ready().flush is None, "one flush at a time"
    raft.log_flushed(13, world.now_ms)
    assert raft.take_ready().flush == 14


def test_records_proposed_at_a_commit_leave_with_it() -> None:
    """One answer reports to a follower the commit and what the state machine proposed because of it."""
    world = World()
    world.elect(1)
    raft = world.raft(1)
    raft.propose(("first",), world.now_ms)
    sent = {each.source: each.response for each in raft.take_ready().messages if isinstance(each, Answer)}
    assert all(isinstance(each, FetchResponse) and each.records for each in sent.values())
    end = raft.replica.log.end
    raft.log_flushed(end.offset, world.now_ms)
    assert raft.take_high_watermark() is None, "only the leader has it"
    source = next(iter(sent))
    raft.step(source, 99, FetchRequest(
        replica=key(2), epoch=end.epoch, fetch_offset=end.offset, last_fetched_epoch=end.epoch, max_wait_ms=500,
        high_watermark=end.offset - 1), world.now_ms)
    assert raft.take_high_watermark() == end.offset
    assert raft.take_high_watermark() is None, "reported once"
    raft.propose(("second",), world.now_ms)
    ready = raft.take_ready()
    assert ready.high_watermark is None
    answer = next(each.response for each in ready.messages if isinstance(each, Answer) and each.correlation == 99)
    assert isinstance(answer, FetchResponse)
    assert (answer.high_watermark, bool(answer.records)) == (end.offset, True)


def test_a_leader_waits_for_its_own_flush_when_that_commits_something() -> None:
    world = World()
    world.elect(1)
    raft = world.raft(1)
    assert not raft.awaits_flush, "a majority of all that there is has it"
    raft.propose(("r",), world.now_ms)
    assert not raft.awaits_flush, "nobody else has it"
    leader = raft.replica.role
    assert isinstance(leader, Leader)
    next(iter(leader.progress.values())).end_offset = raft.replica.log.end.offset
    assert raft.awaits_flush
    assert world.raft(2).awaits_flush, "a follower fetches when it has ended"


def test_a_commit_is_not_reported_before_the_epoch_is_durable() -> None:
    """A single voter elects itself and commits. It reports first its epoch, then the role, then what it committed."""
    raft = core(voters=VoterSet.of(voter(1)))
    raft.tick(2000)
    assert raft.take_high_watermark() is None
    ready = raft.take_ready()
    assert ready.hard_state is not None
    assert ready.flush is not None
    raft.log_flushed(ready.flush, 2001)
    assert raft.take_high_watermark() == ready.flush


def test_an_unrequested_flush_is_a_fault() -> None:
    with pytest.raises(AssertionError, match="was requested"):
        core().log_flushed(5, 0)


def test_leadership_contains_the_epoch_start() -> None:
    world = World((1,))
    world.elect(1)
    assert world.nodes[1].leadership == Leadership(Role.LEADER, 1, 1, 0)
    world.restart(1)
    world.pass_time(3000)
    assert world.nodes[1].leadership == Leadership(Role.LEADER, 2, 1, 3)


# --- proposing and giving up ------------------------------------------------------------------------------------------


def test_only_the_leader_of_the_epoch_takes_proposals() -> None:
    world = World()
    world.elect(1)
    end = world.nodes[1].log.end
    with pytest.raises(NotLeaderError, match="Follower in epoch 1") as refused:
        world.propose(2, "a")
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(NotLeaderError):
        world.raft(1).propose(("a",), world.now_ms, epoch=2)
    assert world.nodes[1].log.end == end
    assert world.raft(1).propose(("a",), world.now_ms, epoch=1) == OffsetAndEpoch(4, 1)


def test_giving_up_names_its_epoch() -> None:
    world = World()
    world.elect(1)
    world.raft(1).resign(2, world.now_ms)
    assert world.role(1) is Role.LEADER
    world.raft(2).resign(1, world.now_ms)
    assert world.role(2) is Role.FOLLOWER
    world.raft(1).resign(1, world.now_ms)
    assert world.role(1) is Role.RESIGNED
    assert not world.raft(1).has_left
    world.settle(1)
    world.deliver(lambda packet: 1 in (packet.sender, packet.receiver))
    assert world.raft(1).has_left


# --- time -------------------------------------------------------------------------------------------------------------


def test_an_idle_quorum_is_called_seldom() -> None:
    """KAFKA-17751: a timer that is not reset makes a busy loop."""
    world = World(observers=(4, 5))
    world.elect(1)
    world.pass_time(1000)
    calls = 0
    tick = world.tick

    def counted(node_id: int) -> None:
        nonlocal calls
        calls += 1
        tick(node_id)

    world.tick = counted  # type: ignore[method-assign]
    world.pass_time(60_000)
    assert calls < 60 * 5 * 4, "four fetches of half a second each a node and second, at most"


@pytest.mark.parametrize("node_id", [1, 2, 4])
def test_the_deadline_is_never_far_behind(node_id: int) -> None:
    world = World(observers=(4,))
    world.elect(1)
    world.crash(3)
    for _ in range(200):
        world.pass_time(37)
        for each in (1, 2, 4):
            assert world.raft(each).deadline_ms > world.now_ms - 1


def test_a_clock_that_goes_back_is_not_believed() -> None:
    raft = core()
    raft.tick(500)
    raft.tick(100)
    assert raft.replica.now_ms == 500


def test_nothing_to_wait_for() -> None:
    assert core(9, voters=VoterSet()).deadline_ms == NEVER_MS


# --- responses of peers -----------------------------------------------------------------------------------------------


def test_a_response_that_says_it_was_no_pre_vote() -> None:
    """KIP-996: "if we were to receive PreVote=false [...] we transition to Candidate state immediately"."""
    raft = core()
    outgoing = pre_votes(raft)[0]
    raft.step(outgoing.node_id, outgoing.correlation, VoteResponse(granted=False, pre_vote=False), 1001)
    assert raft.replica.role.role is Role.CANDIDATE


def test_a_refusal_without_a_pre_vote_flag_is_counted() -> None:
    raft = core()
    for outgoing in pre_votes(raft):
        raft.step(outgoing.node_id, outgoing.correlation, VoteResponse(granted=False), 1001)
    assert raft.replica.role.role is Role.UNATTACHED, "both refused"


def test_a_refused_pre_vote_is_repeated_a_few_times_with_pauses_that_double() -> None:
    world = World(election_timeout_ms=4_000)       # long enough for a fifth request
    world.elect(1)
    world.pass_time(100)
    sent_ms: list[int] = []

    def watch(packet: Packet) -> None:
        if (packet.sender, packet.receiver) == (2, 3) and isinstance(packet.message, VoteRequest):
            sent_ms.append(world.now_ms)

    world.watch = watch
    world.cut += [(2, 1), (1, 2)]
    world.disconnect(2, 1)
    grace_ms = world.raft(2).replica.config.disconnect_grace_ms
    for _ in range(2_000):
        world.pass_time(1)
    pauses_ms = [later - earlier for earlier, later in pairwise(sent_ms)]
    assert len(pauses_ms) == 3
    for number, pause_ms in enumerate(pauses_ms):
        assert grace_ms << number <= pause_ms <= (grace_ms << number) * 5 // 4 + 1
    assert world.role(3) is Role.FOLLOWER
    assert world.raft(3).replica.epoch == 1, "no epoch grows"


def test_the_back_off_of_a_candidate_that_loses_grows_to_the_longest_and_ends_with_a_leader() -> None:
    replica = core(3).replica
    tally = Tally(THREE, unreachable={1: None})
    assert [replica.lost_deadline_ms(tally) for _ in range(4)] == [101, 201, 401, 1], \
        "twice the grace, doubled, the second of two voters each time; then anywhere up to the longest back-off"
    for _ in range(100):
        assert replica.lost_deadline_ms(tally) <= replica.config.election_backoff_max_ms
    replica.role = Follower(fetch_ms=2000, update_voter_ms=2000)
    replica.note_leader_contact(replica.role)
    assert replica.lost_deadline_ms(tally) == 101


def test_an_answer_under_another_number_is_not_an_answer() -> None:
    raft = core()
    outgoing = pre_votes(raft)[0]
    raft.step(outgoing.node_id, outgoing.correlation + 99, VoteResponse(granted=True, pre_vote=True), 1001)
    assert raft.replica.role.role is Role.PROSPECTIVE


def test_an_answer_of_another_cluster_teaches_nothing() -> None:
    raft = core()
    raft.step(2, 1, FetchResponse(error=ErrorCode.INCONSISTENT_CLUSTER_ID, epoch=9, leader_id=2), 5)
    assert raft.replica.epoch == 0
    raft.step(2, 1, FetchResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=9, leader_id=2), 5)
    assert (raft.replica.epoch, raft.replica.role.role) == (9, Role.FOLLOWER)


def test_a_follower_does_not_cut_what_is_committed() -> None:
    world = World()
    world.elect(1)
    outgoing = next(each for each in world.raft(2).replica.requests._peers.values())
    wrong = FetchResponse(epoch=1, leader_id=1, diverging=OffsetAndEpoch(1, 1))
    with pytest.raises(AssertionError, match="is committed"):
        world.raft(2).step(1, outgoing.correlation, wrong, world.now_ms)


def test_a_followers_high_watermark_stays_within_its_own_log() -> None:
    """The leader has committed records that this answer does not carry: a follower commits only what it has."""
    world = World()
    raft, answer = answered(world, "r")
    correlation = raft.replica.requests._peers[1].correlation
    raft.step(1, correlation, replace(answer, high_watermark=1_000), world.now_ms)
    assert raft.replica.role.role is Role.FOLLOWER
    assert raft.replica.high_watermark == raft.replica.log.end.offset == 4


def test_divergence_that_would_cut_nothing_is_the_peers_fault() -> None:
    world = World()
    world.elect(1)
    outgoing = next(each for each in world.raft(2).replica.requests._peers.values())
    world.raft(2).step(1, outgoing.correlation, FetchResponse(epoch=1, leader_id=1, diverging=OffsetAndEpoch(9, 1)),
                       world.now_ms)
    assert world.nodes[2].log.end == OffsetAndEpoch(3, 1)


def test_a_leader_forgets_observers_that_went_long_ago() -> None:
    world = World(observers=(4, 5))
    world.elect(1)
    world.pass_time(1000)
    world.crash(4)
    world.pass_time(299_000)
    assert [view.key for view in world.raft(1).describe().observers] == [key(4), key(5)]
    world.pass_time(10_000)
    assert [view.key for view in world.raft(1).describe().observers] == [key(5)]
    world.make(6)
    world.pass_time(1000)
    assert [view.key for view in world.raft(1).describe().observers] == [key(5), key(6)]
    assert key(4) not in world.raft(1).replica.role.progress


@pytest.mark.parametrize(("wrong", "error"), [
    ({"epoch": -1}, ErrorCode.INVALID_REQUEST),
    ({"fetch_offset": -1}, ErrorCode.INVALID_REQUEST),
    ({"last_fetched_epoch": 2}, ErrorCode.INVALID_REQUEST),
    ({"replica": key(1)}, ErrorCode.INVALID_REQUEST),
    ({"epoch": -1, "cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
    ({"epoch": 0, "last_fetched_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
])
def test_fetches_that_cannot_be(wrong: dict[str, object], error: ErrorCode) -> None:
    world = World()
    world.elect(1)
    given = {"cluster_id": CLUSTER, "replica": key(2), "epoch": 1, "fetch_offset": 3, "last_fetched_epoch": 1, **wrong}
    answer = world.request(1, FetchRequest(**given))
    assert answer is not None
    assert answer.error is error


# --- starting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "role"), [
    (HardState(3, None, 1), Role.RESIGNED),
    (HardState(3, None, 2), Role.FOLLOWER),
    (HardState(3, None, 9), Role.UNATTACHED),
    (HardState(3, key(1), -1), Role.UNATTACHED),
    (HardState(3, key(2), -1), Role.UNATTACHED),
])
def test_the_role_at_the_start(state: HardState, role: Role) -> None:
    raft = core(hard_state=state)
    assert raft.replica.role.role is role
    assert raft.replica.hard_state == state
    assert raft.take_ready().hard_state is None


def test_the_first_leader_makes_the_cluster_id() -> None:
    raft = core(voters=VoterSet.of(voter(1)), cluster_id=None)
    raft.tick(1000)
    log = raft.replica.log
    founding = next(record for _, record in log.controls() if isinstance(record, Voters))
    assert founding.voters.cluster_id == "AAAAAAAAAAAAAAAAAAAAAA"
    assert raft.replica.cluster_id is None, "another leader may make up another, as long as it is not committed"
    flush = raft.take_ready().flush
    assert flush == log.end.offset
    raft.log_flushed(flush, 1000)
    assert raft.take_ready().high_watermark == flush
    assert raft.replica.cluster_id == founding.voters.cluster_id
    raft.step(5, 5, BeginQuorumEpochRequest(cluster_id="other", epoch=9, leader_id=2), 1001)
    answer = raft.take_ready().messages[-1]
    assert isinstance(answer, Answer)
    assert answer.response.error is ErrorCode.INCONSISTENT_CLUSTER_ID


@pytest.mark.parametrize("nobody", [-1, -2, -(2**31)])
def test_no_leader_nor_candidate_has_a_negative_id(nobody: int) -> None:
    """Such ids denote bootstrap servers, in this replica alone."""
    raft = core()
    for request in (BeginQuorumEpochRequest(cluster_id=CLUSTER, epoch=9, leader_id=nobody, voter=key(1)),
                    EndQuorumEpochRequest(cluster_id=CLUSTER, epoch=9, leader_id=nobody),
                    replace(vote(9), candidate=ReplicaKey(nobody))):
        raft.step(5, 5, request, 1)
        answer = raft.take_ready().messages[-1]
        assert isinstance(answer, Answer)
        assert answer.response.error is ErrorCode.INVALID_REQUEST
        assert raft.replica.epoch == 0
    raft.step(2, 7, VoteResponse(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=9, leader_id=nobody), 2)
    assert (raft.replica.epoch, raft.replica.leader_id) == (9, -1)


def test_no_quorum_is_taken_to_the_last_of_the_epochs() -> None:
    """No replica could be elected after that epoch. A replica whose own epoch is far ahead continues by small steps."""
    last = 2**31 - 1
    raft = core()
    for request in (BeginQuorumEpochRequest(cluster_id=CLUSTER, epoch=last, leader_id=2, voter=key(1)),
                    EndQuorumEpochRequest(cluster_id=CLUSTER, epoch=last, leader_id=2), vote(last),
                    vote(last, pre_vote=True)):
        raft.step(5, 5, request, 1)
        answer = raft.take_ready().messages[-1]
        assert isinstance(answer, Answer)
        assert (answer.response.error, raft.replica.epoch) == (ErrorCode.INVALID_REQUEST, 0)
    raft.step(2, 7, VoteResponse(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=last, leader_id=3), 2)
    assert raft.replica.epoch == 0
    ahead = core(hard_state=HardState(1 << 30))
    for epoch, expected in ((last, 1 << 30), ((1 << 30) + 9, (1 << 30) + 9)):
        ahead.step(5, 5, vote(epoch), 1)
        assert ahead.replica.epoch == expected


def test_an_observer_queries_the_bootstrap_servers_under_their_own_ids() -> None:
    servers = tuple(Endpoint("CONTROLLER", host, 1) for host in ("here", "there"))
    raft = core(9, voters=VoterSet(), bootstrap=servers, endpoints=servers[:1])
    outgoing = raft.take_ready().messages[0]
    assert isinstance(outgoing, OutgoingRequest)
    assert (outgoing.node_id, outgoing.address) == (-3, servers[1]), "not itself"
    assert isinstance(outgoing.request, DiscoverRequest)
    assert outgoing.request.sender == Known(key(9), 0, servers[:1])
    raft.step(-3, outgoing.correlation, Lost(Loss.UNSUPPORTED), 1)
    again = raft.take_ready().messages[0]
    assert isinstance(again, OutgoingRequest)
    assert isinstance(again.request, FetchRequest), "it does not know DiscoverBrokers"
    assert (again.node_id, again.request.replica) == (-3, key(9))


@pytest.mark.parametrize("leader_id", [2, -1])
def test_an_isolated_voter_queries_the_bootstrap_servers(leader_id: int) -> None:
    """All other voters have moved while this one was offline. It queries the servers even if it has a last leader."""
    moved = (Endpoint("C", "moved2", 9093), Endpoint("C", "moved3", 9093))
    raft = core(1, HardState(1, None, leader_id), bootstrap=moved)
    found = (Known(key(2), 50, moved[:1]), Known(key(3), 50, moved[1:]))
    for now_ms in range(0, 20_000, 10):
        raft.tick(now_ms)
        for outgoing in raft.take_ready().messages:
            assert isinstance(outgoing, OutgoingRequest)
            if outgoing.address in moved and outgoing.node_id > 0:
                return
            answer = (DiscoverResponse(epoch=1, leader_id=2, leader_endpoints=moved[:1], nodes=found)
                      if isinstance(outgoing.request, DiscoverRequest) else Lost(Loss.DISCONNECTED))
            raft.step(outgoing.node_id, outgoing.correlation, answer, now_ms)
    pytest.fail("it never learned where they are")


def test_a_node_without_the_controller_role_votes_for_nobody() -> None:
    raft = core(9, can_vote=False)
    raft.step(1, 1, VoteRequest(candidate=key(2), epoch=1, log_end=OffsetAndEpoch(0, 0)), 1)
    answer = raft.take_ready().messages[-1]
    assert isinstance(answer, Answer)
    assert answer.response.error is ErrorCode.INCONSISTENT_VOTER_SET


def test_state_names_are_kafkas() -> None:
    world = World(observers=(4,))
    assert [world.raft(each).state_name for each in (1, 4)] == ["unattached", "observer"]
    world.time_out(1)
    assert world.raft(1).state_name == "prospective"
    world.deliver()
    assert [world.raft(each).state_name for each in (1, 2)] == ["leader", "follower"]


def test_snapshot_ids_name_the_epoch_of_the_last_record() -> None:
    world = World((1,))
    world.elect(1)
    world.restart(1)
    world.pass_time(3000)
    world.propose(1, "a")
    raft = world.raft(1)
    assert [raft.snapshot_id(end) for end in (0, 1, 3, 4, 5)] == [
        OffsetAndEpoch(0, 0), OffsetAndEpoch(1, 1), OffsetAndEpoch(3, 1), OffsetAndEpoch(4, 2), OffsetAndEpoch(5, 2)]


def test_keys_in_text() -> None:
    assert [str(ReplicaKey(3)), str(key(3))] == ["3", "3:d003"]
