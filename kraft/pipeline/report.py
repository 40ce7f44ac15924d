"""`report`: results of `kraft bench --output` and of the flight recorder as figures, comparisons and one HTML page."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from kraft.load.compare import FIGURES, Ratio, compare, workload_differences
from kraft.load.measure import Measurement
from kraft.load.report import html_report, html_table, ratio_table
from kraft.pipeline.workers import IN_PLACE, Workers
from kraft.recorder.entry import Entry, parse
from kraft.recorder.timeline import merged
from kraft_native.base.errors import InvalidArgumentError, MalformedMessageError

CAMPAIGNING: Final = ("Prospective", "Candidate")
POINTS: Final = (50, 90, 99)


class Election(NamedTuple):
    """Election of one leader. `took_ms`: the time since the first node campaigned, -1 when no campaign is known.
    `gap_ms`: the time since the last sign of the previous leader, -1 for the first one."""

    epoch: int
    leader: int
    time_ms: float
    took_ms: float
    gap_ms: float


class Inputs(NamedTuple):
    """Content of the files: runs by the file's name, or by its path where several have that name; and the entries of
    all recorders in the order of time."""

    runs: dict[str, list[tuple[str, Measurement]]]
    entries: list[Entry]


def read_inputs(paths: Sequence[Path], workers: Workers = IN_PLACE) -> Inputs:
    """Read results of `kraft bench --output` (one object with `runs`) and recordings (an entry on each line). Each file
    is one task of the workers.

    `InvalidArgumentError` for a file that is neither.
    """
    found = dict(workers.run(read_input, list(dict.fromkeys(paths))))
    ordered = [(path, found[path]) for path in dict.fromkeys(paths)]
    stems = [path.stem for path, (runs, _) in ordered if runs is not None]
    return Inputs({path.stem if stems.count(path.stem) == 1 else str(path): runs
                   for path, (runs, _) in ordered if runs is not None},
                  merged([entry for _, (_, entries) in ordered for entry in entries]))


def read_input(path: Path) -> tuple[list[tuple[str, Measurement]] | None, list[Entry]]:
    """Return the runs of one file, None where it has none, and its entries."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path}: neither a result of kraft bench nor a recording: {error}") from error
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict) and "runs" in found:
        if not isinstance(found["runs"], list) or not all(isinstance(run, dict) for run in found["runs"]):
            raise InvalidArgumentError(f"{path}: its runs are not a list of objects")
        return [(str(run.get("name")), _measurement(path, run)) for run in found["runs"]], []
    try:
        return None, [parse(line) for line in text.splitlines() if line.strip()]
    except MalformedMessageError as error:
        raise InvalidArgumentError(f"{path}: neither a result of kraft bench nor a recording: {error}") from error


def _measurement(path: Path, run: dict[str, Any]) -> Measurement:
    missing = [each.name for each in fields(Measurement) if each.name not in run and each.default is MISSING
               and each.default_factory is MISSING]
    if missing:
        raise InvalidArgumentError(f"{path}: the run {run.get('name')!r} lacks {', '.join(missing)}")
    return Measurement(**{each.name: run[each.name] for each in fields(Measurement) if each.name in run})


def compared(a: Sequence[tuple[str, Measurement]], b: Sequence[tuple[str, Measurement]]) -> list[Ratio]:
    """Return A over B, run by run of the same kind of load; as many pairs as both have. `InvalidArgumentError` when the
    workloads of a pair differ: see `mismatches`."""
    pairs = []
    for kind in dict.fromkeys(run.workload["kind"] for _, run in a):
        sides = [[run for _, run in side if run.workload["kind"] == kind] for side in (a, b)]
        pairs += list(zip(*sides, strict=False))
    for one, other in pairs:
        if differing := workload_differences(one.workload, other.workload):
            name, left, right = differing[0]
            raise InvalidArgumentError(f"different workloads are not compared: {name} is {left} and {right}")
    return compare(pairs)


def mismatches(inputs: Inputs) -> list[tuple[str, str, list[tuple[str, object, object]]]]:
    """Return the files whose workload differs from the first one's: (first, other, settings that differ)."""
    found = []
    names = list(inputs.runs)
    for name in names[1:]:
        sides = [[run.workload for _, run in inputs.runs[each]] for each in (names[0], name)]
        kinds = [dict.fromkeys(str(workload["kind"]) for workload in side) for side in sides]
        differing: list[tuple[str, object, object]] = [] if kinds[0].keys() & kinds[1].keys() else [
            ("kind", ", ".join(kinds[0]), ", ".join(kinds[1]))]
        for one in sides[0]:
            for other in sides[1]:
                if one["kind"] == other["kind"]:
                    differing += [each for each in workload_differences(one, other) if each not in differing]
        if differing:
            found.append((names[0], name, differing))
    return found


def elections(entries: Sequence[Entry]) -> list[Election]:
    """Return every leader in the recordings, in order."""
    found: list[Election] = []
    campaign_ms = seen_ms = -1.0
    for entry in entries:
        role = entry.values.get("role")
        if entry.what == "becomes" and role in CAMPAIGNING and campaign_ms < 0:
            campaign_ms = entry.time_ms
        if entry.what == "becomes" and role == "Leader":
            found.append(Election(int(entry.values["epoch"]), entry.node_id, entry.time_ms,
                                  entry.time_ms - campaign_ms if campaign_ms >= 0 else -1,
                                  entry.time_ms - seen_ms if seen_ms >= 0 else -1))
            campaign_ms = -1.0
        if found and entry.node_id == found[-1].leader:
            seen_ms = max(entry.time_ms, entry.until_ms)
    return found


def election_times(elected: Sequence[Election]) -> dict[str, list[float]]:
    """Return the known durations of elections and of times without a leader, without figures that have none."""
    found = {"election ms": [each.took_ms for each in elected if each.took_ms >= 0],
             "without leader ms": [each.gap_ms for each in elected if each.gap_ms >= 0]}
    return {figure: times for figure, times in found.items() if times}


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return median, 90 %, 99 % and maximum; empty for no values."""
    if not values:
        return {}
    if len(values) == 1:
        return {**{str(point): values[0] for point in POINTS}, "max": values[0]}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {**{str(point): cuts[point - 1] for point in POINTS}, "max": max(values)}


def summary(inputs: Inputs) -> list[dict[str, Any]]:
    """Return the figures, one row for each file and figure."""
    rows: list[dict[str, Any]] = []
    for name, runs in inputs.runs.items():
        for figure, value_of in FIGURES.items():
            values = [value for _, run in runs if (value := value_of(run)) is not None]
            if values:
                rows.append({"source": name, "figure": figure, "runs": len(values), "median": statistics.median(values),
                             "low": min(values), "high": max(values)})
    rows += [{"source": "recordings", "figure": figure, "runs": len(times), "median": statistics.median(times),
              "low": min(times), "high": max(times)}
             for figure, times in election_times(elections(inputs.entries)).items()]
    return rows


def page(title: str, inputs: Inputs) -> str:
    """Return the HTML page: all runs, each file beside the first one, elections with their percentiles."""
    runs = [(f"{source}: {name}" if len(inputs.runs) > 1 else name, run)
            for source, named in inputs.runs.items() for name, run in named]
    names = list(inputs.runs)
    differing = {other: settings for _, other, settings in mismatches(inputs)}
    sections = []
    for name in names[1:]:
        if name in differing:
            rows = [("setting", names[0], name), *((key, str(a), str(b)) for key, a, b in differing[name])]
            sections.append(f"<h2>Not compared: the workloads differ</h2>{html_table(rows)}")
            continue
        ratios = compared(inputs.runs[names[0]], inputs.runs[name])
        sections.append(f"<h2>Compared</h2>{ratio_table(names[0], name, ratios)}")
    if elected := elections(inputs.entries):
        head = ("figure", *(f"p{point}" for point in POINTS), "max")
        figures = [(figure, *(f"{value:,.1f}" for value in percentiles(times).values()))
                   for figure, times in election_times(elected).items()]
        each_one = [(str(each.epoch), str(each.leader), _ms(each.took_ms), _ms(each.gap_ms)) for each in elected]
        sections.append("<h2>Elections</h2>" + html_table([head, *figures])
                        + html_table([("epoch", "leader", "took ms", "without leader ms"), *each_one]))
    return html_report(title, runs, sections=sections)


def _ms(value: float) -> str:
    return "-" if value < 0 else f"{value:,.1f}"
