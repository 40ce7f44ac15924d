"""Compare the micro benchmarks of a run with a saved baseline of the same kind of machine.

    python -m bench.baseline                 # the run in bench/out/micro.json beside its baseline
    python -m bench.baseline --save          # make that run the baseline of this kind of machine

A baseline is the median time of every benchmark, with machine, commit and date: `bench/baselines/<processor>.json`.
The report has the ratio of medians, run to baseline, and names every benchmark beyond `--notable`. It does not judge:
shared machines differ by a fifth from hour to hour, so the exit code is 0 whatever the ratios are.
"""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from bench.machine import OUT, describe

BASELINES = Path(__file__).parent / "baselines"
RUN = OUT / "micro.json"
SECONDS_TO_MICROSECONDS = 1e6


@dataclass(frozen=True)
class Medians:
    """Median seconds of each benchmark, by its full name, and the machine of the measurement."""

    machine: str
    commit: str
    date: str
    seconds: dict[str, float]

    @classmethod
    def of_run(cls, report: dict[str, Any]) -> Medians:
        """Read the report that pytest-benchmark writes with `--benchmark-json`."""
        return cls(describe(), str(report["commit_info"].get("id", ""))[:12], str(report["datetime"])[:10],
                   {each["fullname"].rpartition("/")[2]: each["stats"]["median"] for each in report["benchmarks"]})

    @classmethod
    def read(cls, path: Path) -> Medians:
        return cls(**json.loads(path.read_text()))

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        rounded = {name: float(f"{value:.4g}") for name, value in sorted(self.seconds.items())}
        path.write_text(json.dumps(asdict(self) | {"seconds": rounded}, indent=1) + "\n")


@dataclass(frozen=True)
class Ratio:
    """One benchmark in the run and in the baseline, in seconds."""

    name: str
    run: float
    baseline: float

    @property
    def ratio(self) -> float:
        return self.run / self.baseline


def baseline_path(machine: str) -> Path:
    """Return the file of the baseline for machines with that processor."""
    return BASELINES / (re.sub(r"[^a-z0-9]+", "-", machine.partition(",")[0].lower()).strip("-") + ".json")


def ratios(run: Medians, baseline: Medians) -> list[Ratio]:
    """Return the benchmarks that both have, the largest slowdown first."""
    both = run.seconds.keys() & baseline.seconds.keys()
    found = [Ratio(name, run.seconds[name], baseline.seconds[name]) for name in both]
    return sorted(found, key=lambda each: (-each.ratio, each.name))


def report(run: Medians, baseline: Medians, notable: float, console: Console) -> None:
    """Print the median of all ratios, the benchmarks beyond `notable` either way, and those that only one side has."""
    compared = ratios(run, baseline)
    console.print(f"baseline: commit {baseline.commit} of {baseline.date} on {baseline.machine}", highlight=False)
    if not compared:
        console.print("run and baseline have no benchmark in common")
        return
    median = statistics.median(each.ratio for each in compared)
    console.print(f"{len(compared)} benchmarks compared; median of the ratios, run to baseline: {median:.2f}",
                  highlight=False)
    table = Table(title=f"beyond a factor of {notable:g}", title_justify="left")
    for heading in ("benchmark", "run, us", "baseline, us", "ratio"):
        table.add_column(heading, justify="left" if heading == "benchmark" else "right")
    beyond = [each for each in compared if not 1 / notable <= each.ratio <= notable]
    for each in beyond:
        table.add_row(each.name, f"{each.run * SECONDS_TO_MICROSECONDS:,.3g}",
                      f"{each.baseline * SECONDS_TO_MICROSECONDS:,.3g}", f"{each.ratio:.2f}")
    if beyond:
        console.print(table)
    for label, names in (("new", run.seconds.keys() - baseline.seconds.keys()),
                         ("not in this run", baseline.seconds.keys() - run.seconds.keys())):
        if names:
            console.print(f"{label}: {len(names)}, such as {min(names)}", highlight=False)


@click.command(help=__doc__.partition("\n")[0])
@click.option("--run", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=RUN,
              help="Report of pytest-benchmark.")
@click.option("--save", is_flag=True, help="Make the run the baseline of this kind of machine.")
@click.option("--notable", type=click.FloatRange(min=1, min_open=True), default=1.25, show_default=True,
              help="List benchmarks whose median changed by more than this factor.")
def main(path: Path, save: bool, notable: float) -> None:
    console = Console(width=120)
    run = Medians.of_run(json.loads(path.read_text()))
    saved = baseline_path(run.machine)
    if save:
        run.save(saved)
        console.print(f"saved: {saved.name}, {len(run.seconds)} benchmarks", highlight=False)
    elif saved.exists():
        report(run, Medians.read(saved), notable, console)
    else:
        console.print(f"no baseline for {run.machine.partition(',')[0]}: `make bench-baseline` saves one",
                      highlight=False)


if __name__ == "__main__":
    main()
