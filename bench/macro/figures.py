"""Figures of two servers that are loaded alternately, and their table."""

from __future__ import annotations

import json
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.table import Table

from bench.commit.quorums import cpu_seconds
from bench.machine import begin
from bench.macro.servers import Server, compiler_seconds, signal_all
from bench.macro.topics import await_in_service
from bench.table import number

T = TypeVar("T")

WARM_SECONDS = 3.0
WARM_SECONDS_MAX = 240.0
COMPILED_SHARE = 0.08
"""Largest share of a warm server's processor time that its compilers take."""


@dataclass
class Figure:
    """One figure of a row, by turn. `aim` is a ratio to the peer's, or with `absolute` a value in `unit`. None means
    that the figure only explains another. Without a peer the ratio is unknown."""

    row: str
    name: str
    unit: str
    aim: float | None
    better: str = "less"
    absolute: bool = False
    ours: list[float] = field(default_factory=list)
    peers: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """Return the median of the ratios turn by turn, which is robust when the machine's speed drifts."""
        if not self.peers:
            return None
        return statistics.median(a / b if b else float("inf") for a, b in zip(self.ours, self.peers, strict=True))

    @property
    def met(self) -> bool | None:
        """Return whether the aim is met; None without an aim, or without a peer for it."""
        value = statistics.median(self.ours) if self.absolute else self.ratio
        if self.aim is None or value is None:
            return None
        return value >= self.aim if self.better == "more" else value <= self.aim


@dataclass
class Pair:
    """The two servers, whose peer may be missing, and the length and number of measurements. With `fresh` each row has
    one turn, because a second one would find a warmer peer."""

    ours: Server
    peer: Server | None
    turns: int
    seconds: float
    bytes_scale: float
    fresh: bool = False

    @property
    def servers(self) -> list[Server]:
        return [self.ours] if self.peer is None else [self.ours, self.peer]

    def alternate(self, action: Callable[[Server], tuple[float, ...]],
                  figures: tuple[Figure, ...], turns: int | None = None) -> list[Figure]:
        """Apply the action to both alternately; the first one changes with each turn. The action returns the figures'
        values in their order."""
        for turn in range(1 if self.fresh else turns or self.turns):
            for server in self.servers if turn % 2 == 0 else reversed(self.servers):
                with self._alone(server):
                    values = action(server)
                for figure, value in zip(figures, values, strict=True):
                    (figure.ours if server is self.ours else figure.peers).append(value)
        return list(figures)

    @contextmanager
    def _alone(self, server: Server) -> Iterator[None]:
        """Stop the other one meanwhile: three idle nodes of Kafka take an eighth of a processor."""
        others = [each for each in self.servers if each is not server and each.pids]
        pids = [pid for each in others for pid in each.pids]
        signal_all(pids, signal.SIGSTOP)
        try:
            yield
        finally:
            signal_all(pids, signal.SIGCONT)
        for each in others:
            await_in_service(each)

    def stop(self) -> None:
        for server in self.servers:
            server.stop()


class Report:
    """All figures of a run: printed one by one, then as a table, and written as JSON."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._figures: list[Figure] = []

    def add(self, found: list[Figure]) -> None:
        for figure in found:
            beside = f" beside {_median(figure.peers)}" if figure.peers else ""
            self._console.print(f"{figure.row}, {figure.name}: {_median(figure.ours)}{beside} {figure.unit}",
                                highlight=False)
        self._figures += found

    def show(self) -> None:
        table = Table("row", "figure", "unit", "kraft", "peer", "ratio", "aim", "met")
        for column in table.columns[3:7]:
            column.justify = "right"
        for figure in self._figures:
            sign = ">=" if figure.better == "more" else "<="
            unit = f" {figure.unit}" if figure.absolute else " x"
            ratio = figure.ratio
            table.add_row(figure.row, figure.name, figure.unit, _median(figure.ours), _median(figure.peers),
                          "" if ratio is None else f"{ratio:.2f}",
                          "" if figure.aim is None else f"{sign} {figure.aim:g}{unit}",
                          {None: "", True: "yes", False: "no"}[figure.met])
        self._console.print(table)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps([{**asdict(figure), "ratio": figure.ratio, "met": figure.met}
                                    for figure in self._figures], indent=1) + "\n")


Row = tuple[str, Callable[[Pair], list[Figure]]]
"""A name, and the function that measures the figures."""


def chosen(rows: Iterable[tuple[str, T]], only: tuple[str, ...]) -> list[tuple[str, T]]:
    """Return the rows whose name contains one of these texts; all rows without texts."""
    return [row for row in rows if not only or any(text in row[0] for text in only)]


@dataclass
class Comparison:
    """A run in progress. `new_pair` creates two servers without data; the name is for their directories."""

    console: Console
    pair: Pair
    report: Report
    new_pair: Callable[[str], Pair]

    def measure_first(self, rows: Iterable[Row], starts: int) -> None:
        """Measure each row once on newly started servers, `starts` times: the figures of their first clients."""
        rows = list(rows)
        rounds = []
        for cluster in range(starts if rows else 0):
            pair = replace(self.new_pair(f"first-{cluster}"), turns=1, fresh=True)
            try:
                for server in pair.servers:
                    server.start()
                rounds.append([figure for _, row in rows for figure in row(pair)])
            finally:
                pair.stop()
        self.report.add([
            replace(same[0], row=f"first: {same[0].row}", ours=[value for each in same for value in each.ours],
                    peers=[value for each in same for value in each.peers])
            for same in zip(*rounds, strict=True)])

    def measure_fresh(self, rows: Iterable[Row]) -> None:
        """Measure one turn of each row on both right after their start, as in a first trial. The rows warm the peer for
        each other."""
        for _, row in rows:
            figures = row(replace(self.pair, turns=1, fresh=True))
            self.report.add([replace(figure, row=f"fresh: {figure.row}") for figure in figures])

    def warm(self, rows: Iterable[Row]) -> None:
        """Run the rows on both and drop the figures; repeat on the peer until its compilers have little left to do."""
        rows = list(rows)
        begun = time.monotonic()
        warm = Pair(self.pair.ours, self.pair.peer, 1, WARM_SECONDS, 0.2)
        share = 1.0
        while rows and share > COMPILED_SHARE and time.monotonic() - begun < WARM_SECONDS_MAX:
            before = compiler_seconds(self._peer_pids), cpu_seconds(self._peer_pids)
            for _, row in rows:
                row(warm)
            compiled, used = compiler_seconds(self._peer_pids) - before[0], cpu_seconds(self._peer_pids) - before[1]
            share = max(0.0, compiled / used) if used else 0.0     # idle compiler threads may end
            if self.pair.peer is not None:
                warm = Pair(self.pair.peer, None, 1, WARM_SECONDS, 0.2)
        self.console.print(f"warm after {time.monotonic() - begun:.0f} s: the peer's compilers take {share:.0%} of its "
                           "time", highlight=False)

    @property
    def _peer_pids(self) -> list[int]:
        return [] if self.pair.peer is None else self.pair.peer.pids

    def measure(self, rows: Iterable[Row]) -> None:
        for _, row in rows:
            self.report.add(row(self.pair))


@contextmanager
def comparison(name: str, directory: Path, ours: Callable[[Path], Server], peer: Callable[[Path], Server] | None, *,
               quick: bool) -> Iterator[Comparison]:
    """Start a `reported` run of two servers, each with a directory of its own, and stop them at the end. With `quick`
    each row has one short turn."""
    with reported(name, directory, quick=quick) as (console, home, report):
        if quick:
            console.print("quick: nothing is warmed, so the peer's figures mean little")
        def new_pair(name: str) -> Pair:
            return Pair(ours(home / name / "kraft"), None if peer is None else peer(home / name / "kafka"),
                        1 if quick else 3, 1.0 if quick else 2.0, 0.2 if quick else 1.0)

        pair = new_pair("long")
        try:
            yield Comparison(console, pair, report, new_pair)
        finally:
            pair.stop()


@contextmanager
def reported(name: str, directory: Path, *, quick: bool) -> Iterator[tuple[Console, Path, Report]]:
    """Set up a run from the first print to the table, which is shown and saved in every case. Its directory is removed
    at the end."""
    console = Console(width=150)
    home = begin(console, directory, name, touch=not quick)
    begun = time.monotonic()
    report = Report(console)
    try:
        yield console, home, report
    finally:
        shutil.rmtree(home, ignore_errors=True)
        report.show()
        report.save(directory / f"{name}.json")
    console.print(f"{time.monotonic() - begun:.0f} s in all", highlight=False)


def _median(values: list[float]) -> str:
    return number(statistics.median(values)) if values else ""
