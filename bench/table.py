"""Figures beside their limits: measurement in pairs, the table, and its plot."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table


@dataclass
class Row:
    """One figure. `ours` and `limit` are medians in `unit`; `target` is a ratio to the limit, or an absolute value.

    `better` is the good direction: "more" (a rate) or "less" (a time). `note` is a remark.
    """

    name: str
    unit: str
    ours: float
    limit: float | None = None
    limit_name: str = ""
    target: float | None = None
    relative: bool = True
    better: str = "more"
    runs: list[tuple[float, float]] = field(default_factory=list)
    note: str = ""

    @classmethod
    def of_runs(cls, name: str, unit: str, runs: list[tuple[float, float]], *, limit_name: str,
                target: float | None = None, better: str = "more") -> Row:
        """Create a row from pairs of (ours, limit)."""
        return cls(name, unit, statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs),
                   limit_name, target, True, better, runs)

    @property
    def ratio(self) -> float | None:
        """Return the median of the ratios pair by pair, which is robust when the machine's speed drifts."""
        if self.runs:
            return statistics.median(ours / limit for ours, limit in self.runs)
        return self.ours / self.limit if self.limit else None

    def summary(self) -> str:
        """Return the row as one line, which is printed before the table exists."""
        beside = "" if self.limit is None else f"; {self.limit_name}: {number(self.limit)}, ratio {self.ratio:.2f}"
        return f"{self.name}: {number(self.ours)} {self.unit}{beside}" + (f" ({self.note})" if self.note else "")

    @property
    def share(self) -> float | None:
        """Return the value for the plot: the ratio to the limit, or to an absolute target; None without either."""
        return self.ratio if self.relative or not self.target else self.ours / self.target

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        value = self.ratio if self.relative else self.ours
        if value is None:
            return None
        return value >= self.target if self.better == "more" else value <= self.target


@dataclass(frozen=True)
class Bench:
    """Settings of a group of rows: its directory, the amount of work, the repeats, and the wanted rows."""

    home: Path
    scale: float
    turns: int
    only: str = ""

    def wants(self, name: str) -> bool:
        return self.only in name

    def count(self, full: int) -> int:
        return max(1, int(full * self.scale))

    def fresh(self, name: str) -> Path:
        """Return an unused path in the run's directory."""
        path = self.home / name
        shutil.rmtree(path, ignore_errors=True)
        path.unlink(missing_ok=True)
        return path


def paired(name: str, unit: str, ours: Callable[[], float], limit: Callable[[], float], *, limit_name: str,
           target: float | None = None, repeats: int = 5, better: str = "more") -> Row:
    """Measure the limit and ours alternately, `repeats` times each after one uncounted pair."""
    limit(), ours()
    runs = []
    for _ in range(repeats):
        bound = limit()
        runs.append((ours(), bound))
    return Row.of_runs(name, unit, runs, limit_name=limit_name, target=target, better=better)


def absolute(name: str, unit: str, ours: Callable[[], float], *, target: float | None = None, repeats: int = 5,
             better: str = "more", limit: float | None = None, limit_name: str = "") -> Row:
    """Measure a figure whose target is an absolute value."""
    ours()
    return Row(name, unit, statistics.median(ours() for _ in range(repeats)), limit, limit_name, target, False, better)


def seconds(action: Callable[[], object]) -> float:
    """Return the wall time of one call."""
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


def show(rows: list[Row], title: str) -> None:
    """Print the table."""
    table = Table(title=title, title_justify="left")
    for heading, justify in (("what", "left"), ("ours", "right"), ("unit", "left"), ("limit", "right"),
                             ("of", "left"), ("ratio", "right"), ("target", "right"), ("", "left")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for row in rows:
        sign = "" if row.target is None else ("≥ " if row.better == "more" else "≤ ")
        table.add_row(
            row.name, number(row.ours), row.unit, "" if row.limit is None else number(row.limit), row.limit_name,
            "" if row.ratio is None else f"{row.ratio:.2f}", "" if row.target is None else sign + number(row.target),
            {True: "met", False: "MISSED", None: ""}[row.met],
        )
    console = Console(width=150)
    console.print(table)
    for row in rows:
        if row.note:
            console.print(f"{row.name}: {row.note}", highlight=False)


def number(value: float) -> str:
    """Format with three significant digits, thousands grouped."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _beside(row: Row) -> str:
    """Return the name of the value with which the plot compares the row."""
    return f"limit: {row.limit_name}" if row.relative or not row.target else f"target: {number(row.target)} {row.unit}"


def save(rows: list[Row], path: Path, title: str) -> None:
    """Write the rows as JSON and as a bar plot (SVG) of their shares."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    related = [row for row in rows if row.share is not None]
    figure, axes = plt.subplots(figsize=(9, 0.4 * len(related) + 1.2))
    positions = range(len(related))
    axes.barh(positions, [row.share or 0.0 for row in related], color="#4878a8", height=0.6)
    for position, row in zip(positions, related, strict=True):
        if row.target is not None:
            target = row.target if row.relative else 1.0
            axes.plot([target, target], [position - 0.4, position + 0.4], color="#b03030", linewidth=2)
    # Some rows exceed their target a hundredfold.
    axes.set_xscale("log")
    axes.set_xlim(left=min([row.share or 1.0 for row in related], default=1.0) / 2)
    axes.set_yticks(list(positions), [f"{row.name}\n({_beside(row)}; {row.better} is better)" for row in related],
                    fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("share of the limit measured in the same run, or of the target (red: target)")
    axes.set_title(title, fontsize=9, loc="left")
    figure.tight_layout()
    figure.savefig(path.with_suffix(".svg"))
    plt.close(figure)
