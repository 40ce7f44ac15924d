"""Answers that name leaders: the real `kraft.broker.leader_checks`, a model of `kraft.runtime.net.leader_lines`, and
the judge of both."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kraft.broker.isr import Key
from kraft.broker.leader_checks import REFUSED_LIMIT_MS, Checked, LeaderChecks
from kraft.controller.sessions import Found
from kraft.metadata.image import NO_LEADER, BrokerRegistration, MetadataImage, PartitionRegistration
from kraft.testing.brokers.messages import Check, Running
from kraft.testing.sim.options import MILLISECOND
from kraft.testing.sim.violation import ViolationError

if TYPE_CHECKING:
    from kraft.testing.brokers.node import BrokerNode

LANE: Final = "check"
CHECK_MS: Final = 1000
PAUSE_MS: Final = 2
SLACK_MS: Final = 20
"""Tolerance for an answer that is due."""

OnLeader = Callable[[PartitionRegistration | None], None]
"""Callback that gets the partition as a client receives it; None: the broker does not know it."""


class _Check:
    """One check of `broker`."""

    def __init__(self, node: "BrokerNode", broker: BrokerRegistration, checks: LeaderChecks) -> None:
        self._node = node
        self._broker = broker
        self._checks = checks
        self._is_over = False
        node.later(CHECK_MS, self._end, Checked.UNANSWERED)

    def begin(self) -> None:
        if not self._is_over:
            self._node.connect(self._broker.broker_id, LANE, Check(), self._answered)

    def _answered(self, answer: object) -> None:
        if isinstance(answer, Running):
            self._end(Checked.ANSWERED)
        elif not self._is_over:
            self._node.probe(self._broker, self._probed)

    def _probed(self, found: Found) -> None:
        if found is Found.ACCEPTED:
            self._node.later(PAUSE_MS, self.begin)
        else:
            self._end(Checked.REFUSED if found is Found.REFUSED else Checked.UNANSWERED)

    def _end(self, found: Checked) -> None:
        if not self._is_over:
            self._is_over = True
            self._node.count(f"leader checked: {found.name}")
            self._checks.checked(self._broker.broker_id, self._broker.epoch, found)


class Leaders:
    """Leaders that the broker of `node` names to clients."""

    def __init__(self, node: "BrokerNode") -> None:
        self._node = node
        self._limit_ms = node.options.grace_ms
        self.checks = LeaderChecks(node.id, self._limit_ms, lambda: node.now_ms, self._start_check)
        self.checks.on_deadline = self._set

    def applied(self, image: MetadataImage) -> None:
        self.checks.applied(image)

    def _start_check(self, broker: BrokerRegistration) -> None:
        _Check(self._node, broker, self.checks).begin()

    def _set(self, deadline_ms: int) -> None:
        self._node.later(max(0, deadline_ms - self._node.now_ms), self.checks.tick)

    def find(self, key: Key, report: OnLeader) -> None:
        """Answer a client's Metadata request for that partition.

        Check MetadataIsAnswered: the answer comes within the limit. Check NoLeaderHiddenWithoutProof: a leader is left
        out only if its address refused a connection from here since the request arrived.
        """
        registration = self._registration(key)
        if registration is None:
            report(None)
            return
        node, leader, began_us = self._node, registration.leader, self._node.wire.now_us
        was_dead = leader != NO_LEADER and not node.runs(leader)
        answers: list[tuple[int, ...]] = []

        def answer(ended: tuple[int, ...]) -> None:
            answers.append(ended)
            for broker_id in ended:
                if not node.wire.refused_since(node.id, broker_id, began_us):
                    raise ViolationError("NoLeaderHiddenWithoutProof",
                                         f"{node} leaves out broker {broker_id}, whose address refused nothing")
                node.count("dead leader left out" if not node.runs(broker_id) else "live leader left out")
            found = self._registration(key)
            if found is not None and found.leader in ended:
                found = replace(found, leader=NO_LEADER)
            elif found is not None and found.leader == leader and was_dead and not node.runs(leader):
                node.count("dead leader named")
            report(found)

        def judge() -> None:
            if not answers:
                raise ViolationError("MetadataIsAnswered", f"{node} holds an answer about {key} for longer than "
                                                           f"{limit_ms} ms")

        limit_ms = longest_ms(self._limit_ms)
        self.checks.submit((leader,), answer)
        if not answers:
            node.count("answer held")
            node.later(limit_ms + SLACK_MS, judge)

    def _registration(self, key: Key) -> PartitionRegistration | None:
        topic = self._node.machine.image.topics.get(key[0])
        return None if topic is None else topic.partitions.get(key[1])


def longest_ms(limit_ms: int) -> int:
    """Return the longest time for which an answer is held: for a leader whose address refuses."""
    return max(limit_ms, REFUSED_LIMIT_MS)


def timeout_us(limit_ms: int) -> int:
    """Time that a client waits for Metadata before it queries another broker."""
    return (longest_ms(limit_ms) + CHECK_MS) * MILLISECOND
