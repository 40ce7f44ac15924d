r"""Characters that an element of a pattern accepts: classes by name, categories of Unicode, upper and lower case.

Sets of characters are those of RE2/J. Classes of Perl and POSIX are ASCII. A negated set under `(?i)` is the complement
of the set with the other cases of its characters, so `(?i)[^k]` refuses `k`, `K` and the sign of kelvin.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from kraft.broker.coordinator.pattern_errors import PatternError

Accepts: TypeAlias = Callable[[str], bool]
"""Function of one character: whether an element of a pattern accepts it."""

_WORD: Final = "azAZ09__"
_POSIX: Final = {
    "alnum": "azAZ09", "alpha": "azAZ", "ascii": "\x00\x7f", "blank": "\t\t  ", "cntrl": "\x00\x1f\x7f\x7f",
    "digit": "09", "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ", "upper": "AZ",
    "word": _WORD, "xdigit": "09AFaf",
}
"""Classes within brackets, such as `[:alpha:]`: first and last character of each of their ranges."""
_PERL: Final = {"d": "09", "s": "\t\n\f\r  ", "w": _WORD}
_MINOR: Final = {"C": "cfos", "L": "lmotu", "M": "cen", "N": "dlo", "P": "cdefios", "S": "ckmo", "Z": "lps"}
_CATEGORIES: Final = {major + minor: None for major, minors in _MINOR.items() for minor in ("", *minors)}
_CASES: Final = {character: cases for cases in (
    "Kk\u212a", "Ss\u017f", "\u039c\u03bc\xb5", "\xc5\xe5\u212b", "\xdf\u1e9e", "\u0131", "\u0345\u0399\u03b9\u1fbe",
    "\u0392\u03b2\u03d0", "\u0395\u03b5\u03f5", "\u0398\u03b8\u03d1\u03f4", "\u039a\u03ba\u03f0", "\u03a0\u03c0\u03d6",
    "\u03a1\u03c1\u03f1", "\u03a3\u03c2\u03c3", "\u03a6\u03c6\u03d5", "\u03a9\u03c9\u2126", "\u0412\u0432\u1c80",
    "\u0414\u0434\u1c81", "\u041e\u043e\u1c82", "\u0421\u0441\u1c83", "\u0422\u0442\u1c84\u1c85", "\u042a\u044a\u1c86",
    "\u0462\u0463\u1c87", "\u1c88\ua64a\ua64b", "\u1e60\u1e61\u1e9b") for character in cases}
"""Characters whose cases `str.lower`, `str.upper` and `str.title` do not all name, with all their cases."""


def is_word(character: str) -> bool:
    """Return whether `\\b` counts the character to a word. The empty string, which is outside of the text, is none."""
    return character == "_" or (character.isascii() and character.isalnum())


def any_character(_: str) -> bool:
    """Accept every character, as `.` under `(?s)`."""
    return True


def any_but_newline(character: str) -> bool:
    """Accept what `.` accepts."""
    return character != "\n"


def literal(character: str, *, folds: bool) -> Accepts:
    """Return what accepts one character, and its other cases if `folds`."""
    return tuple(cases(character)).__contains__ if folds else character.__eq__


def between(first: str, last: str, *, folds: bool) -> Accepts:
    """Return what accepts a range of characters, both ends included. Raises PatternError for an empty range."""
    if last < first:
        raise PatternError(f"the range {first}-{last}")
    return _maybe_folded(lambda each: first <= each <= last, folds)


def perl_class(letter: str, *, folds: bool) -> Accepts | None:
    r"""Return the class of `\d`, `\D` and their like by its letter; None for another letter."""
    ranges = _PERL.get(letter.lower())
    return None if ranges is None else _signed(_ranges(ranges), letter.isupper(), folds)


def posix_class(name: str, *, folds: bool) -> Accepts:
    """Return a class by the name between `[:` and `:]`. Raises PatternError for an unknown name."""
    ranges = _POSIX.get(name.removeprefix("^"))
    if ranges is None:
        raise PatternError(f"unknown class [:{name}:]")
    return _signed(_ranges(ranges), name.startswith("^"), folds)


def unicode_class(name: str, *, negated: bool, folds: bool) -> Accepts:
    r"""Return the class of `\p{name}`, or of `\P{name}` if `negated`. Raises PatternError for a name that is none of a
    general category, nor `Any`."""
    negated ^= name.startswith("^")
    name = name.removeprefix("^")
    if name == "Any":
        return _signed(any_character, negated, False)
    if name not in _CATEGORIES:
        raise PatternError(f"\\p{{{name}}} is no general category of Unicode")
    return _signed(lambda each: (found := unicodedata.category(each)).startswith(name) and found in _CATEGORIES,
                   negated, folds)


def one_of(elements: Iterable[Accepts], *, negated: bool) -> Accepts:
    """Return what accepts each character that one of the elements accepts, or none of them if `negated`."""
    every = tuple(elements)
    return lambda each: any(accepts(each) for accepts in every) is not negated


def cases(character: str) -> Iterable[str]:
    """Return the character and its other cases, by the simple case folding of Unicode."""
    known = _CASES.get(character)
    if known is not None:
        return known
    return [each for each in (character, character.lower(), character.upper(), character.title()) if len(each) == 1]


def _ranges(ends: str) -> Accepts:
    pairs = tuple(zip(ends[::2], ends[1::2], strict=True))
    return lambda each: any(first <= each <= last for first, last in pairs)


def _signed(accepts: Accepts, negated: bool, folds: bool) -> Accepts:
    folded = _maybe_folded(accepts, folds)
    return (lambda each: not folded(each)) if negated else folded


def _maybe_folded(accepts: Accepts, folds: bool) -> Accepts:
    return (lambda each: any(map(accepts, cases(each)))) if folds else accepts
