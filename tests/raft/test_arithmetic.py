"""Progress, tallies and requests: parts that can be tested alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.deadlines import NEVER_MS
from kraft.raft.config import RaftConfig
from kraft.raft.messages import VersionsRequest
from kraft.raft.progress import Progress
from kraft.raft.requests import Requests
from kraft.raft.tally import Tally
from kraft.raft.types import OffsetAndEpoch
from kraft.raft.voters import VoterSet
from kraft_native.base.errors import InvalidArgumentError
from tests.raft.world import key, voter


@given(st.tuples(st.integers(0, 9), st.integers(0, 9)), st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_up_to_date_is_by_epoch_then_by_offset(one: tuple[int, int], other: tuple[int, int]) -> None:
    a, b = OffsetAndEpoch(*one), OffsetAndEpoch(*other)
    assert a.at_least(b) == (a.epoch > b.epoch or (a.epoch == b.epoch and a.offset >= b.offset))
    assert a.at_least(b) or b.at_least(a)


def test_caught_up_means_up_to_the_leaders_last_end() -> None:
    progress = Progress()
    progress.fetched(0, 10, now_ms=100)
    assert (progress.end_offset, progress.caught_up_ms) == (0, -1)
    progress.fetched(10, 15, now_ms=200)
    assert progress.caught_up_ms == 100, "it has now what the leader had then"
    progress.fetched(15, 15, now_ms=300)
    assert progress.caught_up_ms == 300
    progress.note_contact(400)
    assert (progress.fetch_ms, progress.caught_up_ms) == (400, 300)
    progress.fetched(12, 30, now_ms=500)
    assert (progress.end_offset, progress.caught_up_ms) == (12, 300), "it was cut: what it has is what it says"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_a_tally_is_won_or_lost_as_soon_as_it_must_be(size: int) -> None:
    voters = VoterSet.of(*(voter(node_id) for node_id in range(1, size + 1)))
    for granted in range(size + 1):
        for refused in range(size + 1 - granted):
            tally = Tally(voters)
            for node_id in range(1, granted + refused + 1):
                tally.record(node_id, node_id <= granted)
            assert tally.is_won == (granted > size // 2)
            assert tally.is_lost == (refused >= size - size // 2)
            assert len(tally.unanswered) == size - granted - refused


def test_a_split_vote_does_not_wait_for_a_voter_that_cannot_be_reached() -> None:
    tally = Tally(VoterSet.of(*(voter(node_id) for node_id in range(1, 6))))
    tally.record(1, granted=True)
    tally.unreachable.update({4: None, 5: None})
    assert not tally.is_gridlocked, "2 and 3 may still vote for it"
    tally.record(2, granted=False)
    assert tally.is_gridlocked
    assert not tally.is_lost
    tally.record(4, granted=True)
    assert not tally.is_gridlocked, "4 was reached, and 3 may still vote for it"


def test_unreachable_voters_alone_are_no_split_vote() -> None:
    tally = Tally(VoterSet.of(voter(1), voter(2), voter(3)), unreachable={2: None, 3: None})
    tally.record(1, granted=True)
    assert not tally.is_gridlocked, "nobody else campaigns: it waits for a voter until its time-out"


def test_a_tally_knows_its_voters() -> None:
    tally = Tally(VoterSet.of(voter(1), voter(2), voter(3)))
    tally.record(9, granted=True)
    assert tally.granting == ()
    tally.record(2, granted=True)
    tally.record(2, granted=False)
    assert tally.granting == (2,), "a vote that was given stays given"


def test_one_request_at_a_time_for_each_node() -> None:
    requests = Requests(timeout_ms=100, backoff_ms=20)
    first = requests.sent(1, VersionsRequest(), now_ms=0)
    assert requests.ready_ms(1, 50) == 100
    assert requests.ready_ms(2, 50) <= 50
    assert requests.finish(1, first + 1) is None
    assert requests.finish(1, first) == VersionsRequest()
    assert requests.finish(1, first) is None, "an answer counts once"
    assert requests.ready_ms(1, 50) <= 50


def test_a_request_that_expired_is_given_up() -> None:
    requests = Requests(timeout_ms=100, backoff_ms=20)
    first = requests.sent(1, VersionsRequest(), now_ms=0)
    assert requests.deadline_ms(0) == 100
    assert requests.ready_ms(1, 100) <= 100
    assert requests.finish(1, first) is None


def test_back_off() -> None:
    requests = Requests(timeout_ms=100, backoff_ms=20)
    requests.finish(1, requests.sent(1, VersionsRequest(), now_ms=0))
    requests.back_off(1, now_ms=10)
    assert requests.ready_ms(1, 10) == requests.deadline_ms(10) == 30
    assert requests.deadline_ms(30) == NEVER_MS, "what is past is nothing to wait for"
    requests.reset()
    assert requests.ready_ms(1, 10) == 10


@pytest.mark.parametrize("wrong", [
    {"election_timeout_ms": 0}, {"fetch_timeout_ms": -1}, {"retry_backoff_ms": 0}, {"fetch_max_wait_ms": 2000},
    {"key": key(-1)},
])
def test_a_configuration_that_cannot_work(wrong: dict[str, object]) -> None:
    name = next(iter(wrong))
    with pytest.raises(InvalidArgumentError, match=name):
        RaftConfig(**{"key": key(1), **wrong})  # type: ignore[arg-type]
