"""The loop of a partition: what is written, when answers leave, and which shard serves."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from kraft.broker.coordinator.answer import Answer, RequestContext
from kraft.broker.coordinator.errors import RefusedError, append_error
from kraft.broker.coordinator.shard import Record, Shard, StoredRecord
from kraft.broker.coordinator.shards import STEPS_PER_TICK, Phase, Shards
from kraft.protocol.error_codes import ErrorCode
from tests.broker.node import Logs


class Words:
    """A state machine that keeps the records that it replays."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.words: list[tuple[int, bytes]] = []
        self.events: list[Any] = []

    def replay(self, record: StoredRecord) -> None:
        self.words.append((record.offset, record.key))

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        self.events.append((producer_id, committed))

    def loaded(self) -> None:
        self.events.append("loaded")

    def unloaded(self) -> None:
        self.events.append("unloaded")


def words(*names: str) -> list[Record]:
    return [Record(name.encode(), b"", 0) for name in names]


class World:
    def __init__(self, partition_count: int = 2) -> None:
        self.logs = Logs(partition_count)
        self.shards: Shards[Words] = Shards(self.logs, Words, commit_timeout_ms=5_000)
        self.answers: list[Any] = []

    def serve(self, partition: int = 0, records: Sequence[StoredRecord] = ()) -> Words:
        assert self.shards.start_load(partition, 1)
        self.shards.load(partition, records)
        end = records[-1].offset + 1 if records else 0
        self.logs.records[partition] = [Record(b"old", b"", 0)] * end
        self.shards.finish_load(partition, end, end, 0)
        return self.shards.serving(partition, 0)[1]

    def commit_at_once(self) -> None:
        """Commit each append before it returns, as a leader whose followers are not in sync."""
        self.logs.reached = lambda partition, end_offset: self.shards.committed(partition, end_offset, 0)

    def answer(self) -> Answer[Any]:
        return Answer(RequestContext(0), self.answers.append, lambda error, _: error)


def test_an_answer_waits_for_everything_that_was_written_before_it() -> None:
    world = World()
    state = world.serve()
    shard = state.shard
    shard.reply(world.answer(), "nothing to wait for")
    assert world.answers == ["nothing to wait for"]
    shard.write(words("a", "b"))
    assert state.words == [(0, b"a"), (1, b"b")]     # the next request sees it at once
    shard.reply(world.answer(), "first")
    shard.reply(world.answer(), "a read")
    shard.write(words("c"))
    shard.reply(world.answer(), "second")
    world.shards.committed(0, 1, 0)
    assert len(world.answers) == 1
    world.shards.committed(0, 2, 0)
    assert world.answers[1:] == ["first", "a read"]
    world.shards.committed(0, 3, 0)
    assert world.answers[3:] == ["second"]


def test_a_commit_during_the_append_does_not_wait() -> None:
    world = World()
    shard = world.serve().shard
    world.commit_at_once()
    shard.write(words("a"))
    shard.reply(world.answer(), "now")
    assert world.answers == ["now"]


def test_what_waits_continues_after_the_write_that_is_committed_at_once() -> None:
    world = World()
    state = world.serve()
    state.shard.write(words("a"))
    seen: list[list[tuple[int, bytes]]] = []
    state.shard.reply(Answer(RequestContext(0), lambda _: seen.append(list(state.words)), lambda error, _: error), "a")
    state.shard.after_commit(lambda: state.shard.write(words("c")))
    world.commit_at_once()
    state.shard.write(words("b"))
    assert seen == [[(0, b"a"), (1, b"b")]]
    assert state.words == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert state.shard.end_offset == 3


def test_actions_that_wait_for_one_commit_write_one_after_the_other() -> None:
    """Each write is committed at once. An action that begins within the write of another one is replayed before it."""
    world = World()
    state = world.serve()
    state.shard.write(words("a"))
    names = [str(number) for number in range(2 * sys.getrecursionlimit())]
    for name in names:
        state.shard.after_commit(partial(state.shard.write, words(name)))
    state.shard.reply(world.answer(), "waits")
    world.commit_at_once()
    world.shards.committed(0, 1, 0)
    assert state.words == [(0, b"a"), *((1 + index, name.encode()) for index, name in enumerate(names))]
    assert state.shard.end_offset == 1 + len(names)
    assert world.answers == ["waits"]


def test_a_marker_that_is_committed_at_once_is_applied_first() -> None:
    world = World()
    state = world.serve()
    state.shard.write(words("a"))
    seen: list[list[Any]] = []
    state.shard.after_commit(lambda: seen.append(list(state.events)))
    end_offset = world.logs.append_marker(0, 7, True)
    world.commit_at_once()
    world.shards.marker_appended(0, 7, True, end_offset, 0)
    assert seen == [["loaded", (7, True)]]


def test_an_action_that_fails_does_not_hold_up_what_is_committed_later() -> None:
    world = World()
    shard = world.serve().shard

    def fail() -> None:
        raise OSError

    with pytest.raises(OSError):
        shard.after_commit(fail)
    shard.reply(world.answer(), "given")
    shard.write(words("a"))
    shard.reply(world.answer(), "committed")
    world.shards.committed(0, 1, 0)
    assert world.answers == ["given", "committed"]


def test_answers_wait_for_a_marker_that_was_appended_before_them() -> None:
    world = World()
    shard = world.serve().shard
    world.logs.append_marker(0, 7, True)
    world.shards.marker_appended(0, 7, True, 1, 0)
    shard.reply(world.answer(), "a read")
    assert world.answers == []
    world.shards.committed(0, 1, 0)
    assert world.answers == ["a read"]


def test_markers_of_partitions_that_do_not_serve_are_ignored() -> None:
    world = World()
    world.shards.marker_appended(0, 7, True, 1, 0)
    assert world.shards.start_load(0, 1)
    world.shards.marker_appended(0, 7, True, 1, 0)      # the load reads it from the log
    world.shards.load_marker(0, 7, True)
    world.shards.finish_load(0, 1, 1, 0)
    assert world.shards.serving(0, 0)[1].events == [(7, True), "loaded"]


def test_a_failed_append_changes_nothing() -> None:
    world = World()
    state = world.serve()
    world.logs.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(RefusedError) as refused:
        state.shard.write(words("a"))
    assert refused.value.error is ErrorCode.NOT_COORDINATOR
    assert not state.words
    assert state.shard.end_offset == 0
    state.shard.write([])       # nothing to write is no append


@pytest.mark.parametrize(("code", "error"), [
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
    (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
    (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS), (12_345, ErrorCode.UNKNOWN_SERVER_ERROR),
])
def test_the_error_of_a_failed_append_for_the_client(code: int, error: int) -> None:
    assert append_error(code) == error


def test_an_answer_that_waits_too_long_is_refused_and_its_records_stay() -> None:
    world = World()
    state = world.serve()
    state.shard.write(words("a"))
    state.shard.reply(world.answer(), "late")
    assert world.shards.deadline_ms == 5_000
    world.shards.tick(4_999)
    assert not world.answers
    world.shards.tick(5_000)
    assert world.answers == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    world.shards.committed(0, 1, 5_001)
    assert len(world.answers) == 1
    assert state.words
    assert world.shards.deadline_ms is None


def test_many_timers_are_spread_over_ticks() -> None:
    world = World()
    shard = world.serve().shard
    ran: list[int] = []
    for index in range(STEPS_PER_TICK + 1):
        shard.after(("t", str(index)), 10, lambda index=index: ran.append(index))
    world.shards.tick(10)
    assert len(ran) == STEPS_PER_TICK
    assert world.shards.deadline_ms == 10
    world.shards.tick(10)
    assert ran == list(range(STEPS_PER_TICK + 1))


def test_shards_share_the_steps_of_a_tick_and_the_one_that_waited_longest_comes_first() -> None:
    world = World()
    ran: list[int] = []
    for partition, due_ms in ((0, 20), (1, 10)):
        shard = world.serve(partition).shard
        for index in range(STEPS_PER_TICK):
            shard.after((str(index),), due_ms, lambda partition=partition: ran.append(partition))
    world.shards.tick(20)
    assert ran == [1] * STEPS_PER_TICK
    world.shards.tick(20)
    assert ran[STEPS_PER_TICK:] == [0] * STEPS_PER_TICK


def test_a_timer_that_arms_itself_again_runs_once_in_a_tick() -> None:
    world = World()
    shard = world.serve().shard
    ran: list[int] = []

    def again() -> None:
        ran.append(len(ran))
        shard.after(("again",), 0, again)

    again()
    world.shards.tick(10)
    assert ran == [0, 1]
    world.shards.tick(10)
    assert ran == [0, 1, 2]


def test_serving_shards() -> None:
    world = World(3)
    with pytest.raises(RefusedError) as refused:
        world.shards.for_key("group", 0)
    assert refused.value.error is ErrorCode.NOT_COORDINATOR
    world.shards.partition_count = 3
    assert world.shards.partition_for("group") == 2
    with pytest.raises(RefusedError) as refused:
        world.shards.for_key("group", 0)
    assert refused.value.error is ErrorCode.NOT_COORDINATOR
    world.shards.start_load(2, 5)
    with pytest.raises(RefusedError) as refused:
        world.shards.for_key("group", 0)
    assert refused.value.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.shards.fail_load(2)
    assert world.shards.phase(2) is Phase.FAILED
    with pytest.raises(RefusedError) as refused:
        world.shards.for_key("group", 0)
    assert refused.value.error is ErrorCode.NOT_COORDINATOR
    assert world.shards.start_load(2, 5)     # after a failure, the same epoch may try again
    world.shards.finish_load(2, 0, 0, 0)
    shard, _ = world.shards.for_key("group", 77)
    assert shard.now_ms == 77
    assert world.shards.partitions() == [2]


def test_loading_replays_and_a_newer_epoch_of_the_same_leader_keeps_everything() -> None:
    world = World()
    state = world.serve(0, [StoredRecord(4, b"x", b""), StoredRecord(7, b"y", None)])
    assert state.words == [(4, b"x"), (7, b"y")]
    assert state.events == ["loaded"]
    state.shard.write(words("z"))
    assert state.words[-1] == (8, b"z")
    assert not world.shards.start_load(0, 9)
    assert world.shards.serving(0, 0)[1] is state
    world.shards.resign(0, 9)                # news from before that election
    assert world.shards.phase(0) is Phase.ACTIVE


def test_resigning_refuses_every_answer_that_waits() -> None:
    world = World()
    state = world.serve()
    state.shard.write(words("a"))
    state.shard.reply(world.answer(), "never")
    world.shards.resign(0, 2)
    assert world.answers == [ErrorCode.NOT_COORDINATOR]
    assert state.events == ["loaded", "unloaded"]
    state.shard.reply(world.answer(), "leaves at once")
    assert len(world.answers) == 2
    assert world.shards.phase(0) is None
    world.shards.resign(0)
    world.shards.committed(0, 5, 0)


def test_the_tail_that_is_not_committed_when_loading_ends_holds_answers_back() -> None:
    world = World()
    world.shards.start_load(0, 1)
    world.shards.load(0, [StoredRecord(0, b"x", b""), StoredRecord(1, b"y", b"")])
    world.shards.load_marker(0, 12, True)
    world.shards.finish_load(0, 2, 1, 0)
    shard, state = world.shards.serving(0, 0)
    assert state.events == [(12, True), "loaded"]
    shard.reply(world.answer(), "read")
    assert not world.answers
    world.shards.committed(0, 2, 0)
    assert world.answers == ["read"]


def test_an_action_waits_for_the_commit_without_limit_and_ends_with_the_leadership() -> None:
    world = World()
    state = world.serve()
    done: list[str] = []
    state.shard.after_commit(lambda: done.append("at once"))
    state.shard.write(words("a"))
    state.shard.after_commit(lambda: done.append("first"))
    state.shard.write(words("b"))
    state.shard.after_commit(lambda: done.append("second"))
    assert done == ["at once"]
    world.shards.committed(0, 1, 0)
    assert done == ["at once", "first"]
    world.shards.tick(10**9)
    world.shards.resign(0, 2)
    assert done == ["at once", "first"]
