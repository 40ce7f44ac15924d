"""Consumers are directed to the replica in their rack (KIP-392)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchPartition
from kraft_native.partition.partition import Partition
from kraft_native.request.reply import Reply
from tests.native.logs import batch
from tests.native.serving import NODE_ID, Node, fetch_response, fetched, serving

RACKS = {NODE_ID: "a", 2: "b", 3: "b", 4: "c", 5: None}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving(tmp_path, by_rack=True) as made:
        for node_id, rack in RACKS.items():
            made.table.set_endpoint(node_id, "host", 9092, rack)
        yield made


def lead(node: Node) -> Partition:
    """Lead a partition on node 1 with ten records and the followers 2, 3 and 4, of which 4 is not in sync."""
    partition = node.partition(high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2, 3, 4], isr=[1, 2, 3])
    for _ in range(10):
        partition.append(batch())
    return partition


def follow(node: Node, node_id: int, end: int, *, start: int = 0, **fields: int) -> Reply:
    """Fetch as a follower whose log is from `start` to `end`."""
    requested = FetchPartition(partition=0, fetch_offset=end, log_start_offset=start, partition_max_bytes=1 << 20)
    return node.fetch(("t", requested), replica_id=node_id, version=12, **fields)


def sent_to(node: Node, rack: str, offset: int = 0, version: int = 16) -> int:
    """Return the replica to which a consumer in that rack is directed; -1 when the leader serves it, or would."""
    [part] = fetched(node.fetch(("t", 0, offset), rack_id=rack, version=version))
    assert part.error_code == ErrorCode.NONE
    if part.preferred_read_replica >= 0:
        assert part.records == b"" and part.high_watermark >= 0
    return part.preferred_read_replica


def test_the_replica_that_has_come_furthest_in_the_consumers_rack(node: Node) -> None:
    lead(node)
    assert sent_to(node, "b") == -1, "nothing is known of the followers yet"
    follow(node, 2, 10)
    follow(node, 3, 7)
    for version in (11, 12, 13, 18):
        assert sent_to(node, "b", version=version) == 2
    assert sent_to(node, "b", 7) == sent_to(node, "b", 10) == 2
    follow(node, 3, 10)
    assert sent_to(node, "b") == 3, "it had everything last"
    assert sent_to(node, "a") == -1, "the leader's own"
    assert sent_to(node, "") == sent_to(node, "d") == -1


def test_only_replicas_that_are_in_sync_and_have_the_offset(node: Node) -> None:
    lead(node)
    follow(node, 4, 10)
    assert sent_to(node, "c") == -1, "not in sync"
    follow(node, 2, 6, start=3)
    assert [sent_to(node, "b", offset) for offset in (2, 3, 6, 7)] == [-1, 2, 2, -1]


def test_only_by_a_leader_that_selects_by_rack(tmp_path: Path, node: Node) -> None:
    led = lead(node)
    follow(node, 2, 10)
    led.become_follower(1, 2)
    assert sent_to(node, "b") == -1
    (tmp_path / "plain").mkdir()
    with serving(tmp_path / "plain") as plain:
        plain.table.set_endpoint(2, "host", 9092, "b")
        partition = plain.partition(high_watermark="manual", leader=False)
        partition.become_leader(0, node_id=NODE_ID, replicas=[1, 2], isr=[1, 2])
        follow(plain, 2, 0)
        assert sent_to(plain, "b") == -1


def test_a_session_receives_it_each_time(node: Node) -> None:
    lead(node)
    follow(node, 2, 10)
    begun = fetch_response(node.fetch(("t", 0, 0), rack_id="b", session_epoch=0))
    assert begun.responses[0].partitions[0].preferred_read_replica == 2
    again = node.fetch(rack_id="b", session_id=begun.session_id, session_epoch=1, max_wait_ms=500)
    assert fetched(again)[0].preferred_read_replica == 2, "at once"


def test_a_rack_that_changes_counts_at_once(node: Node) -> None:
    lead(node)
    follow(node, 2, 10)
    assert sent_to(node, "d") == -1
    node.table.set_endpoint(2, "host", 9092, "d")
    assert (sent_to(node, "d"), sent_to(node, "b")) == (2, -1)
    node.table.remove_endpoint(2)
    assert sent_to(node, "d") == -1


def test_followers_hear_of_the_high_watermark_at_once(node: Node) -> None:
    led = lead(node)
    begun = fetch_response(follow(node, 2, 10, session_epoch=0))
    waiting = node.fetch(replica_id=2, version=12, session_id=begun.session_id, session_epoch=1, max_wait_ms=500)
    assert not waiting.answered
    follow(node, 3, 10)
    node.purgatory.drain()
    [part] = fetched(waiting)
    assert part.high_watermark == led.high_watermark == 10
    assert part.records == b""


def test_a_consumer_at_a_follower_gets_what_is_known_to_be_committed(node: Node) -> None:
    led = lead(node)
    for node_id in (2, 3):
        follow(node, node_id, 4)
    led.become_follower(1, 2)
    assert len(fetched(node.fetch(("t", 0, 0), rack_id="b"))[0].records or b"") == 4 * len(batch())
    assert fetched(node.fetch(("t", 0, 5), rack_id="b"))[0].records == b"", "past what is known to be committed"
    assert fetched(node.fetch(("t", 0, 11), rack_id="b"))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetched(node.fetch(("t", 0, 0), version=10))[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
