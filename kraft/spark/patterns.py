"""Translation of Java's regular expressions, which users of Spark write, for Python's `re`.

Names of topics are ASCII without white space. So classes such as `\\w`, and the places where `$` matches, are the same
in both. Syntax that only Java has is an error in Python too, except sets within sets, which mean something else there.
"""

import re
from typing import Final

_PARTS: Final = re.compile(
    r"\\k<(?P<reference>\w+)>|\\.|\(\?<(?P<name>[A-Za-z]\w*)>|(?P<set>\[\^?\]?(?:\\.|[^]\\])*\])", re.DOTALL)
_SETS_IN_SET: Final = re.compile(r"\[|&&")


def java_pattern(text: str) -> re.Pattern[str]:
    """Translate the pattern as Java understands it. Raise `re.error` for an invalid one, and for one that cannot be
    translated."""
    return re.compile(_PARTS.sub(_translated, text))


def _translated(part: re.Match[str]) -> str:
    if part["name"] is not None:
        return f"(?P<{part['name']}>"
    if part["reference"] is not None:
        return f"(?P={part['reference']})"
    if part["set"] is not None and _SETS_IN_SET.search(re.sub(r"\\.", "_", part["set"][1:])):
        raise re.error(f"sets within a set, or &&, are not supported: {part['set']}")
    return part[0]
