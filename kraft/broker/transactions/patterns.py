r"""Patterns of ListTransactions: regular expressions that match in linear time.

Kafka uses RE2 here, because an operator's pattern must not occupy the broker. Python's `re` backtracks, so a short
pattern can run for years. This matcher follows all alternatives at once: a text of n characters takes at most n steps
over the states of the pattern.

Syntax: characters, `.`, classes `[a-z]` and `[^a-z]`, `\d \w \s`, escapes, groups `( )`, `|`, `*`, `+`, `?`. The whole
text must match. Other constructs are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

PATTERN_MAX: Final = 1_000
"""Limit of the length of a pattern: each character of a text may meet each of its states."""
_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c == "_" or (c.isascii() and c.isalnum()),
    "s": lambda c: c in " \t\n\f\r",
}
_REFUSED: Final = "{}^$"


class PatternError(ValueError):
    """A pattern that is not a regular expression of this syntax."""


class _Node(NamedTuple):
    """State of the automaton: `accepts` a character and continues in `next`, or (None) continues in each of `next`."""

    accepts: Callable[[str], bool] | None
    next: list[int]


class _Part(NamedTuple):
    """Part of the automaton: its first state, and the lists of the states that follow it."""

    start: int
    open: list[list[int]]


class Pattern:
    """One pattern. Raises PatternError when it is malformed, unsupported, or longer than `PATTERN_MAX`."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_MAX:
            raise PatternError(f"a pattern of {len(text)} characters; at most {PATTERN_MAX} are allowed")
        self._text = text
        self._at = 0
        self._nodes: list[_Node] = []
        whole = self._alternatives(0)
        if self._at < len(text):
            raise PatternError(f"unmatched {text[self._at]!r} at {self._at}")
        self._end = self._node(None, [])
        _join(whole.open, self._end)
        self._start = whole.start

    def matches(self, text: str) -> bool:
        """Return whether the whole `text` matches."""
        states = self._closure([self._start])
        for character in text:
            states = self._closure(
                following for each in states if (accepts := self._nodes[each].accepts) is not None
                and accepts(character) for following in self._nodes[each].next)
            if not states:
                return False
        return self._end in states

    def _closure(self, states: Iterable[int]) -> dict[int, None]:
        seen: dict[int, None] = {}
        todo = list(states)
        while todo:
            state = todo.pop()
            if state not in seen:
                seen[state] = None
                if self._nodes[state].accepts is None:
                    todo += self._nodes[state].next
        return seen

    # ---------------------------------------------------------------- the parser

    def _node(self, accepts: Callable[[str], bool] | None, following: list[int]) -> int:
        self._nodes.append(_Node(accepts, following))
        return len(self._nodes) - 1

    def _peek(self) -> str:
        return self._text[self._at:self._at + 1]

    def _take(self, what: str) -> str:
        if self._at >= len(self._text):
            raise PatternError(f"{what} is missing at the end")
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self, depth: int) -> _Part:
        if depth > 50:
            raise PatternError("more than 50 nested groups")
        parts = [self._sequence(depth)]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence(depth))
        if len(parts) == 1:
            return parts[0]
        return _Part(self._node(None, [part.start for part in parts]), [each for part in parts for each in part.open])

    def _sequence(self, depth: int) -> _Part:
        following: list[int] = []
        whole = _Part(self._node(None, following), [following])
        while self._peek() and self._peek() not in "|)":
            part = self._repeated(self._atom(depth))
            _join(whole.open, part.start)
            whole = _Part(whole.start, part.open)
        return whole

    def _repeated(self, part: _Part) -> _Part:
        while (mark := self._peek()) and mark in "*+?":
            self._at += 1
            following = [part.start]
            choice = self._node(None, following)
            if mark == "?":
                part = _Part(choice, [*part.open, following])
            else:
                _join(part.open, choice)
                part = _Part(choice if mark == "*" else part.start, [following])
        return part

    def _atom(self, depth: int) -> _Part:
        character = self._take("an expression")
        if character == "(":
            part = self._alternatives(depth + 1)
            if self._take("')'") != ")":
                raise PatternError("a group without ')'")
            return part
        if character in "*+?" or character in _REFUSED:
            raise PatternError(f"{character!r} at {self._at - 1} is not supported here")
        following: list[int] = []
        accepts = (self._class() if character == "[" else self._escaped() if character == "\\"
                   else (lambda _: True) if character == "." else character.__eq__)
        return _Part(self._node(accepts, following), [following])

    def _escaped(self) -> Callable[[str], bool]:
        character = self._take("an escaped character")
        if character.lower() in _CLASSES:
            accepts = _CLASSES[character.lower()]
            return accepts if character.islower() else lambda each: not accepts(each)
        if character.isalnum():
            raise PatternError(f"unknown escape \\{character}")
        return character.__eq__

    def _class(self) -> Callable[[str], bool]:
        negated = self._peek() == "^"
        self._at += negated
        tests: list[Callable[[str], bool]] = []
        while not tests or self._peek() != "]":
            first = self._take("']'")
            if first == "\\":
                tests.append(self._escaped())
            elif self._peek() == "-" and self._text[self._at + 1:self._at + 2] not in ("", "]"):
                self._at += 1
                last = self._take("']'")
                if last < first or last == "\\":
                    raise PatternError(f"the range {first}-{last}")
                tests.append(lambda each, first=first, last=last: first <= each <= last)  # type: ignore[misc]
            else:
                tests.append(first.__eq__)
        self._at += 1
        return lambda each: any(test(each) for test in tests) is not negated


def _join(opened: list[list[int]], state: int) -> None:
    for following in opened:
        following.append(state)
