"""Partitions in the fetch session that a follower has at its leader."""

from kraft.protocol.error_codes import ErrorCode
from kraft_native.log.flusher import Flusher
from kraft_native.partition.partition import Partition
from tests.native.logs import batch
from tests.native.replica.test_replica_fetch import LEADER, Line, pair
from tests.native.replica.test_replica_fetch import line as _line

line = _line


def refused_ahead_of_another(line: Line, durability: str) -> tuple[Partition, Partition, Partition]:
    """Have partition 0 refused while the request that adds partition 1 is pending. The leader accepts the epoch before
    it serves that request. So the answer to it has the high watermark of partition 0.

    Return both replicas of partition 0, and the follower's of partition 1.
    """
    leading, following = pair(line, 0)
    line.connect()
    line.round()
    leading.append(batch())
    line.round()
    following.become_follower(1, LEADER)
    line.fetcher.follow(following)
    line.round()
    assert (leading.high_watermark, following.high_watermark) == (1, 0), "what was requested in epoch 0 is ignored"
    other_leading, other = pair(line, 1, durability=durability)
    other_leading.append(batch())
    other_leading.log.wait_durable(other_leading.log.log_end_offset)
    line.round()
    assert line.errors == [(following, ErrorCode.UNKNOWN_LEADER_EPOCH)]
    leading.become_leader(1, node_id=LEADER, replicas=(1, 2), isr=(1, 2))
    assert len(line.requests) == 1
    return leading, following, other


def test_a_high_watermark_is_not_lost_when_a_partition_is_followed_again_after_an_error(line: Line) -> None:
    """The leader has reported it in an answer that the follower ignores, because it did not follow the partition when
    it sent the request."""
    leading, following, _ = refused_ahead_of_another(line, "page-cache")
    served = line.serve()
    line.fetcher.follow(following)
    line.take(served)
    for _ in range(4):
        line.round()
    assert following.high_watermark == leading.high_watermark == 1


def test_a_high_watermark_is_not_lost_when_a_flush_delays_the_removal_from_the_session(line: Line) -> None:
    """The follower ignores the answer because it does not follow the partition yet. No request removes the partition
    from the session before it is followed again: the flush of the other one is awaited."""
    line.follower.flusher = Flusher(linger_us=None, bytes_trigger=1 << 40)     # flushes when a caller waits
    leading, following, other = refused_ahead_of_another(line, "group-commit")
    line.round()
    line.fetcher.follow(following)
    assert not line.requests
    other.log.wait_durable(other.log.log_end_offset)
    line.follower.purgatory.flush_done()
    for _ in range(4):
        line.round()
    assert following.high_watermark == leading.high_watermark == 1


def test_a_partition_that_is_followed_again_is_removed_from_the_session_first(line: Line) -> None:
    """The session ends where nothing else is in it. The next request begins another one."""
    _, following, other = refused_ahead_of_another(line, "page-cache")
    assert line.fetcher.unfollow(other)
    line.fetcher.follow(following)
    line.round()
    request = line.next_request()
    assert (request.topics, [sorted(each.partitions) for each in request.forgotten_topics_data]) == ([], [[0, 1]])
    assert len(line.requests) == 1
    line.round()
    request = line.next_request()
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert [each.partition for topic in request.topics for each in topic.partitions] == [0]
    line.round()
    assert following.high_watermark == 1


def test_a_partition_that_is_removed_before_its_new_epoch_was_requested_is_forgotten(line: Line) -> None:
    """The leader's session still has it, in the earlier epoch, and would answer every request at once with its
    error."""
    line.follower.flusher = Flusher(linger_us=None, bytes_trigger=1 << 40)     # flushes when a caller waits
    _, following = pair(line, 0)
    leading, other = pair(line, 1, durability="group-commit")
    line.connect()
    line.round()
    leading.append(batch())
    leading.log.wait_durable(leading.log.log_end_offset)
    line.round()
    assert not line.requests, "the flush of the other partition is awaited"
    following.become_follower(1, LEADER)
    line.fetcher.follow(following)
    assert line.fetcher.unfollow(following)
    other.log.wait_durable(other.log.log_end_offset)
    line.follower.purgatory.flush_done()
    request = line.next_request()
    assert [each.partitions for each in request.forgotten_topics_data] == [[0]]
    assert [each.partition for topic in request.topics for each in topic.partitions] == [1]
