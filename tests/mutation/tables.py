"""The mutants: rules of the specifications (kips.toml) and causes of faults found by use (faults*.toml)."""

import tomllib
from pathlib import Path
from typing import Any, Final

from tests.mutation.kit import Mutant
from tests.test_kips import Row, named, rows

SLOW: Final = ("integration/", "peer/", "cli/", "runtime/", "testing/")
"""Directories of tests that start nodes or simulate: the core's own tests must show a rule without them."""


FAULTS: Final = ("faults.toml", "faults_lines.toml", "faults_cli.toml", "faults_products.toml")


def row_of(kip: str, rule: str) -> Row:
    """The only row of docs/kips.md with this rule. Raises ValueError when there are none or several."""
    found = [row for row in rows() if row.kip == kip and rule in row.rule]
    if len(found) != 1:
        raise ValueError(f"KIP-{kip}: {rule}: {len(found)} rows of docs/kips.md have that rule")
    return found[0]


def tests_of(row: Row) -> tuple[str, ...]:
    """Arguments of pytest: the row's tests, scenarios by name, without slow ones."""
    found = []
    for name in named(row.shown_by):
        if name.endswith(".txt"):
            found.append(f"tests/raft/test_scenarios.py::test_scenario[{name.removesuffix('.txt')}]")
        elif not name.startswith(SLOW):
            found.append(f"tests/{name}")
    return tuple(found)


def _entries(file: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name(file).read_text())["mutant"]
    return entries


def kip_mutants() -> list[Mutant]:
    """Mutants in the order of the specifications; `kip` and `rule` find the row that names the tests."""
    return [Mutant(f"KIP-{kip}: {rule}", tests=tests_of(row_of(kip, rule)), **entry)
            for entry in _entries("kips.toml") for kip, rule in [(entry.pop("kip"), entry.pop("rule"))]]


def fault_mutants() -> list[Mutant]:
    """Mutants in the order of the tables; each entry names its tests."""
    return [Mutant(tests=tuple(f"tests/{name}" for name in entry.pop("tests")), **entry)
            for file in FAULTS for entry in _entries(file)]


TABLES: Final = {"kips": kip_mutants, "faults": fault_mutants}
