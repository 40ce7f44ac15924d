"""Partitions in the fetch session that a follower has at its leader."""

from kraft_native.log.flusher import Flusher
from tests.native.logs import batch
from tests.native.replica.test_replica_fetch import LEADER, Line, pair
from tests.native.replica.test_replica_fetch import line as _line

line = _line


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
