"""`docs/figures.md` and the README's table, written from `docs/figures.json`, the figures of the last whole runs.

    python -m tools.figures_page                             write both again

    python -m tools.figures_page bench/out/peer.json ...     first replace the figures of these runs

A file is a run's own JSON, named after the run: `engine`, `peer`, `commit`, `cluster`, `operations`, `failover` or
`tls`. Pass files of this machine and of this commit, or name theirs with `--machine`, `--commit` and `--date`. The
claims of both tables, and where each finds its figures, are in `tools/figures.toml`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tools.tree import ROOT

DATA: Final = ROOT / "docs" / "figures.json"
PAGE: Final = ROOT / "docs" / "figures.md"
README: Final = ROOT / "README.md"
CLAIMS: Final = ROOT / "tools" / "figures.toml"
PEERS: Final = ("Kafka", "etcd")
"""Servers that ours is compared with. Everything else beside a figure is a limit."""
BEGIN: Final = "<!-- figures: python -m tools.figures_page -->\n"
END: Final = "<!-- end of figures -->"


@dataclass(frozen=True)
class Entry:
    """One figure of a run: medians of ours and of what was measured beside it, and the median of their ratios."""

    row: str
    figure: str
    unit: str
    ours: float
    beside: float | None
    beside_name: str
    ratio: float | None
    aim: float | None
    absolute: bool
    better: str

    @property
    def missed(self) -> bool:
        value = self.ours if self.absolute else self.ratio
        if self.aim is None or value is None:
            return False
        return value < self.aim if self.better == "more" else value > self.aim


@dataclass(frozen=True)
class Run:
    """Figures of one run, by row and figure."""

    machine: str
    date: str
    commit: str
    figures: dict[tuple[str, str], Entry]


def rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def of_pair(found: dict[str, Any]) -> Entry | None:
    """An entry of `bench.macro`, which compares two servers; None for a figure that was not measured."""
    if not found["ours"]:
        return None
    beside = statistics.median(found["peers"]) if found["peers"] else None
    return Entry(found["row"], found["name"], found["unit"], statistics.median(found["ours"]), beside,
                 "" if beside is None else "Kafka", found["ratio"], found["aim"], found["absolute"], found["better"])


def of_limit(found: dict[str, Any]) -> Entry:
    """An entry of `bench.engine` and `bench.commit`, whose rows stand beside a limit or a server."""
    runs = found["runs"]
    ratio = statistics.median(ours / limit for ours, limit in runs) if runs else (
        found["ours"] / found["limit"] if found["limit"] else None)
    return Entry(found["name"], found["limit_name"], found["unit"], found["ours"], found["limit"], found["limit_name"],
                 ratio, found["target"], not found["relative"] or found["limit"] is None, found["better"])


def entries(report: list[dict[str, Any]]) -> Iterator[Entry]:
    """Return the figures of the JSON that a bench wrote."""
    for found in report:
        entry = of_pair(found) if "row" in found else of_limit(found)
        if entry is not None:
            yield entry


def read(path: Path = DATA) -> dict[str, Run]:
    return {name: Run(run["machine"], run["date"], run["commit"],
                      {(each["row"], each["figure"]): Entry(**each) for each in run["figures"]})
            for name, run in json.loads(path.read_text()).items()}


def saved(runs: dict[str, Run]) -> str:
    """Return the text of `docs/figures.json`: one line for each figure."""
    parts = []
    for name, run in sorted(runs.items()):
        lines = ",\n".join("  " + json.dumps(asdict(entry) | {key: rounded(getattr(entry, key))
                                                             for key in ("ours", "beside", "ratio")})
                           for entry in run.figures.values())
        head = "".join(f'  "{key}": {json.dumps(getattr(run, key))},\n' for key in ("machine", "date", "commit"))
        parts.append(f' "{name}": {{\n{head}  "figures": [\n{lines}\n  ]\n }}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def number(value: float) -> str:
    """Format with three significant digits, thousands grouped."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def with_unit(value: float | None, unit: str) -> str:
    return "" if value is None else f"{number(value)} {unit.removesuffix(' each')}".strip()


def joined(parts: Iterable[str]) -> str:
    """Return the parts of a cell; nothing when all of them are empty."""
    kept = list(parts)
    return "; ".join(kept) if any(kept) else ""


def aim_text(entry: Entry) -> str:
    if entry.aim is None:
        return ""
    text = f"{'≥' if entry.better == 'more' else '≤'} {with_unit(entry.aim, entry.unit if entry.absolute else '')}"
    return f"{text} **missed**" if entry.missed else text


class MissingFigureError(LookupError):
    """A claim names a figure that its run did not measure."""


def found_entries(runs: dict[str, Run], claim: dict[str, Any]) -> list[Entry]:
    figures = runs[claim["run"]].figures
    keys = [(row, figure) for row in claim["rows"] for figure in claim.get("figures", [""])]
    if missing := [key for key in keys if key not in figures]:
        raise MissingFigureError(f"{claim['what']}: {claim['run']} has no {missing[0]}")
    return [figures[key] for key in keys]


def limit_text(runs: dict[str, Run], claim: dict[str, Any], measured: list[Entry]) -> str:
    """Return the limit that was measured beside the figures, in the same row or in a row of its own."""
    if "limits" in claim:
        limits = found_entries(runs, {**claim, "figures": claim["limits"]})
        return f"{joined(with_unit(each.ours, each.unit) for each in limits)}, in C"
    names = {each.beside_name for each in measured if each.beside_name and each.beside_name not in PEERS}
    if not names:
        return ""
    return joined(with_unit(each.beside, each.unit) for each in measured) + ", " + " and ".join(sorted(names))


def line_of(runs: dict[str, Run], claim: dict[str, Any]) -> str:
    """Return one claim as a row of the page."""
    measured = found_entries(runs, claim)
    peers = joined(with_unit(each.beside, each.unit) if each.beside_name in PEERS else "" for each in measured)
    named = {each.beside_name for each in measured} & set(PEERS) - {"Kafka"}
    cells = (claim["what"], joined(with_unit(each.ours, each.unit) for each in measured),
             peers + "".join(f", {name}" for name in named), limit_text(runs, claim, measured),
             joined("" if each.ratio is None else f"{each.ratio:.2g}" for each in measured),
             joined(aim_text(each) for each in measured))
    return "| " + " | ".join(cells) + " |"


def page(runs: dict[str, Run], claims: dict[str, Any]) -> str:
    """Return the text of `docs/figures.md`."""
    parts = [claims["head"].strip()]
    for section in claims["sections"]:
        sources = [f"`{section['commands'][name]}` of {runs[name].date} at {runs[name].commit}, on {runs[name].machine}"
                   for name in section["commands"]]
        lines = [line_of(runs, claim) for claim in section["claims"]]
        parts += [f"## {section['title']}", "; ".join(sources) + ".",
                  "\n".join(["| what | ours | peer | limit | ratio | aim |", "|---|---|---|---|---|---|", *lines])]
    return "\n\n".join(parts) + "\n"


def readme_table(runs: dict[str, Run], claims: dict[str, Any]) -> str:
    """Return the table of the README: ours and Kafka's."""
    lines = ["| row | kraft | Kafka |", "|---|---|---|"]
    for claim in claims["readme"]:
        measured = found_entries(runs, claim)
        lines.append(f"| {claim['what']} | {joined(with_unit(each.ours, each.unit) for each in measured)} "
                     f"| {joined(with_unit(each.beside, each.unit) for each in measured)} |")
    return "\n".join(lines) + "\n"


def with_table(readme: str, table: str) -> str:
    """Return the README with that table."""
    before, _, rest = readme.partition(BEGIN)
    return before + BEGIN + table + END + rest.partition(END)[2]


def merge(runs: dict[str, Run], paths: Iterable[Path], machine: str, commit: str, date: str,
          claimed: Iterable[str] = ()) -> dict[str, Run]:
    """Return the runs with those of the files in place of earlier ones. A run is known, or one that is claimed."""
    merged = dict(runs)
    known = sorted({*runs, *claimed})
    for path in paths:
        if path.stem not in known:
            raise SystemExit(f"{path}: no run is named {path.stem!r}; known are {', '.join(known)}")
        day = date or time.strftime("%Y-%m-%d", time.gmtime(path.stat().st_mtime))
        merged[path.stem] = Run(machine, day, commit, {
            (each.row, each.figure): each for each in entries(json.loads(path.read_text()))})
    return merged


def this_machine() -> str:
    """Return the processor and the number of processors."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else 'unknown processor'}, {os.cpu_count()} processors"


def this_commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    return done.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--machine", default=this_machine())
    parser.add_argument("--commit", default=this_commit())
    parser.add_argument("--date", default="", help="of the run [default: of the file]")
    options = parser.parse_args()
    claims = tomllib.loads(CLAIMS.read_text())
    runs = merge(read(), options.files, options.machine, options.commit, options.date,
                 [name for section in claims["sections"] for name in section["commands"]])
    try:
        texts = {DATA: saved(runs), PAGE: page(runs, claims),
                 README: with_table(README.read_text(), readme_table(runs, claims))}
    except MissingFigureError as error:
        raise SystemExit(f"{error}. A partial run cannot replace a whole one; nothing was written.") from None
    for path, text in texts.items():
        path.write_text(text)


if __name__ == "__main__":
    main()
