"""Times on pages: always UTC, and durations in words."""

import time
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS: Final = 253_402_300_799_000
"""End of the calendar's years."""


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def time_text(time_ms: float) -> str:
    """Format a time; `-` for a negative one, which means that there is none."""
    if time_ms < 0:
        return "-"
    try:
        return (EPOCH + timedelta(milliseconds=time_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:
        return f"{time_ms:.0f} ms since 1970"


def moment_text(time_ms: float) -> str:
    """Format a time to the millisecond, without its zone."""
    return time_text(time_ms) if time_ms < 0 or time_ms > LAST_MS else (
        EPOCH + timedelta(milliseconds=time_ms)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def duration_text(duration_ms: float) -> str:
    """Format a duration in the two largest units that it has."""
    seconds = max(0.0, duration_ms) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def parse_time(text: str) -> int | None:
    """Return a time in ISO 8601 as milliseconds since 1970, in UTC unless it has a zone; None for other texts."""
    try:
        moment = datetime.fromisoformat(text.strip().removesuffix(" UTC"))
    except ValueError:
        return None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(milliseconds=1)
