"""Rules that make the name of a user from the subject of a client's certificate: `ssl.principal.mapping.rules`.

Rules are separated by commas, and the first that applies decides. `DEFAULT` is the whole distinguished name.
`RULE:pattern/replacement/` applies to names that the pattern matches as a whole; `$1` in the replacement is the first
group. A final `L` or `U` changes the case. A backslash quotes a slash. Patterns are of Python's `re`, which reads
nearly all of Java's; a pattern that it cannot read is refused when the rules are parsed.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kraft_native.base.errors import InvalidArgumentError

SETTING: Final = "ssl.principal.mapping.rules"
DEFAULT: Final = "DEFAULT"
_MARK: Final = "RULE:"
_NAMED_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")
_END = re.compile(r"\s*(,|$)")


class Rule(NamedTuple):
    """One rule as it is written. `case`: "L", "U" or ""."""

    pattern: str
    replacement: str
    case: str


class PrincipalMapping:
    """Parsed rules. `rules`: None in place of `DEFAULT`."""

    def __init__(self, rules: list[Rule | None]) -> None:
        self.rules = rules
        self._appliers = [_applier(rule) for rule in rules]

    def name_of(self, subject: str) -> str | None:
        """Return the user's name for a distinguished name in the form of RFC 2253; None when no rule applies."""
        return next((name for apply in self._appliers if (name := apply(subject)) is not None), None)


def parse_mapping(text: str) -> PrincipalMapping:
    """Parse the rules. `InvalidArgumentError` names the rule that cannot be read."""
    rules: list[Rule | None] = []
    at = 0
    while at < len(text):
        if text[at].isspace() or text[at] == ",":
            at += 1
            continue
        found, end = _rule(text, at)
        if (behind := _END.match(text, end)) is None:
            written = text[at:].partition(",")[0].strip()
            raise InvalidArgumentError(f"{SETTING}: {written!r} is neither {DEFAULT} nor RULE:pattern/replacement/, "
                                       "RULE:pattern/replacement/L or RULE:pattern/replacement/U")
        rules.append(found)
        at = behind.end()
    return PrincipalMapping(rules)


def _rule(text: str, begin: int) -> tuple[Rule | None, int]:
    """Return the rule at `begin` and where it ends; one that is not complete ends where it begins."""
    if text.startswith(DEFAULT, begin):
        return None, begin + len(DEFAULT)
    if not text.startswith(_MARK, begin):
        return None, begin
    middle = _slash(text, begin + len(_MARK))
    last = -1 if middle < 0 else _slash(text, middle + 1)
    if last < 0:
        return None, begin
    case = text[last + 1:last + 2]
    case = case if case in ("L", "U") else ""
    return Rule(text[begin + len(_MARK):middle], text[middle + 1:last], case), last + 1 + len(case)


def _slash(text: str, begin: int) -> int:
    """Return the place of the next slash that no backslash quotes; -1 without one."""
    at = begin
    while at < len(text):
        if text[at] == "/":
            return at
        at += 2 if text[at] == "\\" else 1
    return -1


def _applier(rule: Rule | None) -> Callable[[str], str | None]:
    if rule is None:
        return lambda subject: subject
    try:
        pattern = re.compile(_NAMED_GROUP.sub("(?P<", rule.pattern))
    except re.error as error:
        raise InvalidArgumentError(f"{SETTING}: the pattern {rule.pattern!r} cannot be used: {error}") from error
    parts = _parts(rule, pattern)

    def apply(subject: str) -> str | None:
        if pattern.fullmatch(subject) is None:
            return None
        name = pattern.sub(lambda match: "".join(part if isinstance(part, str) else match[part[0]] or ""
                                                 for part in parts), subject)
        return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name

    return apply


def _parts(rule: Rule, pattern: re.Pattern[str]) -> list[str | tuple[int | str]]:
    """Split a replacement into texts and groups."""
    parts: list[str | tuple[int | str]] = []
    text = rule.replacement
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            parts.append(text[at + 1])
            at += 2
        elif text[at] == "$":
            part, at = _group(rule, pattern, at + 1)
            parts.append(part)
        else:
            parts.append(text[at])
            at += 1
    return parts


def _group(rule: Rule, pattern: re.Pattern[str], at: int) -> tuple[str | tuple[int | str], int]:
    """Return the group after a `$` and where it ends: the longest number that the pattern has. A number that it has not
    is a text, as in Kafka."""
    text = rule.replacement
    if (named := re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(text, at)) and named[1] in pattern.groupindex:
        return (named[1],), named.end()
    digits = re.compile(r"[0-9]*").match(text, at)
    assert digits is not None, "the pattern matches everywhere"
    for end in range(digits.end(), at, -1):
        if int(text[at:end]) <= pattern.groups:
            return (int(text[at:end]),), end
    if digits[0] and pattern.groups:
        return f"${text[at]}", at + 1
    raise InvalidArgumentError(f"{SETTING}: the replacement {text!r} has ${text[at:at + 1]}, which is no group of the "
                               f"pattern {rule.pattern!r}; \\$ is a dollar sign")
