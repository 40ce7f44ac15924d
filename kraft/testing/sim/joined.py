"""Sum of the reports of separate campaigns."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

FIRST: Final = ("runs", "events", "simulated_hours", "cpu_seconds")
"""Numbers that are added up first. All other numbers are added up, too, except those derived from them."""
FOLLOWS: Final = ("speed", "digest", "transitions_missing", "violations")


def joined(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the report of all those runs together. `digests` replaces the digest. A seed that ran twice counts
    twice."""
    whole: dict[str, Any] = dict.fromkeys(FIRST, 0)
    for report in reports:
        for name, value in report.items():
            if isinstance(value, Mapping):
                counts = whole.setdefault(name, {})
                for each, count in value.items():
                    counts[each] = counts.get(each, 0) + count
            elif name not in FOLLOWS:
                whole[name] = whole.get(name, 0) + value
    whole["simulated_hours"] = round(whole["simulated_hours"], 3)
    whole["cpu_seconds"] = round(whole["cpu_seconds"], 1)
    whole["speed"] = round(3600 * whole["simulated_hours"] / whole["cpu_seconds"], 1) if whole["cpu_seconds"] else 0.0
    whole["digests"] = [report["digest"] for report in reports]
    whole["transitions_missing"] = [name for name, count in whole.get("transitions", {}).items() if not count]
    whole["violations"] = [each for report in reports for each in report["violations"]]
    return whole
