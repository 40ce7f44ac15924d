"""The page of figures and the README's table say what `docs/figures.json` says."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tools import figures_page
from tools.figures_page import (
    DATA,
    PAGE,
    README,
    Entry,
    Run,
    entries,
    merge,
    page,
    read,
    readme_table,
    saved,
    with_table,
)

PAGE_LINES_MAX = 90
README_ROWS_MAX = 8
CLAIMS = tomllib.loads(figures_page.CLAIMS.read_text())
PAIR = {"row": "Produce", "name": "rate", "unit": "MB/s", "aim": 2.0, "better": "more", "absolute": False,
        "ours": [10.0, 30.0, 20.0], "peers": [20.0, 10.0, 10.0], "ratio": 2.0, "met": True}
LIMITED = {"name": "commit: p50", "unit": "us", "ours": 400.0, "limit": 150.0, "limit_name": "one fdatasync",
           "target": 2.0, "relative": True, "better": "less", "runs": [[400.0, 160.0], [420.0, 140.0], [390.0, 150.0]],
           "note": ""}


def test_page_and_readme_are_current() -> None:
    runs = read()
    assert DATA.read_text() == saved(runs)
    assert PAGE.read_text() == page(runs, CLAIMS)
    assert README.read_text() == with_table(README.read_text(), readme_table(runs, CLAIMS))


def test_sizes() -> None:
    assert PAGE.read_text().count("\n") <= PAGE_LINES_MAX
    assert len(CLAIMS["readme"]) <= README_ROWS_MAX


def test_every_aim_of_the_readme_is_on_the_page() -> None:
    claimed = {(claim["run"], row) for section in CLAIMS["sections"] for claim in section["claims"]
               for row in claim["rows"]}
    assert {(claim["run"], row) for claim in CLAIMS["readme"] for row in claim["rows"]} <= claimed


def test_figures_of_a_comparison_and_of_a_limit() -> None:
    pair, limited = entries([PAIR, LIMITED, {**PAIR, "ours": []}])
    assert pair == Entry("Produce", "rate", "MB/s", 20.0, 10.0, "Kafka", 2.0, 2.0, False, "more")
    assert (limited.row, limited.figure, limited.beside, limited.ratio) == ("commit: p50", "one fdatasync", 150.0, 2.6)
    assert not pair.missed and limited.missed


def claims(**changed: Any) -> dict[str, Any]:
    claim = {"run": "peer", "what": "Produce", "rows": ["Produce"], "figures": ["rate"], **changed}
    return {"head": "# Figures", "readme": [claim],
            "sections": [{"title": "The node", "commands": {"peer": "make bench-peer"}, "claims": [claim]}]}


def test_a_run_replaces_the_earlier_one(tmp_path: Path) -> None:
    report = tmp_path / "peer.json"
    report.write_text(json.dumps([PAIR]))
    old = {"peer": Run("old", "2026-01-01", "0", {}), "engine": Run("other", "2026-01-01", "0", {})}
    runs = merge(old, [report], "a Xeon", "abcdef12", "2026-01-31")
    assert runs["engine"] is old["engine"]
    assert "| Produce | 20 MB/s | 10 MB/s |  | 2 | ≥ 2 |" in page(runs, claims()).split("\n")
    assert "`make bench-peer` of 2026-01-31 at abcdef12, on a Xeon." in page(runs, claims())
    assert readme_table(runs, claims()).endswith("| Produce | 20 MB/s | 10 MB/s |\n")
    path = tmp_path / "figures.json"
    path.write_text(saved(runs))
    assert read(path) == runs


def test_arguments_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "micro.json"
    other.write_text("[]")
    with pytest.raises(SystemExit, match="no run is named 'micro'"):
        merge({"peer": Run("", "", "", {})}, [other], "", "", "")
    with pytest.raises(figures_page.MissingFigureError, match="Produce: peer has no"):
        page({"peer": Run("", "", "", {})}, claims())


def test_a_missed_aim_is_marked_and_a_limit_is_named() -> None:
    [entry] = entries([LIMITED])
    runs = {"peer": Run("", "", "", {(entry.row, entry.figure): entry})}
    text = page(runs, claims(rows=["commit: p50"], figures=["one fdatasync"]))
    assert "| Produce | 400 us |  | 150 us, one fdatasync | 2.6 | ≤ 2 **missed** |" in text
