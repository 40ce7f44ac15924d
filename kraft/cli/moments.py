"""Offsets and points in time on the command line."""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

from kraft.config.errors import InvalidConfigError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EXAMPLE: Final = "2026-01-31T09:00:00Z"


def whole_number(text: str) -> int | None:
    """Return the number of a text of plain digits; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() else None


def time_ms(option: str, text: str, otherwise: str = "an offset") -> int:
    """Return a time in ISO 8601 as milliseconds since 1970; one without a zone is in UTC. `InvalidConfigError` names
    the option and the allowed forms: `otherwise`, or a time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidConfigError(f"{option}: {text!r} is not {otherwise} or a time such as {EXAMPLE}") from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(milliseconds=1)


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def time_text(moment_ms: int) -> str:
    """Format a time for the command line; outside the calendar's years, as milliseconds since 1970."""
    try:
        return (EPOCH + timedelta(milliseconds=moment_ms)).strftime("%Y-%m-%dT%H:%M:%SZ")
    except OverflowError:
        return f"{moment_ms} ms since 1970"
