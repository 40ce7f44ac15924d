"""Settings that are accepted without effect, because this version lacks what they tune. They are listed by name prefix.

Settings without effect for other reasons have the reason in `documentation.txt`.
"""

from typing import Final

from kraft.config.unsupported import REFUSED

KEPT: Final = "Kept for compatibility"
"""Marks the documentation of a setting that is accepted and has no effect."""

_TIERED: Final = "tiered storage"

# By section and prefix.
_ABSENT: Final = {
    "topic": {"remote.": _TIERED, "local.retention.": _TIERED},
    "broker": {
        "follower.fetch.last.tiered.": _TIERED,
        "log.local.retention.": _TIERED, "remote.": _TIERED,
    },
}


def absence(section: str, name: str) -> str:
    """Return the addition to the documentation of a setting whose subject this version lacks; "" for others."""
    if name in REFUSED:
        return ""
    for prefix, what in _ABSENT.get(section, {}).items():
        if name.startswith(prefix):
            return f" {KEPT}: this version has no {what}."
    return ""
