"""Each compiled module has a test file of its name, or an entry here with the files that test it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.layers import NATIVE, native_imports, python_imports
from tools.tree import ROOT

TESTS: Final = ROOT / "tests"
# Inner modules, which Python cannot call or which mean nothing without the module that uses them: the files below
# `tests` that test their behaviour.
TESTED_IN: Final[dict[str, tuple[str, ...]]] = {
    "append": ("native/test_log", "native/test_log_machine"),
    "apply": ("native/test_recovery", "native/test_log_machine"),
    "arrow": ("native/test_columns", "native/test_column_encoder"),
    "batch_check": ("native/test_costly_batches",),
    "build_info": ("test_package",),
    "channel": ("native/test_connection",),
    "cleanclose": ("native/test_cleaner_ahead",),
    "cleanfilter": ("native/test_cleaner", "native/test_cleaner_machine"),
    "cleansource": ("native/test_cleaner_ahead",),
    "cleantxns": ("native/test_cleaner_machine",),
    "cleanwriter": ("native/test_cleaner_crash",),
    "coldread": ("native/test_fetch_cold",),
    "column_fill": ("native/test_columns",),
    "config": ("native/test_log",),
    "endpoint": ("native/test_connection_limits", "native/test_slices"),
    "epochcheck": ("native/test_epoch_damage",),
    "fetch_entry": ("native/test_fetch",),
    "fetch_wire": ("native/test_fetch",),
    "foreign": ("native/test_reader",),
    "formatcheck": ("native/test_legacy_log",),
    "frames": ("native/test_connection", "native/test_connection_limits"),
    "indexfile": ("native/test_index",),
    "logcore": ("native/test_log", "native/test_settle"),
    "lookup": ("native/test_log_machine", "native/test_log_golden"),
    "marks": ("native/test_recovery", "native/test_gaps"),
    "outgoing": ("native/test_connection_limits",),
    "produce_wait": ("native/test_produce",),
    "producer_snapshots": ("native/test_producers",),
    "recovery_report": ("native/test_recovery", "native/test_segment_sizes"),
    "replica_wire": ("native/test_replica_fetch",),
    "scan": ("native/test_damage",),
    "segmentfile": ("native/test_segment",),
    "table": ("native/test_partition",),
    "trim": ("native/test_log", "native/test_log_machine"),
    "txncheck": ("native/test_txn_repair",),
}


def compiled() -> list[str]:
    return sorted(path.stem for path in (ROOT / NATIVE).glob("*.pyx"))


def reached_by_module() -> dict[str, set[str]]:
    """Compiled module -> itself and all its parts."""
    direct = {name: {target.removeprefix(f"{NATIVE}.") for suffix in (".pyx", ".pxd")
                     if (source := ROOT / NATIVE / f"{name}{suffix}").exists()
                     for _, target in native_imports(source.read_text()) if target.startswith(f"{NATIVE}.")}
              for name in compiled()}

    def below(name: str) -> set[str]:
        found, due = {name}, [name]
        while due:
            new = direct.get(due.pop(), set()) - found
            found |= new
            due += new
        return found

    return {name: below(name) for name in direct}


def imported_by_test(path: Path, seen: set[Path] | None = None) -> Iterator[str]:
    """The compiled modules that a test file imports, itself or through helpers beside it."""
    seen = seen if seen is not None else set()
    seen.add(path)
    for _, target in python_imports(ast.parse(path.read_text())):
        package, _, rest = target.partition(".")
        helper = ROOT / f"{target.replace('.', '/')}.py"
        if package == NATIVE:
            yield rest.partition(".")[0]
        elif package == "tests" and helper.exists() and helper not in seen:
            yield from imported_by_test(helper, seen)


def untested(modules: list[str], named: set[str], table: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Faults of the table, given the modules and the names of the test files."""
    reached = reached_by_module()
    for module in modules:
        if module not in named and module not in table:
            yield f"{module}: no test_{module}.py, and no entry"
    for module, files in table.items():
        if module not in modules:
            yield f"{module}: no such module"
        elif module in named:
            yield f"{module}: has a test file of its name, and an entry"
        for file in files:
            path = TESTS / f"{file}.py"
            if not path.exists():
                yield f"{module}: {file} does not exist"
            elif not any(module in reached.get(name, ()) for name in imported_by_test(path)):
                yield f"{module}: {file} does not reach it"


def test_every_module_has_its_tests() -> None:
    modules = compiled()
    assert len(modules) > 70
    named = {path.stem.removeprefix("test_") for path in TESTS.glob("*/test_*.py")}
    assert list(untested(modules, named, TESTED_IN)) == []


def test_each_breach_is_found() -> None:
    table = {"scan": ("native/test_scan",), "batch": ("native/test_batch",), "absent": (), "log": ("native/test_crc",)}
    assert list(untested(["scan", "batch", "log", "crc"], {"batch"}, table)) == [
        "crc: no test_crc.py, and no entry",
        "scan: native/test_scan does not exist",
        "batch: has a test file of its name, and an entry",
        "absent: no such module",
        "log: native/test_crc does not reach it",
    ]
