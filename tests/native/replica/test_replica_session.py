"""Partitions in the fetch session that a follower has at its leader."""

from uuid import UUID

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
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


@pytest.mark.parametrize("change", ["another connection", "another epoch", "another epoch, not followed yet"])
def test_an_outdated_answer_that_the_log_end_is_out_of_range_is_ignored(line: Line, change: str) -> None:
    """The answer is to a request from before. Its error would have the log end moved, under records that the follower
    has fetched meanwhile."""
    leading, following = pair(line)
    line.connect()
    line.round()
    session_id = line.next_request().session_id
    refusal = FetchResponse(session_id=session_id, responses=[FetchableTopicResponse(
        topic_id=UUID(bytes=following.topic_id),
        partitions=[PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1)])]).encode(17)
    correlation_id, _ = line.serve()
    if change == "another connection":
        assert line.fetcher.unfollow(following)
    else:
        leading.become_leader(1, node_id=LEADER, replicas=(1, 2), isr=(1, 2))
        following.become_follower(1, LEADER)
    if not change.endswith("not followed yet"):
        line.fetcher.follow(following)
    leading.append(batch(3))
    line.give(correlation_id.to_bytes(4, "big") + b"\0" + refusal)
    assert line.errors == []
    line.fetcher.follow(following)
    while line.requests and following.log.log_end_offset < 3:
        line.round()
    assert (following.log.log_end_offset, line.errors) == (3, [])


def test_the_request_that_adds_a_partition_again_does_not_wait_for_that_which_removes_it(line: Line) -> None:
    """The leader may hold the one that removes it for long, because nothing else has happened."""
    _, following = pair(line, 0)
    pair(line, 1)
    line.connect()
    line.round()
    line.serve()
    assert not line.requests, "the request before is under way"
    assert line.fetcher.unfollow(following)
    line.fetcher.follow(following)
    removes = line.next_request()
    assert (removes.topics, [each.partitions for each in removes.forgotten_topics_data]) == ([], [[0]])
    line.requests.popleft()
    adds = line.next_request()
    assert [each.partition for topic in adds.topics for each in topic.partitions] == [0]
    assert (adds.forgotten_topics_data, adds.session_epoch) == ([], removes.session_epoch + 1)
