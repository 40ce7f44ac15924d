"""Each compiled module of the engine that Python can call has a benchmark of its own."""

import io
import re
from pathlib import Path
from typing import Final

from rich.console import Console

from bench.baseline import Medians, baseline_path, ratios, report

ROOT: Final = Path(__file__).parent.parent
ROW: Final = re.compile(r"^\| (\w+) \| `(\w+)` \| [^|]* \| ([^|]+) \|$", re.MULTILINE)
SERVING: Final = frozenset(("request", "partition", "serve", "share", "net", "bench"))
MEASURED_WITH: Final = {
    "log.append": "log", "columns.encoder": "columns", "columns.reader": "columns",
    "replica.leased_follower": "answers", "segment.producer_snapshots": "producers", "segment.scan": "recovery",
}
NOTHING_TO_TIME: Final = {
    "base.build_info": "constants",
    "base.clock": "the system's clocks, behind one branch",
    "base.mutants": "nothing of it is in a release build",
    "base.errors": "exceptions",
    "base.extras": "imports",
    "file.faults": "only tests use it",
    "segment.config": "read when a log is opened",
    "segment.log_fields": "read when a log is opened",
    "file.buffer": "what others' figures consist of",
    "log.batch_check": "the work of `validate`, elsewhere",
    "log.recovery_report": "what `recovery` found, to be read",
    "log.checkpoint": "waits for the device",
    "replica.replica_wire": "`make bench-cluster` measures followers",
    "replica.replica_fetch": "`make bench-cluster` measures followers",
}


def test_every_module_has_a_benchmark() -> None:
    table = (ROOT / "docs" / "internals" / "engine-modules.md").read_text()
    modules = [f"{package}.{module}" for package, module, public in ROW.findall(table)
               if package not in SERVING and public.strip(" -")]
    assert len(modules) > 30
    missing = [each for each in modules if each not in NOTHING_TO_TIME
               and not (ROOT / "bench/micro" / f"bench_{MEASURED_WITH.get(each, each.split('.')[1])}.py").exists()]
    assert missing == []
    assert set(NOTHING_TO_TIME) | set(MEASURED_WITH) <= set(modules)


def medians(**seconds: float) -> Medians:
    return Medians("Processor X, 2 processors", "abc", "2026-01-31", seconds)


def test_a_run_beside_its_baseline(tmp_path: Path) -> None:
    measured = {"commit_info": {"id": "0123456789abcdef"}, "datetime": "2026-01-31T09:00:00",
                "benchmarks": [{"fullname": "bench/micro/bench_crc.py::test_x", "stats": {"median": 0.00123456}}]}
    run = Medians.of_run(measured)
    assert (run.commit, run.date, run.seconds) == ("0123456789ab", "2026-01-31", {"bench_crc.py::test_x": 0.00123456})
    run.save(tmp_path / "kept" / "x.json")
    assert Medians.read(tmp_path / "kept" / "x.json").seconds == {"bench_crc.py::test_x": 0.001235}
    assert baseline_path("AMD EPYC 9B45 (64-Core), 2 processors").name == "amd-epyc-9b45-64-core.json"


def test_the_slowest_against_its_baseline_is_first_and_what_changed_is_listed() -> None:
    run = medians(same=1.0, slower=3.0, faster=1.0, new=1.0)
    baseline = medians(same=1.0, slower=1.0, faster=2.0, old=1.0)
    found = [(each.name, each.ratio) for each in ratios(run, baseline)]
    assert found == [("slower", 3.0), ("same", 1.0), ("faster", 0.5)]
    out = io.StringIO()
    report(run, baseline, 1.25, Console(file=out, width=120))
    printed = out.getvalue()
    assert "3 benchmarks compared; median of the ratios, run to baseline: 1.00" in printed
    assert "slower" in printed and "faster" in printed and "same" not in printed
    assert "new: 1, such as new" in printed and "not in this run: 1, such as old" in printed
