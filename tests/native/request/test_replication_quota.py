"""The quota of throttled replicas: its rate, and the replicas that leaders and followers throttle by it (KIP-73)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import now_ms
from kraft_native.request.replication_quota import ReplicationQuota
from tests.native.logs import batch
from tests.native.replica.test_replica_fetch import Line, content, pair
from tests.native.replica.test_replica_fetch import line as _line

line = _line


@given(st.integers(1, 5), st.integers(1, 50), st.integers(0, 400),
       st.lists(st.tuples(st.integers(0, 30), st.integers(0, 100)), max_size=12))
@settings(max_examples=50)
def test_the_rate_of_the_last_samples(samples: int, sample_ms: int, rate: int, steps: list[tuple[int, int]]) -> None:
    quota = ReplicationQuota(samples=samples, sample_ms=sample_ms)
    quota.set_rate(rate)
    now, counted = 1_000_000, []
    for pause, size in steps:
        now += pause
        quota.record(size, now)
        counted.append((now // sample_ms, size))
        window = [(number, each) for number, each in counted if number > now // sample_ms - samples and each]
        oldest = min((number for number, _ in window), default=now // sample_ms)
        elapsed = max(now - oldest * sample_ms, sample_ms)
        exceeded = sum(each for _, each in window) * 1000 > rate * elapsed
        assert quota.exceeded(now) is exceeded
        wait = quota.wait_ms(now)
        assert (0 < wait <= 1000) if exceeded else wait == 0
        if exceeded and wait < 1000 and oldest > (now + wait) // sample_ms - samples:
            assert not quota.exceeded(now + wait)
    assert quota.bytes_total == sum(size for _, size in counted)


def test_impossible_quotas() -> None:
    for wrong in ({"samples": 0}, {"sample_ms": 0}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            ReplicationQuota(**wrong)
    quota = ReplicationQuota()
    quota.record(1 << 60, 5)
    assert not quota.exceeded(5), "no bound"
    with pytest.raises(InvalidArgumentError, match="bytes_per_second"):
        quota.set_rate(-1)
    quota.set_rate(0)
    assert quota.exceeded(5) and quota.wait_ms(5) == 1000


def spent(rate: int = 1) -> ReplicationQuota:
    """Return a quota that is exceeded from now on."""
    quota = ReplicationQuota(samples=1000)
    quota.set_rate(rate)
    quota.record(1 << 40, now_ms())
    return quota


def throttle(partition: Partition, *, leader: ReplicationQuota | None = None,
             follower: ReplicationQuota | None = None) -> None:
    partition.throttle(leader, follower)


def test_a_leader_sends_nothing_to_a_throttled_follower_that_is_not_in_sync(line: Line) -> None:
    leading, following = pair(line, isr=(1,))
    leading.append(batch())
    quota = ReplicationQuota()
    throttle(leading, leader=quota)
    line.connect()
    line.round()
    assert content(following) == content(leading)
    assert quota.bytes_total == leading.log.size_bytes, "what is sent is counted"
    throttle(leading, leader=spent())
    leading.append(batch())
    line.round()
    assert following.log.log_end_offset == 1
    leading.set_isr((1, 2))
    line.round()
    assert following.log.log_end_offset == 2, "one that is in sync gets everything"


def test_a_follower_that_is_behind_leaves_the_session_while_the_quota_is_exceeded(line: Line) -> None:
    leading, following = pair(line, 0, isr=(1,))
    other, _ = pair(line, 1, isr=(1,))
    for each in (leading, other):
        for _ in range(3):
            each.append(batch())
    quota = ReplicationQuota(samples=1000)
    throttle(following, follower=quota)
    line.connect()
    quota.set_rate(1)
    line.round()
    assert following.log.log_end_offset == 3
    assert quota.bytes_total == leading.log.size_bytes
    assert [each.partition for each in line.next_request().topics[0].partitions] == [0, 1], "it has everything"
    leading.append(batch())
    leading.append(batch())
    line.fetcher.unfollow(following)
    line.fetcher.follow(following)
    line.round()
    assert following.log.log_end_offset == 3, "nothing is known of it, and the quota is exceeded"
    assert line.next_request().topics == []
    quota.set_rate(1 << 50)
    line.follower.purgatory.expire(now_ms() + 2000)
    line.round()
    line.round()
    assert content(following) == content(leading)


def test_with_all_partitions_held_back_nothing_is_requested(line: Line) -> None:
    leading, following = pair(line, isr=(1,))
    leading.append(batch())
    quota = spent()
    throttle(following, follower=quota)
    line.fetcher.unfollow(following)
    line.fetcher.follow(following)
    line.connect()
    assert not line.requests
    line.follower.purgatory.expire(now_ms() + 2000)
    assert not line.requests, "the quota is exceeded still"
    throttle(following)
    line.follower.purgatory.expire(now_ms() + 4000)
    line.round()
    assert content(following) == content(leading)


def test_a_partition_that_falls_behind_is_taken_out_of_the_session(line: Line) -> None:
    leading, following = pair(line, isr=(1,))
    other, following_other = pair(line, 1, isr=(1,))
    line.connect()
    line.round()
    throttle(following, follower=spent())
    for _ in range(3):
        leading.append(batch(value=bytes(600_000)))
    line.round()
    assert following.log.log_end_offset == 1, "as much as one request takes"
    request = line.next_request()
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    assert request.topics == []
    other.append(batch())
    line.round()
    assert (following.log.log_end_offset, following_other.log.log_end_offset) == (1, 1)
    throttle(following)
    line.follower.purgatory.expire(now_ms() + 2000)
    while following.log.log_end_offset < 3:
        line.round()
    assert content(following_other) == content(other)
    assert line.errors == []
