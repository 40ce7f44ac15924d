"""The offset at which a share group begins in a partition that it has no state of (share.auto.offset.reset)."""

import re
from typing import Final

from kraft_native.partition.partition import Partition

EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"(?P<sign>-?)p(?:(?P<days>\d+)d)?(?:t(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+(?:\.\d+)?)s)?)?")
_UNITS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


def duration_ms(text: str) -> int:
    """Return the milliseconds of a duration in ISO 8601, in lower case. Durations below 0 count as 0, as does a text
    that is none."""
    found = _DURATION.fullmatch(text)
    if found is None or found["sign"]:
        return 0
    return int(sum(float(found[unit] or 0) * factor for unit, factor in _UNITS_MS.items()))


def time_of(reset: str, now_ms: int) -> int | None:
    """Return the time of the first record to deliver, in ms since 1970; None: the setting is no duration."""
    return now_ms - duration_ms(reset.removeprefix(BY_DURATION)) if reset.startswith(BY_DURATION) else None


def start_offset(partition: Partition, reset: str, now_ms: int) -> int:
    """Return the first offset to deliver. Where no record is as young as the setting wants, that is the end. Raises
    what a read of the log raises, and `KraftError` where this node does not lead."""
    if reset == EARLIEST:
        return partition.earliest()[0]
    if (since_ms := time_of(reset, now_ms)) is not None:
        found = partition.offset_for_time(max(0, since_ms))
        if found is not None:
            return found[0]
    return partition.latest()[0]
