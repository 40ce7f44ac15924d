"""The rules that are taken out fit the code and the specifications; one of them is taken out here."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.kip_mutants.mutants import Mutant, copied_tree, is_noticed, read_mutants
from tools.tree import ROOT


def test_there_are_enough_of_every_specification() -> None:
    mutants = read_mutants()
    assert len(mutants) >= 30
    assert {mutant.kip for mutant in mutants} == {"497", "595", "631", "642", "996"}


@pytest.mark.parametrize("mutant", read_mutants(), ids=str)
def test_a_mutant_fits(mutant: Mutant) -> None:
    assert mutant.changed((ROOT / mutant.file).read_text())
    assert mutant.tests()


def test_what_does_not_fit_is_an_error() -> None:
    mutant = read_mutants()[0]
    with pytest.raises(ValueError, match="0 rows"):
        replace(mutant, rule="no such rule").row()
    with pytest.raises(ValueError, match="0 times"):
        mutant.changed("")


def test_a_missing_rule_is_noticed_and_an_unchanged_one_is_not(tmp_path: Path) -> None:
    mutant = next(each for each in read_mutants() if each.kip == "642" and "matches that from" in each.rule)
    with copied_tree(tmp_path) as tree:
        assert is_noticed(mutant, tree)
        assert not is_noticed(replace(mutant, without=mutant.code), tree)
        with pytest.raises(RuntimeError, match="pytest ended with"):
            is_noticed(replace(mutant, without="no Python"), tree)
    assert list(tmp_path.iterdir()) == []
