"""Faults that are drawn from a seed, applied to a cluster and healed again. `kraft.local` applies them and checks that
they take effect.

A round applies up to three faults at a time, each to nodes of its own. Their order lets each fault still be checked: a
paused node answers no request.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from kraft.local.cluster import LocalCluster
from kraft.local.errors import LocalNodeError
from kraft.local.local_node import LocalNode

CHECKS: Final = 12_000
CHECK_SECONDS: Final = 0.05
READY_SECONDS: Final = 600.0

SLOW_DISK: Final = "slow disk"
CUT_ONE_WAY: Final = "link cut one way"
CUT: Final = "link cut"
ISOLATE: Final = "isolated"
FULL_DISK: Final = "full disk"
PAUSE: Final = "pause"
RESTART: Final = "restart"
KILL: Final = "kill -9 of one"
KILL_ALL: Final = "kill -9 of all"
KINDS: Final = (SLOW_DISK, CUT_ONE_WAY, CUT, ISOLATE, FULL_DISK, PAUSE, RESTART, KILL, KILL_ALL)
"""Kinds, in the order in which the faults of one round are applied."""
WEIGHTS: Final = (12, 16, 6, 6, 8, 16, 6, 22, 8)
TOGETHER: Final = (1, 2, 2, 3, 3)
HOLDS: Final = (0.0, 0.1, 0.5, 1.5, 7.0)
"""Seconds that faults last at most; the longest exceeds a broker's session."""


def wait_until(done: Callable[[], bool], what: str, checks: int = CHECKS, *,
               instead: Callable[[], object] = str) -> None:
    """Wait, counting checks instead of seconds: the machine itself may be stopped for a while. `instead` returns the
    current state for the error text."""
    for _ in range(checks):
        if done():
            return
        time.sleep(CHECK_SECONDS)
    raise AssertionError(f"not after {checks} looks: {what} {instead()}")


@dataclass(frozen=True, slots=True)
class Fault:
    """`nodes` are the nodes that the fault hits. For a link they are the sender and then the receiver that is cut
    off."""

    kind: str
    nodes: tuple[int, ...]
    amount: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {','.join(map(str, self.nodes))}{f' ({self.amount} ms)' if self.amount else ''}"


@dataclass(slots=True)
class Faults:
    """`counts` holds how many faults of each kind were applied; `ended` counts the nodes that a full disk has ended."""

    cluster: LocalCluster
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    ended: int = 0

    def draw(self, at_most: int) -> list[Fault]:
        """Draw the faults of the next round."""
        ids = list(self.cluster.nodes)
        found: list[Fault] = []
        for kind in self.chance.choices(KINDS, WEIGHTS, k=min(at_most, self.chance.choice(TOGETHER))):
            taken = [each for fault in found for each in fault.nodes]
            free = [each for each in ids if each not in taken]
            count = 2 if kind in (CUT, CUT_ONE_WAY) else 1
            kinds = [kind, *(each.kind for each in found)]
            if len(free) < count or len(dict.fromkeys(kinds)) < len(kinds) or (RESTART in kinds and _cuts(kinds)):
                continue
            nodes = tuple(ids) if kind == KILL_ALL else tuple(self.chance.sample(free, count))
            amount = self.chance.choice((2, 10, 40)) if kind == SLOW_DISK else 0
            found.append(Fault(kind, nodes, amount))
        return sorted(found, key=lambda each: KINDS.index(each.kind))

    def hold(self) -> None:
        """Let time pass."""
        time.sleep(self.chance.choice(HOLDS) * self.chance.random())

    def inflict(self, faults: list[Fault]) -> None:
        """Apply the faults one after the other, with pauses between them."""
        for fault in faults:
            self._inflict(fault)
            self.counts[fault.kind] += 1
            if fault is not faults[-1]:
                time.sleep(self.chance.choice((0.0, 0.0, 0.3)) * self.chance.random())

    def _inflict(self, fault: Fault) -> None:
        node = self.cluster.nodes[fault.nodes[0]]
        if fault.kind == SLOW_DISK:
            node.slow_disk(fault.amount)
        elif fault.kind == FULL_DISK:
            node.fill_disk()
        elif fault.kind in (CUT, CUT_ONE_WAY):
            self.cluster.cut(*fault.nodes, one_way=fault.kind == CUT_ONE_WAY)
        elif fault.kind == ISOLATE:
            self.cluster.isolate(node)
        elif fault.kind == PAUSE:
            node.pause()
        elif fault.kind == RESTART:
            node.request_stop()
        else:
            nodes = [self.cluster.nodes[each] for each in fault.nodes]
            for each in nodes:
                if each.running:        # a full disk, or a signal, may have ended it a moment ago
                    os.kill(each.pid, signal.SIGKILL)
            for each in nodes:
                each.end()

    def heal(self, faults: list[Fault]) -> None:
        """Heal the faults: paused nodes resume first, then links and dead nodes in either order."""
        by_kind = {fault.kind: self.cluster.nodes[fault.nodes[0]] for fault in faults}
        if PAUSE in by_kind and by_kind[PAUSE].running:
            by_kind[PAUSE].resume()
        if FULL_DISK in by_kind:
            self._leave_full_disk(by_kind[FULL_DISK])
        leaving = by_kind.get(RESTART)
        dead = [node for node in self.cluster.nodes.values() if node is not leaving and not node.running]
        steps = [lambda: _launch(dead), *([self.cluster.heal] if _cuts(by_kind) else [])]
        self.chance.shuffle(steps)
        for step in steps:
            step()
        if leaving is not None:
            wait_until(lambda: not leaving.running, f"{leaving} stops gracefully")
            if leaving.ended == 0:
                leaving.expect_end()
            _launch([leaving])
            dead.append(leaving)
        for node in dead:
            node.await_ready(READY_SECONDS)
        if SLOW_DISK in by_kind and by_kind[SLOW_DISK].running:
            by_kind[SLOW_DISK].heal_disk()

    def _leave_full_disk(self, node: LocalNode) -> None:
        """End a node whose disk was full. It has ended by itself, as a node must whose metadata log cannot be written,
        or it has not reached that yet."""
        if not node.running and node.ended is not None:
            self.ended += 1
            node.expect_end()
        node.end()


def _launch(nodes: list[LocalNode]) -> None:
    """Start the nodes that were killed or stopped cleanly."""
    for node in nodes:
        if node.ended is not None:
            raise LocalNodeError(f"{node} ended by itself with {node.ended}:\n{node.log()}")
        node.launch()


def _cuts(kinds: Iterable[str]) -> bool:
    return any(each in (CUT, CUT_ONE_WAY, ISOLATE) for each in kinds)
