r"""Patterns of clients: regular expressions that match in linear time, for ListTransactions and for subscriptions.

Kafka uses RE2 here, because a client's pattern must not occupy the broker. Python's `re` backtracks, so a short
pattern can run for years. This matcher follows all alternatives at once: a text of n characters takes at most n steps
over the states of the pattern.

The syntax is a part of RE2's. The whole text must match, and other constructs are refused:

- characters, `.`, classes `[a-z]` and `[^a-z]`, `\d \w \s`, escapes, `^`, `$`;
- groups `( )` and `(?: )`, alternatives `|`;
- `*`, `+`, `?`, `{2}`, `{2,}`, `{2,5}`, and the lazy form of each, such as `*?`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Final, NamedTuple

from kraft.steps import finish

PATTERN_MAX: Final = 1_000
"""Limit of the length of a pattern: each character of a text may meet each of its states."""
_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c == "_" or (c.isascii() and c.isalnum()),
    "s": lambda c: c in " \t\n\f\r",
}
STATES_MAX: Final = 4_000
"""Limit of the states of a pattern, which repetitions multiply."""
VISITS_OF_A_STEP: Final = 2_000
_COUNT_MAX: Final = 1_000


class PatternError(ValueError):
    """A pattern that is not a regular expression of this syntax."""


class _Node(NamedTuple):
    """State of the automaton: `accepts` a character and continues in `next`, or (None) continues in each of `next`. At
    `^` it does so only before the first character, at `$` only after the last one."""

    accepts: Callable[[str], bool] | None
    next: list[int]
    at: str = ""


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
        return finish(self.match_steps(text))

    def match_steps(self, text: str) -> Generator[None, None, bool]:
        """Return whether the whole `text` matches, in steps."""
        states = self._closure([self._start], is_first=True, is_last=not text)
        visits = 0
        for number, character in enumerate(text, 1):
            states = self._closure(
                (following for each in states if (accepts := self._nodes[each].accepts) is not None
                 and accepts(character) for following in self._nodes[each].next),
                is_first=False, is_last=number == len(text))
            if not states:
                return False
            visits += len(states)
            if visits >= VISITS_OF_A_STEP:
                visits = 0
                yield
        return self._end in states

    def _closure(self, states: Iterable[int], *, is_first: bool, is_last: bool) -> dict[int, None]:
        seen: dict[int, None] = {}
        todo = list(states)
        while todo:
            state = todo.pop()
            if state not in seen:
                seen[state] = None
                node = self._nodes[state]
                if node.accepts is None and (not node.at or (is_first if node.at == "^" else is_last)):
                    todo += node.next
        return seen

    # ---------------------------------------------------------------- the parser

    def _node(self, accepts: Callable[[str], bool] | None, following: list[int], at: str = "") -> int:
        if len(self._nodes) >= STATES_MAX:
            raise PatternError(f"more than {STATES_MAX} states")
        self._nodes.append(_Node(accepts, following, at))
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
            start = self._at
            part = self._repeated(self._atom(depth), start, depth)
            _join(whole.open, part.start)
            whole = _Part(whole.start, part.open)
        return whole

    def _repeated(self, part: _Part, start: int, depth: int) -> _Part:
        """Return the repetition of `part`, whose text begins at `start`. That a repetition is lazy changes nothing, as
        the whole text must match."""
        end = self._at
        while (mark := self._peek()) and mark in "*+?{":
            self._at += 1
            if mark == "{":
                part = self._counted(part, start, end, depth)
            elif mark == "?":
                part = self._optional(part)
            else:
                part = self._looped(part, at_least_once=mark == "+")
            if self._peek() == "?":
                self._at += 1
            end = self._at
        return part

    def _optional(self, part: _Part) -> _Part:
        following = [part.start]
        return _Part(self._node(None, following), [*part.open, following])

    def _looped(self, part: _Part, *, at_least_once: bool) -> _Part:
        following = [part.start]
        choice = self._node(None, following)
        _join(part.open, choice)
        return _Part(part.start if at_least_once else choice, [following])

    def _counted(self, first: _Part, start: int, end: int, depth: int) -> _Part:
        """Return `first` as often as the braces say; its copies are parsed from the same text again."""
        least, most = self._bounds()
        after = self._at

        copies = [first]
        while len(copies) < max(least, 1 if most is None else most):
            self._at = start
            piece = self._piece(start, end, depth)
            copies.append(piece)
        self._at = after
        if most == 0:
            following: list[int] = []
            return _Part(self._node(None, following), [following])
        parts = []
        for number, each in enumerate(copies, 1):
            if most is None and number == len(copies):
                parts.append(self._looped(each, at_least_once=least > 0))
            else:
                parts.append(each if number <= least else self._optional(each))
        whole = parts[0]
        for each in parts[1:]:
            _join(whole.open, each.start)
            whole = _Part(whole.start, each.open)
        return whole

    def _piece(self, start: int, end: int, depth: int) -> _Part:
        """Parse the text from `start` to `end` again: one atom, which may be repeated already."""
        text, self._text, self._at = self._text, self._text[:end], start
        part = self._repeated(self._atom(depth), start, depth)
        self._text = text
        return part

    def _bounds(self) -> tuple[int, int | None]:
        """Parse what follows `{`: how often at least and at most; None without limit."""
        inner = ""
        while (character := self._take("'}'")) != "}":
            inner += character
        least, comma, most = inner.partition(",")
        if not least.isdecimal() or (most and not most.isdecimal()) or not inner.isascii():
            raise PatternError(f"the repetition {{{inner}}}")
        bounds = int(least), (int(most) if most else None if comma else int(least))
        if bounds[0] > _COUNT_MAX or (bounds[1] is not None and not bounds[0] <= bounds[1] <= _COUNT_MAX):
            raise PatternError(f"the repetition {{{inner}}}")
        return bounds

    def _atom(self, depth: int) -> _Part:
        character = self._take("an expression")
        if character == "(":
            if self._text[self._at:self._at + 2] == "?:":
                self._at += 2
            part = self._alternatives(depth + 1)
            if self._take("')'") != ")":
                raise PatternError("a group without ')'")
            return part
        following: list[int] = []
        if character in "^$":
            return _Part(self._node(None, following, character), [following])
        if character in "*+?{}":
            raise PatternError(f"{character!r} at {self._at - 1} is not supported here")
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
