"""Errors of bad settings."""

from collections.abc import Iterable

from kraft_native.base.errors import KraftError


class InvalidConfigError(KraftError, ValueError):
    """A setting's name or value is not allowed. The message names it, the value and what is allowed. Nothing
    changed."""

    code = 40


def unknown(key: str, known: Iterable[str], prefix: str = "") -> str:
    """Return a message that the setting `key` does not exist, with the nearest existing name: one of those that are
    `known` behind `prefix`."""
    import difflib  # only for this message
    nearest = difflib.get_close_matches(key.removeprefix(prefix), list(known), n=1, cutoff=0.6)
    return f"unknown setting {key}" + (f"; did you mean {prefix}{nearest[0]}?" if nearest else "")
