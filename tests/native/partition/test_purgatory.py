"""Pending requests, against a plain list of them: which of them is answered when, and how late a timer may be armed."""

import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kraft_native.partition.purgatory import now_ms
from kraft_native.request.reply import Reply
from tests.native.logs import batch
from tests.native.serving import Node, serving

TOPICS = ("a", "b")
TURN_MS = 2048
"""Time of one turn of the wheel: requests further ahead are passed over and stay."""


@pytest.mark.parametrize("woken", range(3))
def test_a_request_that_ends_leaves_the_others_of_its_millisecond(tmp_path: Path, woken: int) -> None:
    with serving(tmp_path) as node:
        partitions = [node.partition(f"t{index}") for index in range(3)]
        waiting = [node.fetch((f"t{index}", 0, 0), max_wait_ms=500) for index in range(3)]
        partitions[woken].append(batch())
        node.purgatory.drain()
        assert [each.answered for each in waiting] == [index == woken for index in range(3)]
        node.purgatory.expire(now_ms() + 500)
        assert all(each.answered for each in waiting)
        assert node.purgatory.parked_count == 0


class Waiting(NamedTuple):
    """A Fetch from the end of a partition. Its deadline lies between two times, which are nearly always equal."""

    reply: Reply
    topic: str
    offset: int
    earliest_ms: int
    latest_ms: int


class PurgatoryMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kraft-purgatory-"))
        self.node = Node(self.directory)
        self.partitions = {topic: self.node.partition(topic) for topic in TOPICS}
        self.waiting: list[Waiting] = []
        self.expired = 0
        self.clock_ms = now_ms()

    @rule(topic=st.sampled_from(TOPICS), wait_ms=st.one_of(
        st.integers(1, 50), st.integers(TURN_MS - 5, TURN_MS + 5), st.integers(1, 4 * TURN_MS)))
    def wait(self, topic: str, wait_ms: int) -> None:
        began = now_ms()
        end = self.partitions[topic].log.log_end_offset
        reply = self.node.fetch((topic, 0, end), max_wait_ms=wait_ms)
        self.waiting.append(Waiting(reply, topic, end, began + wait_ms, now_ms() + wait_ms))

    @rule(topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def move(self, topics: set[str]) -> None:
        """Append records during one iteration of the loop."""
        for topic in topics:
            self.partitions[topic].append(batch())
        assert not any(each.reply.answered for each in self.waiting)
        self.node.purgatory.drain()
        for each in self.waiting:
            assert each.reply.answered == (each.topic in topics)
        self.drop_answered()

    @rule(later_ms=st.one_of(st.integers(0, 60), st.integers(0, 6 * TURN_MS)))
    def pass_time(self, later_ms: int) -> None:
        self.clock_ms = max(self.clock_ms + later_ms, now_ms())
        armed_ms = self.node.purgatory.expire(self.clock_ms)
        for each in self.waiting:
            if each.latest_ms <= self.clock_ms:
                assert each.reply.answered
            elif each.earliest_ms > self.clock_ms:
                assert not each.reply.answered
        self.expired += self.drop_answered()
        assert armed_ms == self.node.purgatory.deadline_ms
        assert armed_ms > self.clock_ms if self.waiting else armed_ms == -1

    @rule()
    def stop(self) -> None:
        """Stop the node: all requests are answered, whatever they wait for."""
        self.node.purgatory.expire_fetches()
        assert all(each.reply.answered for each in self.waiting)
        self.expired += self.drop_answered()

    @rule()
    def fire(self) -> None:
        """Fire the timer, as late as it is armed."""
        self.clock_ms = max(self.clock_ms, self.node.purgatory.deadline_ms)
        self.pass_time(0)

    def drop_answered(self) -> int:
        before = len(self.waiting)
        self.waiting = [each for each in self.waiting if not each.reply.answered]
        return before - len(self.waiting)

    @invariant()
    def the_timer_is_never_armed_too_late(self) -> None:
        if not hasattr(self, "node"):
            return
        purgatory = self.node.purgatory
        assert purgatory.parked_count == purgatory.parked_fetches == len(self.waiting)
        assert purgatory.expired_total == self.expired
        if self.waiting:
            assert 0 <= purgatory.deadline_ms <= min(each.latest_ms for each in self.waiting)

    def teardown(self) -> None:
        if hasattr(self, "node"):
            self.node.close()
            shutil.rmtree(self.directory)
            vars(self).clear()


TestPurgatoryMachine = PurgatoryMachine.TestCase
TestPurgatoryMachine.settings = settings(max_examples=60, stateful_step_count=40, derandomize=True, deadline=None,
                                         suppress_health_check=list(HealthCheck))
