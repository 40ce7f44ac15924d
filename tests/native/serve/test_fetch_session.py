"""Fetch sessions: every rule of KIP-227, by requests, and the capacity for sessions."""

import ctypes
import gc
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kraft.protocol.messages.fetch_request import FetchPartition, ForgottenTopic
from kraft_native.request.reply import Reply
from kraft_native.serve.fetch import FetchHandler
from kraft_native.serve.fetch_session import FetchSession, SessionCache
from tests.native.logs import batch
from tests.native.serving import Node, fetch_response, serving, topic_id_of

ONE = len(batch())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with serving(tmp_path) as made:
        for topic in ("a", "b", "c"):
            made.partition(topic).append(batch(2))
        yield made


def await_clock(wait_ms: int) -> None:
    """Return once the clock of sessions has moved by more than that."""
    begin_s = time.monotonic()
    while time.monotonic() <= begin_s + (wait_ms + 1) / 1000:
        pass


def use_sessions(node: Node, *arguments: int, **settings: int) -> None:
    node.sessions = SessionCache(*arguments, **settings)
    node.fetch_handler = FetchHandler(node.table, node.sessions)


def outcome(reply: Reply) -> tuple[int, int, dict[str, int]]:
    """Return (error, session id, {topic: size of its records, or minus its error})."""
    response = fetch_response(reply)
    names = {topic_id_of(name): name for name in ("a", "b", "c", "x")}
    found = {}
    for topic in response.responses:
        [part] = topic.partitions
        name = topic.topic or names[topic.topic_id.bytes]
        found[name] = -part.error_code if part.error_code else len(part.records or b"")
    return response.error_code, response.session_id, found


def begin(node: Node, *partitions: tuple[str, int, int], **fields: Any) -> int:
    error, session_id, _ = outcome(node.fetch(*partitions, session_epoch=0, **fields))
    assert error == 0 and session_id > 0
    return session_id


def go_on(node: Node, session_id: int, epoch: int, *partitions: tuple[str, int, int], forget: str = "",
          **fields: Any) -> tuple[int, int, dict[str, int]]:
    version = fields.get("version", 16)
    forgotten = [ForgottenTopic(topic=name if version < 13 else "", partitions=[0],
                                topic_id=UUID(bytes=topic_id_of(name)) if version >= 13 else UUID(int=0))
                 for name in forget]
    return outcome(node.fetch(*partitions, session_id=session_id, session_epoch=epoch, forgotten_topics_data=forgotten,
                           **fields))


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_only_changes_are_returned(node: Node, version: int) -> None:
    two = len(batch(2))
    error, session_id, first = outcome(node.fetch(("a", 0, 0), ("b", 0, 2), session_epoch=0, version=version))
    assert (error, first) == (0, {"a": two, "b": 0}) and session_id > 0
    assert go_on(node, session_id, 1, ("a", 0, 2), version=version) == (0, session_id, {})
    node.produce(batch(), topic="b")
    assert go_on(node, session_id, 2, version=version) == (0, session_id, {"b": ONE})
    # The client moves forward; it knows the high watermark.
    assert go_on(node, session_id, 3, ("b", 0, 3), version=version) == (0, session_id, {})
    # One partition is added, and one removed.
    assert go_on(node, session_id, 4, ("c", 0, 0), forget="a", version=version) == (0, session_id, {"c": two})
    node.produce(batch(), topic="a")
    assert go_on(node, session_id, 5, ("c", 0, 2), version=version) == (0, session_id, {})
    # The log start moved.
    node.table.get("b", 0).delete_records(1)  # type: ignore[union-attr]
    assert go_on(node, session_id, 6, version=version) == (0, session_id, {"b": 0})


def test_errors_are_returned_each_time_and_the_recovery_once(node: Node) -> None:
    session_id = begin(node, ("a", 0, 2), ("x", 0, 0))
    assert go_on(node, session_id, 1) == (0, session_id, {"x": -100})
    assert go_on(node, session_id, 2) == (0, session_id, {"x": -100})
    node.partition("x")
    assert go_on(node, session_id, 3) == (0, session_id, {"x": 0})
    assert go_on(node, session_id, 4) == (0, session_id, {})
    node.table.remove("x", 0).log.close()
    node.purgatory.drain()
    assert go_on(node, session_id, 5) == (0, session_id, {"x": -100})


def test_marks_are_reported_again_after_a_reply_that_cuts_the_log(node: Node) -> None:
    """A follower ignores the marks of a reply with a diverging epoch; nothing else may come for long."""
    def ending_at(offset: int) -> tuple[str, FetchPartition]:
        return "a", FetchPartition(partition=0, fetch_offset=offset, last_fetched_epoch=0, partition_max_bytes=100)

    _, session_id, first = outcome(node.fetch(ending_at(4), session_epoch=0))
    assert first == {"a": 0}
    for epoch, offset, count in ((1, 2, 1), (2, 2, 0), (3, 4, 1), (4, 2, 1), (5, 2, 0)):
        response = fetch_response(node.fetch(ending_at(offset), session_id=session_id, session_epoch=epoch))
        marks = [(part.high_watermark, part.log_start_offset)
                 for topic in response.responses for part in topic.partitions]
        assert marks == [(2, 0)] * count, epoch


def age(sessions: SessionCache, session_id: int, epoch: int) -> None:
    """Set the epoch that the session expects to `epoch`, in its memory: no test sends two thousand million requests."""
    [session] = [each for kept in gc.get_referents(sessions) for each in kept.values()
                 if isinstance(each, FetchSession) and each.session_id == session_id]
    memory = (ctypes.c_char * type(session).__basicsize__).from_address(id(session))
    at = bytes(memory).index(struct.pack("=ii", session_id, session.epoch)) + 4
    struct.pack_into("=i", memory, at, epoch)
    assert session.epoch == epoch


def test_epochs_begin_again_behind_the_last(node: Node) -> None:
    """The epoch after 2147483647 is 1: 0 would begin a session."""
    session_id = begin(node, ("a", 0, 2))
    age(node.sessions, session_id, 2**31 - 1)
    assert go_on(node, session_id, 2**31 - 1) == (0, session_id, {})
    for wrong in (2**31 - 1, 2, -(2**31)):
        assert go_on(node, session_id, wrong) == (71, 0, {})
    assert go_on(node, session_id, 1) == (0, session_id, {})
    assert go_on(node, session_id, 2) == (0, session_id, {})


def test_wrong_epochs_and_unknown_sessions(node: Node) -> None:
    session_id = begin(node, ("a", 0, 0))
    assert go_on(node, session_id, 2) == (71, 0, {})
    assert go_on(node, session_id + 1, 1) == (70, 0, {})
    assert go_on(node, session_id, 1)[0] == 0
    assert go_on(node, session_id, 1) == (71, 0, {})
    assert go_on(node, session_id, 2, version=12) == (106, 0, {})
    assert go_on(node, session_id, 2)[0] == 0


def test_sessions_end_and_are_replaced(node: Node) -> None:
    session_id = begin(node, ("a", 0, 0))
    error, other, _ = outcome(node.fetch(("b", 0, 0), session_id=session_id, session_epoch=0))
    assert error == 0 and other not in (0, session_id) and len(node.sessions) == 1
    assert outcome(node.fetch(("b", 0, 0), session_id=other, session_epoch=-1)) == (0, 0, {"b": len(batch(2))})
    assert len(node.sessions) == 0 and node.sessions.partition_count == 0
    assert go_on(node, other, 1) == (70, 0, {})


def test_a_session_with_nothing_left_ends(node: Node) -> None:
    session_id = begin(node, ("a", 0, 0))
    assert go_on(node, session_id, 1, forget="a") == (0, 0, {})
    assert len(node.sessions) == 0
    error, none, found = outcome(node.fetch(session_epoch=0))
    assert (error, none, found) == (0, 0, {})


def test_versions_without_sessions(node: Node) -> None:
    for version in (4, 5, 6):
        fetch_response(node.fetch(("a", 0, 0), version=version))
    assert len(node.sessions) == 0


def test_everybody_has_a_turn(node: Node) -> None:
    """A partition that had data goes to the end, so that a small limit starves none."""
    session_id = begin(node, ("a", 0, 0), ("b", 0, 0), ("c", 0, 0), max_bytes=1)
    served = []
    for epoch in range(1, 7):
        _, _, found = go_on(node, session_id, epoch, max_bytes=1)
        [name] = [name for name, size in found.items() if size > 0]
        served.append(name)
    assert served == ["b", "c", "a", "b", "c", "a"]


@pytest.mark.parametrize("upkeep_ms", [0, 60_000])
def test_every_partition_of_a_follower_has_a_turn(node: Node, upkeep_ms: int) -> None:
    """The same for a follower, whose session reads only what moved, or in `upkeep_ms` everything."""
    use_sessions(node, 4, upkeep_ms=upkeep_ms)
    for name in ("x", "y", "z"):
        partition = node.partition(name, high_watermark="manual", leader=False)
        partition.become_leader(0, node_id=1, replicas=[1, 2], isr=[1])
        partition.append(batch(2))
    follower = {"replica_id": 2, "version": 12, "max_bytes": 1}
    session_id = begin(node, ("x", 0, 0), ("y", 0, 0), ("z", 0, 0), **follower)
    served = []
    for epoch in range(1, 7):
        _, _, found = go_on(node, session_id, epoch, **follower)
        served.append([name for name, size in found.items() if size > 0])
    assert served == [["y"], ["z"], ["x"], ["y"], ["z"], ["x"]]


def test_the_least_recently_used_session_ends_first(node: Node) -> None:
    use_sessions(node, 2, eviction_ms=0)
    first, second = begin(node, ("a", 0, 2)), begin(node, ("b", 0, 2))
    for session_id in (second, first):
        await_clock(1)
        go_on(node, session_id, 1)
    await_clock(1)
    begin(node, ("c", 0, 2))
    assert go_on(node, second, 2)[0] == 70
    assert go_on(node, first, 2)[0] == 0


def test_an_overtaken_request_is_refused(node: Node) -> None:
    session_id = begin(node, ("a", 0, 2))
    waiting = node.fetch(session_id=session_id, session_epoch=1, max_wait_ms=500)
    assert not waiting.answered
    assert go_on(node, session_id, 2)[0] == 0
    node.purgatory.expire(node.purgatory.deadline_ms)
    assert outcome(waiting) == (71, 0, {})


def test_long_poll_in_a_session_wakes(node: Node) -> None:
    session_id = begin(node, ("a", 0, 2), ("b", 0, 2))
    waiting = node.fetch(session_id=session_id, session_epoch=1, max_wait_ms=500)
    node.produce(batch(), topic="b")
    node.purgatory.drain()
    assert outcome(waiting) == (0, session_id, {"b": ONE})


def test_a_session_has_room_or_is_not_begun(node: Node) -> None:
    use_sessions(node, 2, partitions_max=3)
    first = begin(node, ("a", 0, 0), ("b", 0, 0))
    begin(node, ("a", 0, 0))
    assert outcome(node.fetch(("c", 0, 0), session_epoch=0))[1] == 0          # partitions
    assert go_on(node, first, 1, ("c", 0, 0)) == (70, 0, {})
    assert len(node.sessions) == 1 and node.sessions.partition_count == 1
    begin(node, ("b", 0, 0))
    assert outcome(node.fetch(("c", 0, 0), session_epoch=0))[1] == 0          # slots; no session is old enough
    use_sessions(node, 0)
    assert outcome(node.fetch(("c", 0, 0), session_epoch=0))[1] == 0


def test_old_sessions_make_room(node: Node) -> None:
    """The smallest session gives way to one that is not smaller; a follower's stays. The eviction time is zero."""
    use_sessions(node, 2, eviction_ms=0)
    partition = node.partition("x", high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=1, replicas=[1, 2], isr=[1])
    follower = outcome(node.fetch(("x", 0, 0), session_epoch=0, replica_id=2, version=12))[1]
    big = begin(node, ("a", 0, 0), ("b", 0, 0))
    await_clock(1)                     # at an eviction time of zero, sessions are old then
    go_on(node, follower, 1, replica_id=2, version=12)
    go_on(node, big, 1)
    assert node.sessions.evictions_total == 0
    newest = begin(node, ("a", 0, 0), ("b", 0, 0), ("c", 0, 0))
    assert node.sessions.evictions_total == 1 and len(node.sessions) == 2
    assert go_on(node, newest, 1)[0] == 0


def test_a_consumer_does_not_evict_the_session_of_a_follower(node: Node) -> None:
    """KIP-227: the smallest old session gives way, but a follower's only to another follower's."""
    eviction_ms = 20
    use_sessions(node, 2, eviction_ms=eviction_ms)
    partition = node.partition("x", high_watermark="manual", leader=False)
    partition.become_leader(0, node_id=1, replicas=[1, 2], isr=[1])
    follower = outcome(node.fetch(("x", 0, 0), session_epoch=0, replica_id=2, version=12))[1]
    consumer = begin(node, ("a", 0, 0), ("b", 0, 0))
    await_clock(2 * eviction_ms)       # both sessions are old now, and in use
    go_on(node, consumer, 1)
    go_on(node, follower, 1, replica_id=2, version=12)
    begin(node, ("a", 0, 0), ("b", 0, 0), ("c", 0, 0))
    assert node.sessions.evictions_total == 1
    assert go_on(node, consumer, 2)[0] == 70
    assert go_on(node, follower, 2, replica_id=2, version=12)[0] == 0


def test_partitions_of_sessions_are_counted(node: Node) -> None:
    session_id = begin(node, ("a", 0, 0), ("b", 0, 0), ("c", 0, 0))
    other = begin(node, ("a", 0, 0))
    assert node.sessions.partition_count == 4
    go_on(node, session_id, 1, forget="b")
    assert node.sessions.partition_count == 3
    go_on(node, session_id, 2, ("b", 0, 0), forget="c")
    assert node.sessions.partition_count == 3
    go_on(node, other, 1, forget="a")
    assert (len(node.sessions), node.sessions.partition_count) == (1, 2)


def test_forgetting_what_is_not_there_and_naming_twice(node: Node) -> None:
    session_id = fetch_response(node.fetch(("a", 0, 0), ("a", 0, 2), session_epoch=0)).session_id
    assert node.sessions.partition_count == 1
    assert go_on(node, session_id, 1, ("a", 0, 2), forget="c") == (0, session_id, {})
    two = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    assert outcome(node.fetch(("a", two), session_id=session_id, session_epoch=2))[2] == {"a": len(batch(2))}


def test_connections_of_followers_are_reported_when_their_session_begins(node: Node) -> None:
    followers: list[object] = []
    node.fetch_handler = FetchHandler(node.table, node.sessions, on_follower=followers.append)
    begin(node, ("a", 0, 0))
    node.fetch(("a", 0, 0), session_epoch=-1, version=14, replica_id=2)         # without a session
    assert followers == []
    session_id = begin(node, ("a", 0, 0), version=14, replica_id=2)
    assert followers == [node.sink]
    go_on(node, session_id, 1, version=14, replica_id=2)
    assert followers == [node.sink]
