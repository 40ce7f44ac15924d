"""Faults drawn from a seed, done to a cluster and undone again. What does them checks that they bite (`kraft.local`).

A round is up to three of them at a time, on nodes of their own, in an order in which each can still be checked: a node
that stands still answers nobody.
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
from kraft.local.node import LocalNode

LOOKS: Final = 12_000
LOOK_SECONDS: Final = 0.05
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
"""In the order in which those of one round are done."""
WEIGHTS: Final = (12, 16, 6, 6, 8, 16, 6, 22, 8)
TOGETHER: Final = (1, 2, 2, 3, 3)
HOLDS: Final = (0.0, 0.1, 0.5, 1.5, 7.0)
"""Seconds for which faults last at most; the last is longer than a broker's session."""


def wait_until(done: Callable[[], bool], what: str, looks: int = LOOKS, *, instead: Callable[[], object] = str) -> None:
    """Counts its looks and not the time: the machine itself may be stopped for a while. `instead`: what there is."""
    for _ in range(looks):
        if done():
            return
        time.sleep(LOOK_SECONDS)
    raise AssertionError(f"not after {looks} looks: {what} {instead()}")


@dataclass(frozen=True, slots=True)
class Fault:
    """`nodes`: whom it is done to; of a link who sends, then who does not get it any more."""

    kind: str
    nodes: tuple[int, ...]
    amount: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {','.join(map(str, self.nodes))}{f' ({self.amount} ms)' if self.amount else ''}"


@dataclass(slots=True)
class Faults:
    """`counts`: how many of each kind were done; `ended`: how many nodes a full disk has ended."""

    cluster: LocalCluster
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    ended: int = 0

    def draw(self, at_most: int) -> list[Fault]:
        """The faults of the next round."""
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
        """Lets time pass."""
        time.sleep(self.chance.choice(HOLDS) * self.chance.random())

    def inflict(self, faults: list[Fault]) -> None:
        """One after the other, with time between them."""
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
            node.ask_to_stop()
        else:
            nodes = [self.cluster.nodes[each] for each in fault.nodes]
            for each in nodes:
                if each.running:        # a full disk, or a signal, may have ended it a moment ago
                    os.kill(each.pid, signal.SIGKILL)
            for each in nodes:
                each.end()

    def heal(self, faults: list[Fault]) -> None:
        """Undoes them: who stands still goes on first, then links and dead nodes in either order."""
        by_kind = {fault.kind: self.cluster.nodes[fault.nodes[0]] for fault in faults}
        if PAUSE in by_kind and by_kind[PAUSE].running:
            by_kind[PAUSE].resume()
        if FULL_DISK in by_kind:
            self._leave_full_disk(by_kind[FULL_DISK])
        leaving = by_kind.get(RESTART)
        dead = [node for node in self.cluster.nodes.values() if node is not leaving and not node.running]
        steps = [lambda: _launch(dead), *([self.cluster.mend] if _cuts(by_kind) else [])]
        self.chance.shuffle(steps)
        for step in steps:
            step()
        if leaving is not None:
            wait_until(lambda: not leaving.running, f"{leaving} stops in good order")
            if leaving.ended == 0:
                leaving.expect_end()
            _launch([leaving])
            dead.append(leaving)
        for node in dead:
            node.await_ready(READY_SECONDS)
        if SLOW_DISK in by_kind and by_kind[SLOW_DISK].running:
            by_kind[SLOW_DISK].mend_disk()

    def _leave_full_disk(self, node: LocalNode) -> None:
        """It has ended by itself, as one must whose metadata log cannot be written, or it has not come to that yet."""
        if not node.running and node.ended is not None:
            self.ended += 1
            node.expect_end()
        node.end()


def _launch(nodes: list[LocalNode]) -> None:
    """Starts those that were killed, or stopped in good order."""
    for node in nodes:
        if node.ended is not None:
            raise LocalNodeError(f"{node} ended by itself with {node.ended}:\n{node.log()}")
        node.launch()


def _cuts(kinds: Iterable[str]) -> bool:
    return any(each in (CUT, CUT_ONE_WAY, ISOLATE) for each in kinds)
