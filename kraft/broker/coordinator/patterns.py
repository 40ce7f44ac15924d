r"""Patterns of clients: regular expressions that match in linear time, for ListTransactions and for subscriptions.

Kafka uses RE2/J here, because a client's pattern must not occupy the broker. Python's `re` backtracks, so a short
pattern can run for years. This matcher follows all alternatives at once: a text of n characters takes at most n steps
over the states of the pattern. The syntax is RE2/J's (`pattern_syntax`). The whole text must match.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Final, NamedTuple

from kraft.broker.coordinator.pattern_characters import Accepts
from kraft.broker.coordinator.pattern_errors import PatternError
from kraft.broker.coordinator.pattern_syntax import (
    PATTERN_MAX,
    Assertion,
    Character,
    Choice,
    Holds,
    Repetition,
    Sequence,
    Tree,
    parse,
)
from kraft.steps import finish

__all__ = ["PATTERN_MAX", "Pattern", "PatternError"]

STATES_MAX: Final = 4_000
"""Limit of the states of a pattern, which repetitions multiply."""
VISITS_OF_A_STEP: Final = 2_000


class _Node(NamedTuple):
    """State of the automaton: `accepts` a character and continues in `next`, or (None) continues in each of `next`.
    With `holds` it does so only where that is true."""

    accepts: Accepts | None
    next: list[int]
    holds: Holds | None = None


class _Part(NamedTuple):
    """Part of the automaton: its first state, and the lists of the states that follow it."""

    start: int
    open: list[list[int]]


class Pattern:
    """One pattern. Raises PatternError when it is malformed, unsupported, or longer than `PATTERN_MAX`."""

    def __init__(self, text: str) -> None:
        self._nodes: list[_Node] = []
        whole = self._part(parse(text))
        self._end = self._node(None, [])
        _join(whole.open, self._end)
        self._start = whole.start

    def matches(self, text: str) -> bool:
        """Return whether the whole `text` matches."""
        return finish(self.match_steps(text))

    def match_steps(self, text: str) -> Generator[None, None, bool]:
        """Return whether the whole `text` matches, in steps."""
        states = self._closure([self._start], "", text[:1])
        visits = 0
        for number, character in enumerate(text, 1):
            states = self._closure(
                (following for each in states if (accepts := self._nodes[each].accepts) is not None
                 and accepts(character) for following in self._nodes[each].next),
                character, text[number:number + 1])
            if not states:
                return False
            visits += len(states)
            if visits >= VISITS_OF_A_STEP:
                visits = 0
                yield
        return self._end in states

    def _closure(self, states: Iterable[int], before: str, after: str) -> dict[int, None]:
        """Return the states that are reached from `states` without a character, between `before` and `after`."""
        seen: dict[int, None] = {}
        todo = list(states)
        while todo:
            state = todo.pop()
            if state not in seen:
                seen[state] = None
                node = self._nodes[state]
                if node.accepts is None and (node.holds is None or node.holds(before, after)):
                    todo += node.next
        return seen

    # ---------------------------------------------------------------- the automaton

    def _node(self, accepts: Accepts | None, following: list[int], holds: Holds | None = None) -> int:
        if len(self._nodes) >= STATES_MAX:
            raise PatternError(f"more than {STATES_MAX} states")
        self._nodes.append(_Node(accepts, following, holds))
        return len(self._nodes) - 1

    def _part(self, tree: Tree) -> _Part:
        following: list[int] = []
        match tree:
            case Character(accepts):
                return _Part(self._node(accepts, following), [following])
            case Assertion(holds):
                return _Part(self._node(None, following, holds), [following])
            case Sequence(parts):
                whole = _Part(self._node(None, following), [following])
                for each in parts:
                    whole = _followed(whole, self._part(each))
                return whole
            case Choice(parts):
                built = [self._part(each) for each in parts]
                return _Part(self._node(None, [part.start for part in built]),
                             [each for part in built for each in part.open])
            case Repetition(part, least, most):
                return self._repeated(part, least, most)

    def _repeated(self, tree: Tree, least: int, most: int | None) -> _Part:
        """Return a copy of the part for each time that it may match. The last one loops where there is no limit."""
        following: list[int] = []
        whole = _Part(self._node(None, following), [following])
        count = max(least, 1) if most is None else most
        for number in range(1, count + 1):
            copy = self._part(tree)
            if most is None and number == count:
                copy = self._looped(copy, at_least_once=least > 0)
            elif number > least:
                copy = self._optional(copy)
            whole = _followed(whole, copy)
        return whole

    def _optional(self, part: _Part) -> _Part:
        following = [part.start]
        return _Part(self._node(None, following), [*part.open, following])

    def _looped(self, part: _Part, *, at_least_once: bool) -> _Part:
        following = [part.start]
        choice = self._node(None, following)
        _join(part.open, choice)
        return _Part(part.start if at_least_once else choice, [following])


def _followed(whole: _Part, part: _Part) -> _Part:
    _join(whole.open, part.start)
    return _Part(whole.start, part.open)


def _join(opened: list[list[int]], state: int) -> None:
    for following in opened:
        following.append(state)
