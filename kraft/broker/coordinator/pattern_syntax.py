r"""Parser of patterns: the syntax of RE2/J 1.8, Kafka's library, to a tree.

What RE2/J refuses is refused here, and the other way round, but for the scripts of Unicode (`\p{Greek}`), which are
refused, and for the limits. Some of it is not obvious:

- Flags `(?i)` hold up to the end of their group, also in the alternatives that follow. They are no element: in
  `a(?i)*` the star repeats `a`. `(?m)` changes `^` and `$`, `(?s)` changes `.`, and `(?U)` nothing, as the whole text
  must match.
- A brace that is not of the form `{2}`, `{2,}` or `{2,5}` is a character, which cannot be repeated. Leading zeros are
  not of that form.
- An operator directly after another is refused: `a**`, `a{2}{3}`. The lazy mark `?` is part of its operator.
- References to groups, assertions of what follows or precedes, and possessive operators are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from typing import Final, TypeAlias

from kraft.broker.coordinator import pattern_characters as characters
from kraft.broker.coordinator.pattern_characters import Accepts
from kraft.broker.coordinator.pattern_errors import PatternError
from kraft.structs import immutable, mutable

PATTERN_MAX: Final = 1_000
"""Limit of the length of a pattern: each character of a text may meet each of its states."""
LEVELS_MAX: Final = 150
"""Limit of the height of a tree. A group adds up to three levels: alternatives, sequence and repetition."""
_COUNT_MAX: Final = 1_000
_LAST: Final = 0x10FFFF

Holds: TypeAlias = Callable[[str, str], bool]
"""Function of the characters before and after a place: whether an assertion holds there. At an end of the text the
character is empty."""


@immutable
class Character:
    """One character that `accepts` accepts."""

    accepts: Accepts
    height: int = 1


@immutable
class Assertion:
    """A place where `holds` is true."""

    holds: Holds
    height: int = 1


@immutable
class Sequence:
    """All of `parts`, one after the other. None of them is the empty text."""

    parts: tuple[Tree, ...]
    height: int


@immutable
class Choice:
    """One of `parts`."""

    parts: tuple[Tree, ...]
    height: int


@immutable
class Repetition:
    """`part` at least `least` times, at most `most` times (None: without limit)."""

    part: Tree
    least: int
    most: int | None
    height: int


Tree: TypeAlias = Character | Assertion | Sequence | Choice | Repetition

_BEGINS_TEXT: Final = Assertion(lambda before, _: not before)
_ENDS_TEXT: Final = Assertion(lambda _, after: not after)
_BEGINS_LINE: Final = Assertion(lambda before, _: before in ("", "\n"))
_ENDS_LINE: Final = Assertion(lambda _, after: after in ("", "\n"))
_ESCAPED_ASSERTIONS: Final = {
    "A": _BEGINS_TEXT, "z": _ENDS_TEXT,
    "b": Assertion(lambda before, after: characters.is_word(before) is not characters.is_word(after)),
    "B": Assertion(lambda before, after: characters.is_word(before) is characters.is_word(after)),
}
_CONTROLS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_REPEATS: Final[dict[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_COUNTS: Final = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAME: Final = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_OCTAL: Final = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEXADECIMAL: Final = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]+)\})")


@mutable
class _Group:
    """An open group: its finished alternatives, the parts of the current one, and the flags from before the group."""

    flags: str
    finished: list[Tree] = field(default_factory=list)
    parts: list[Tree] = field(default_factory=list)


def parse(text: str) -> Tree:
    """Parse a pattern. Raises PatternError when it is malformed, unsupported, or beyond a limit."""
    if len(text) > PATTERN_MAX:
        raise PatternError(f"a pattern of {len(text)} characters; at most {PATTERN_MAX} are allowed")
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._flags = ""
        self._open = [_Group(self._flags)]
        self._names: dict[str, None] = {}

    def parse(self) -> Tree:
        was_repeated = False
        while self._at < len(self._text):
            begins_brace = self._starts("{")
            bounds = self._repeat()
            if bounds is None:
                self._element()
            else:
                self._repeat_last(bounds, was_repeated)
            was_repeated = begins_brace or bounds is not None
        if len(self._open) > 1:
            raise PatternError("a group without ')'")
        return _closed(self._open[0])

    @property
    def _folds(self) -> bool:
        return "i" in self._flags

    def _take(self, what: str) -> str:
        if self._at >= len(self._text):
            raise PatternError(f"{what} is missing at the end")
        self._at += 1
        return self._text[self._at - 1]

    def _starts(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consume what `pattern` matches here, if it does."""
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    # ---------------------------------------------------------------- repetitions

    def _repeat(self) -> tuple[int, int | None] | None:
        """Consume an operator of repetition with its lazy mark, if one is here."""
        bounds = _REPEATS.get(self._text[self._at])
        if bounds is not None:
            self._at += 1
        else:
            found = self._match(_COUNTS)
            if found is None:
                return None
            least = int(found[1][:9])
            most = least if found[2] is None else None if found[3] is None else int(found[3][:9])
            if least > _COUNT_MAX or (most is not None and not least <= most <= _COUNT_MAX):
                raise PatternError(f"the repetition {found[0][:32]}")
            bounds = least, most
        if self._starts("?"):
            self._at += 1
        return bounds

    def _repeat_last(self, bounds: tuple[int, int | None], was_repeated: bool) -> None:
        parts = self._open[-1].parts
        if was_repeated:
            raise PatternError(f"a repetition of a repetition before {self._at}")
        if not parts:
            raise PatternError(f"a repetition of nothing before {self._at}")
        parts[-1] = _limited(Repetition(parts[-1], *bounds, parts[-1].height + 1))

    # ---------------------------------------------------------------- elements

    def _element(self) -> None:
        group = self._open[-1]
        if self._starts("(?"):
            self._flags_or_group()
            return
        character = self._take("an expression")
        if character == "(":
            self._open.append(_Group(self._flags))
        elif character == "|":
            group.finished.append(_sequence(group.parts))
            group.parts = []
        elif character == ")":
            if len(self._open) == 1:
                raise PatternError(f"unmatched ')' at {self._at - 1}")
            self._flags = self._open.pop().flags
            self._open[-1].parts.append(_closed(group))
        elif character == "\\":
            self._escaped()
        else:
            group.parts.append(self._plain(character))

    def _plain(self, character: str) -> Tree:
        if character == "^":
            return _BEGINS_LINE if "m" in self._flags else _BEGINS_TEXT
        if character == "$":
            return _ENDS_LINE if "m" in self._flags else _ENDS_TEXT
        if character == ".":
            return Character(characters.any_character if "s" in self._flags else characters.any_but_newline)
        return Character(self._class() if character == "[" else characters.literal(character, folds=self._folds))

    def _flags_or_group(self) -> None:
        start = self._at
        if (name := self._match(_NAME)) is not None:
            if name[1] in self._names:
                raise PatternError(f"two groups of the name {name[1]}")
            self._names[name[1]] = None
            self._open.append(_Group(self._flags))
        elif (found := self._match(_FLAGS)) is not None:
            if found[3] == ":":
                self._open.append(_Group(self._flags))
            self._flags = "".join(each for each in "imsU" if each in self._flags + found[1]
                                  and each not in (found[2] or ""))
        else:
            raise PatternError(f"{self._text[start:start + 8]!r} at {start} is not supported")

    def _escaped(self) -> None:
        parts = self._open[-1].parts
        letter = self._text[self._at:self._at + 1]
        if letter in _ESCAPED_ASSERTIONS:
            self._at += 1
            parts.append(_ESCAPED_ASSERTIONS[letter])
        elif letter == "Q":
            quoted, _, _ = self._text[self._at + 1:].partition("\\E")
            self._at = min(self._at + 1 + len(quoted) + 2, len(self._text))
            parts += (Character(characters.literal(each, folds=self._folds)) for each in quoted)
        else:
            accepts = self._named_class()
            parts.append(Character(characters.literal(self._escape(), folds=self._folds) if accepts is None
                                   else accepts))

    def _named_class(self) -> Accepts | None:
        r"""Consume the rest of `\d` or `\p{L}` after the backslash, if it is one of these."""
        letter = self._text[self._at:self._at + 1]
        if letter not in ("p", "P"):
            accepts = characters.perl_class(letter, folds=self._folds)
            self._at += accepts is not None
            return accepts
        self._at += 1
        name = self._take("the name of a class")
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise PatternError("the name of a class without '}'")
            name, self._at = self._text[self._at:end], end + 1
        return characters.unicode_class(name, negated=letter == "P", folds=self._folds)

    def _escape(self) -> str:
        """Consume the rest of an escaped character after its backslash, and return the character."""
        if (octal := self._match(_OCTAL)) is not None:
            return chr(int(octal[0], 8))
        if (hexadecimal := self._match(_HEXADECIMAL)) is not None:
            number = int(hexadecimal[1] or hexadecimal[2], 16)
            if number <= _LAST:
                return chr(number)
            raise PatternError(f"\\{hexadecimal[0][:32]} is no character of Unicode")
        character = self._take("an escaped character")
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character.isascii() and character.isalnum():
            raise PatternError(f"unknown escape \\{character}")
        return character

    # ---------------------------------------------------------------- classes in brackets

    def _class(self) -> Accepts:
        negated = self._starts("^")
        self._at += negated
        elements: list[Accepts] = []
        while not elements or not self._starts("]"):
            elements.append(self._class_element())
        self._at += 1
        return characters.one_of(elements, negated=negated)

    def _class_element(self) -> Accepts:
        if self._starts("[:") and (end := self._text.find(":]", self._at)) >= 0:
            name, self._at = self._text[self._at + 2:end], end + 2
            return characters.posix_class(name, folds=self._folds)
        if self._starts("\\"):
            self._at += 1
            if (accepts := self._named_class()) is not None:
                return accepts
            self._at -= 1
        first = last = self._class_character()
        if self._starts("-") and not self._starts("-]"):
            self._at += 1
            last = self._class_character()
        return characters.between(first, last, folds=self._folds)

    def _class_character(self) -> str:
        character = self._take("']'")
        return self._escape() if character == "\\" else character


def _limited(tree: Tree) -> Tree:
    if tree.height > LEVELS_MAX:
        raise PatternError(f"more than {LEVELS_MAX} levels of groups and repetitions")
    return tree


def _sequence(parts: list[Tree]) -> Tree:
    if len(parts) == 1:
        return parts[0]
    return _limited(Sequence(tuple(parts), 1 + max((each.height for each in parts), default=0)))


def _closed(group: _Group) -> Tree:
    """Return the tree of a whole group."""
    parts = (*group.finished, _sequence(group.parts))
    return parts[0] if len(parts) == 1 else _limited(Choice(parts, 1 + max(each.height for each in parts)))
