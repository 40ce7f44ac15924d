"""Breadth-first search through a space. It visits every state within the bounds once, so the first violation found is
one of the nearest.

The search stores only the numbers of a state, packed into one integer, and its predecessor. No hash replaces a state:
two states are the same only if they are equal up to the names of nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage
from time import monotonic
from typing import Final

from kraft.testing.explore.models import Model
from kraft.testing.explore.space import Event, FoundError, Space, State
from kraft.testing.explore.trace import Trace, retrace
from kraft.testing.sim.violation import ViolationError

BITS: Final = 24
MASK: Final = (1 << BITS) - 1


@dataclass(slots=True)
class Progress:
    """Progress of a search. `depth`: all sequences of so many events were followed. `is_complete`: no longer ones exist
    within the other bounds. `steps`: executions of the core; the results of all other transitions came from a cache."""

    model: Model
    states: int = 0
    transitions: int = 0
    depth: int = 0
    is_complete: bool = False
    steps: int = 0
    seconds: float = 0.0
    memory_mib: int = 0
    trace: Trace | None = None

    def line(self) -> str:
        end = "all of it" if self.is_complete else "and further"
        return (f"{self.model.name}: depth {self.depth}, {end}: {self.states} states, {self.transitions} transitions, "
                f"{self.steps} steps of the core, {self.seconds:.0f} s, {self.memory_mib} MiB")

    def as_json(self) -> dict[str, object]:
        return {"model": self.model.name, "bounds": self.model.bounds, "states": self.states,
                "transitions": self.transitions, "depth": self.depth, "complete": self.is_complete, "steps": self.steps,
                "seconds": round(self.seconds, 1), "memory_mib": self.memory_mib,
                "violation": None if self.trace is None else str(self.trace.violation),
                "trace": None if self.trace is None else self.trace.events}


def explore(model: Model, states_max: int | None = None, report: Callable[[Progress], None] = lambda _progress: None,
            ) -> Progress:
    """Visit the states within the bounds, layer by layer, up to the first violation. Stop after the layer in which
    `states_max` is reached. `report` is called after each layer."""
    return Search(model, report).run(states_max)


class Search:
    def __init__(self, model: Model, report: Callable[[Progress], None]) -> None:
        self.space = Space(model)
        self.progress = Progress(model)
        self._report = report
        self._count = len(model.ids)
        self._before: dict[int, int] = {}
        self._started = monotonic()

    def run(self, states_max: int | None) -> Progress:
        progress = self.progress
        first = self._pack(self.space.representative(self.space.first))
        self._before[first] = -1
        layer = [first]
        while layer and progress.depth < progress.model.depth_max:
            layer = self._next(layer)
            if progress.trace is None:
                progress.depth += 1
                progress.is_complete = not layer
            self._measure()
            self._report(progress)
            if progress.trace is not None or (states_max is not None and progress.states >= states_max):
                break
        return progress

    def _next(self, layer: list[int]) -> list[int]:
        """Return the new states one event later."""
        space, before, found, transitions = self.space, self._before, [], 0
        represent, pack = space.representative, self._pack
        for key in layer:
            state = self._unpack(key)
            try:
                for event, after in space.successors(state):
                    transitions += 1
                    representative = represent(after)
                    packed = pack(representative)
                    if packed not in before:
                        self._check(event, representative)
                        before[packed] = key
                        found.append(packed)
            except FoundError as error:
                self.progress.trace = self._trace(key, error)
                break
        self.progress.transitions += transitions
        return found

    def _check(self, event: Event, state: State) -> None:
        try:
            self.space.check(state)
        except ViolationError as violation:
            raise FoundError(event, violation) from violation

    def _measure(self) -> None:
        progress = self.progress
        progress.states, progress.steps = len(self._before), self.space.steps
        progress.seconds = monotonic() - self._started
        progress.memory_mib = getrusage(RUSAGE_SELF).ru_maxrss >> 10

    def _pack(self, state: State) -> int:
        nodes, exchanges, ledger, budget = state
        key = ledger << BITS | budget
        for number in nodes:
            key = key << BITS | number
        for number in exchanges:
            key = key << BITS | number
        return key

    def _unpack(self, key: int) -> State:
        numbers = []
        for _ in range(2 * self._count):
            numbers.append(key & MASK)
            key >>= BITS
        numbers.reverse()
        return tuple(numbers[:self._count]), tuple(numbers[self._count:]), key >> BITS, key & MASK

    def _trace(self, key: int, error: FoundError) -> Trace:
        keys = [key]
        while (key := self._before[key]) != -1:
            keys.append(key)
        keys.reverse()
        return retrace(self.space, [self._unpack(each) for each in keys[1:]], error.violation.name)
