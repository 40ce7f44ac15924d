"""A follower's lease: when the core grants it, what ends it, and what the core makes of its outcome."""

from collections.abc import Callable

import pytest

from kraft.raft.messages import FetchRequest, VoteRequest
from kraft.raft.raft import Raft
from kraft.raft.ready import FollowLease, Outcome, OutgoingRequest
from kraft.raft.roles import Download, Follower
from kraft.raft.searching import next_fetch
from kraft.raft.types import UNKNOWN_OFFSET, OffsetAndEpoch
from tests.raft.world import CLUSTER, World, answered, key

VOTE = VoteRequest(cluster_id=CLUSTER, candidate=key(3), epoch=9, log_end=OffsetAndEpoch(0, 0), voter=key(2))


def leased(world: World) -> tuple[Raft, FollowLease]:
    """Return a follower whose Fetch waits for a flush, and its lease."""
    raft, answer = answered(world, "r")
    raft.step(1, correlation_of(raft), answer, world.now_ms)
    assert raft.take_ready().flush is not None
    lease = raft.lease()
    assert lease is not None
    return raft, lease


def correlation_of(raft: Raft) -> int:
    """Return the correlation of the pending request to node 1."""
    pending = raft.replica.requests.pending(1)
    assert pending is not None
    return pending[0]


def pending_offset(raft: Raft) -> int:
    pending = raft.replica.requests.pending(1)
    assert pending is not None
    assert isinstance(pending[1], FetchRequest)
    return pending[1].fetch_offset


def append_leased(raft: Raft) -> int:
    """Append a record, as the driver does during a lease."""
    log = raft.replica.log
    return log.append(("leased",), log.end.epoch, 0)


@pytest.mark.parametrize("is_sent", [True, False])
def test_a_lease_without_answers(is_sent: bool) -> None:
    """The Fetch of the lease is sent once, by the flush or by the core."""
    world = World()
    raft, lease = leased(world)
    end_offset = raft.replica.log.end.offset
    assert lease[:3] == (1, raft.replica.epoch, end_offset)
    assert not lease.is_sent
    outstanding = raft.revoke(Outcome(end_offset, UNKNOWN_OFFSET, is_sent), world.now_ms)
    assert outstanding == (lease.fetch if is_sent else None)
    if not is_sent:
        raft.log_flushed(end_offset, world.now_ms)
    sent = raft.take_ready().messages
    assert [each._replace(correlation=lease.fetch.correlation) for each in sent if isinstance(each, OutgoingRequest)] \
        == ([] if is_sent else [lease.fetch])
    again = raft.lease()
    assert again is not None
    assert again == lease._replace(fetch=again.fetch, is_sent=True), "it is leased while its Fetch is outstanding"
    assert again.fetch.correlation == correlation_of(raft)
    assert raft.revoke(Outcome(end_offset, UNKNOWN_OFFSET, is_outstanding=True), world.now_ms) == again.fetch


@pytest.mark.parametrize("is_outstanding", [True, False])
def test_a_lease_with_answers_is_one_answer(is_outstanding: bool) -> None:
    world = World()
    raft, lease = leased(world)
    role = raft.replica.role
    assert isinstance(role, Follower)
    end_offset = append_leased(raft)
    world.now_ms += 100
    outstanding = raft.revoke(Outcome(end_offset, end_offset - 1, is_outstanding), world.now_ms)
    assert role.fetch_ms == world.now_ms + raft.replica.config.fetch_timeout_ms
    assert raft.take_high_watermark() == end_offset - 1
    assert raft.replica.is_durable == is_outstanding
    if is_outstanding:
        assert outstanding is not None
        assert (outstanding.correlation, pending_offset(raft)) == (correlation_of(raft), end_offset)
        assert outstanding.correlation != lease.fetch.correlation
    else:
        assert outstanding is None
        assert raft.take_ready().flush is None, "it is in progress"
        raft.log_flushed(end_offset, world.now_ms)
        assert raft.take_ready().messages
        assert pending_offset(raft) == end_offset


def test_a_high_watermark_beyond_the_log_is_limited() -> None:
    world = World()
    raft, _lease = leased(world)
    end_offset = append_leased(raft)
    raft.revoke(Outcome(end_offset, end_offset + 9, is_outstanding=True), world.now_ms)
    assert raft.replica.high_watermark == end_offset


@pytest.mark.parametrize("event", [
    lambda raft: raft.step(3, 1, VOTE, 0), lambda raft: raft.tick(0), lambda raft: raft.log_flushed(1, 0),
    lambda raft: raft.propose(("r",), 0), lambda raft: raft.upgrade(1, 1, 0), lambda raft: raft.resign(1, 0),
    lambda raft: raft.lease(), lambda raft: raft.take_ready()])
def test_nothing_happens_to_a_leased_core(event: Callable[[Raft], object]) -> None:
    world = World()
    raft, lease = leased(world)
    with pytest.raises(AssertionError, match="FollowLease"):
        event(raft)
    raft.revoke(Outcome(lease.from_offset, UNKNOWN_OFFSET, is_outstanding=True), world.now_ms)
    with pytest.raises(AssertionError, match="not leased"):
        raft.revoke(Outcome(lease.from_offset, UNKNOWN_OFFSET, is_outstanding=True), world.now_ms)


def test_an_outcome_of_another_log_end_is_refused() -> None:
    world = World()
    raft, lease = leased(world)
    with pytest.raises(AssertionError, match="the log ends at"):
        raft.revoke(Outcome(lease.from_offset + 1, 0, is_outstanding=True), world.now_ms)


def test_a_lease_needs_a_fetch_that_is_next() -> None:
    world = World()
    raft, answer = answered(world, "r")
    raft.step(1, correlation_of(raft), answer, world.now_ms)
    assert raft.lease() is None, "no flush was requested"
    assert raft.take_ready().flush is not None
    role = raft.replica.role
    assert isinstance(role, Follower)
    role.update_voter_ms, before = raft.replica.now_ms, role.update_voter_ms
    assert raft.lease() is None, "the address is to be announced to the leader"
    role.update_voter_ms, fetch_ms, role.fetch_ms = before, role.fetch_ms, raft.replica.now_ms
    assert raft.lease() is None, "it campaigns"
    role.fetch_ms, role.download = fetch_ms, Download(OffsetAndEpoch(9, 1))
    assert raft.lease() is None, "it fetches a snapshot"
    role.download = None
    append_leased(raft)
    assert raft.lease() is None, "more is to be flushed than was requested"
    assert world.raft(1).lease() is None, "a leader fetches nothing"
    assert world.raft(3).lease() is not None


def test_another_pending_request_is_not_leased() -> None:
    world = World()
    raft, _lease = leased(world)
    end_offset = raft.replica.log.end.offset
    raft.revoke(Outcome(end_offset, UNKNOWN_OFFSET, is_outstanding=True), world.now_ms)
    assert raft.replica.requests.finish(1, correlation_of(raft)) is not None
    assert raft.lease() is None, "nothing is pending"
    raft.replica.requests.sent(1, next_fetch(raft.replica, 0), world.now_ms)
    assert raft.lease() is None, "the leader may not hold that one"
