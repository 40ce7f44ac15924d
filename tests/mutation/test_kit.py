"""The code that is taken out fits the sources and the specifications; some of it is taken out here."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutation.kit import Mutant, copied_tree, failing_test, noticed_by
from tests.mutation.tables import fault_mutants, kip_mutants, row_of
from tools.tree import ROOT


def test_there_are_enough_of_every_specification() -> None:
    mutants = kip_mutants()
    assert len(mutants) >= 30
    assert {mutant.name.split(":")[0] for mutant in mutants} == {f"KIP-{kip}" for kip in (497, 595, 631, 642, 996)}


@pytest.mark.parametrize("mutant", [*kip_mutants(), *fault_mutants()], ids=str)
def test_a_mutant_fits(mutant: Mutant) -> None:
    changed = mutant.changed((ROOT / mutant.file).read_text())
    if mutant.file.endswith(".py"):
        ast.parse(changed)             # a file that is no Python proves nothing
    assert mutant.tests
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert f"def {function.partition('[')[0]}(" in (ROOT / file).read_text() if function else (ROOT / file).exists()


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in fault_mutants()]
    assert len(set(names)) == len(names)


def test_values_that_do_not_fit_are_errors() -> None:
    with pytest.raises(ValueError, match="0 rows"):
        row_of("595", "no such rule")
    with pytest.raises(ValueError, match="0 times"):
        kip_mutants()[0].changed("")


def test_missing_code_is_noticed_and_unchanged_code_is_not(tmp_path: Path) -> None:
    mutant = next(each for each in kip_mutants() if "KIP-642: Check whether TargetVoters" in each.name)
    with copied_tree(tmp_path) as tree:
        failed = noticed_by(mutant, tree)
        assert failed is not None
        assert failed.partition("::")[0] in [test.partition("::")[0] for test in mutant.tests]
        assert failing_test(mutant.tests, tree) is None
        with pytest.raises(RuntimeError, match="pytest ended with"):
            noticed_by(replace(mutant, without="no Python"), tree)
    assert list(tmp_path.iterdir()) == []
