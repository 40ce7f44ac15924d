"""Each compiled module has a test file of its name and package, or an entry here with the files that test it."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.layers import NATIVE, compiled_modules, native_graph, python_imports
from tools.tree import ROOT

TESTS: Final = ROOT / "tests"
# Inner modules, which Python cannot call or which mean nothing without the module that uses them: the files below
# `tests` that test their behaviour.
TESTED_IN: Final[dict[str, tuple[str, ...]]] = {
    "base.build_info": ("test_package",),
    "base.fault": ("native/columns/test_reader", "native/batch/test_batch"),
    "columns.arrow": ("native/columns/test_reader", "native/columns/test_encoder"),
    "columns.fill": ("native/columns/test_reader",),
    "segment.config": ("native/facade/test_log",),
    "segment.log_fields": ("native/facade/test_log",),
    "segment.epoch_check": ("native/log/test_epoch_damage",),
    "segment.index_file": ("native/segment/test_index",),
    "segment.producer_snapshots": ("native/segment/test_producers",),
    "segment.scan": ("native/log/test_damage",),
    "segment.segment_file": ("native/segment/test_segment",),
    "log.append": ("native/facade/test_log", "native/facade/test_log_machine"),
    "log.apply": ("native/log/test_recovery", "native/facade/test_log_machine"),
    "log.batch_check": ("native/log/test_costly_batches",),
    "log.core": ("native/facade/test_log", "native/log/test_settle"),
    "log.foreign": ("native/facade/test_reader",),
    "log.format_check": ("native/log/test_legacy_log",),
    "log.lookup": ("native/facade/test_log_machine", "native/facade/test_log_golden"),
    "log.marks": ("native/log/test_recovery", "native/log/test_gaps"),
    "log.replaced_files": ("native/compact/test_cleaner_ahead",),
    "log.trim": ("native/facade/test_log", "native/facade/test_log_machine"),
    "log.txn_check": ("native/log/test_txn_repair",),
    "compact.filter": ("native/compact/test_cleaner", "native/compact/test_cleaner_machine"),
    "compact.source": ("native/compact/test_cleaner_ahead",),
    "compact.txns": ("native/compact/test_cleaner_machine",),
    "compact.writer": ("native/compact/test_cleaner_crash",),
    "request.endpoint": ("native/net/test_connection_limits", "native/request/test_slices"),
    "partition.cold_read": ("native/serve/test_fetch_cold",),
    "partition.table": ("native/partition/test_partition",),
    "partition.verifications": ("native/partition/test_markers", "native/serve/test_verification"),
    "serve.fetch_entry": ("native/serve/test_fetch",),
    "serve.fetch_wire": ("native/serve/test_fetch",),
    "serve.produce_wire": ("native/serve/test_produce",),
    "share.partitions": ("native/share/test_request",),
    "share.reading": ("native/share/test_request",),
    "share.sessions": ("native/share/test_request",),
    "share.wire": ("native/share/test_request",),
    "net.channel": ("native/net/test_connection",),
    "net.frames": ("native/net/test_connection", "native/net/test_connection_limits"),
    "net.tls_session": ("native/net/test_tls", "native/net/test_openssl"),
    "net.restraints": ("native/net/test_connection_limits", "runtime/net/test_sasl"),
    "net.outgoing": ("native/net/test_connection_limits",),
    "replica.replica_wire": ("native/replica/test_replica_fetch",),
}


def reached_by_module() -> dict[str, set[str]]:
    """Compiled module -> itself and all its parts."""
    direct = native_graph()

    def below(name: str) -> set[str]:
        found, due = {name}, [name]
        while due:
            new = set(direct.get(due.pop(), ())) - found
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
            yield ".".join(rest.split(".")[:2])
        elif package == "tests" and helper.exists() and helper not in seen:
            yield from imported_by_test(helper, seen)


def untested(modules: list[str], named: set[str], table: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Faults of the table, given the modules and the names of the test files."""
    reached = reached_by_module()
    for module in modules:
        if module not in named and module not in table:
            yield f"{module}: no file for its tests, and no entry"
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
    modules = sorted(compiled_modules())
    assert len(modules) > 70
    named = {f"{path.parent.name}.{path.stem.removeprefix('test_')}" for path in TESTS.glob("native/*/test_*.py")}
    assert list(untested(modules, named, TESTED_IN)) == []


def test_each_breach_is_found() -> None:
    table = {"segment.scan": ("native/test_scan",), "batch.batch": ("native/batch/test_batch",), "base.none": (),
             "facade.log": ("native/base/test_crc",)}
    assert list(untested(["segment.scan", "batch.batch", "facade.log", "base.crc"], {"batch.batch"}, table)) == [
        "base.crc: no file for its tests, and no entry",
        "segment.scan: native/test_scan does not exist",
        "batch.batch: has a test file of its name, and an entry",
        "base.none: no such module",
        "facade.log: native/base/test_crc does not reach it",
    ]
