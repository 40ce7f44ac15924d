"""The known bugs of compiled code. Runs of the simulator find them."""

from pathlib import Path

import pytest

from kraft.testing.mutants.patches import Patches
from kraft.testing.mutants.registry import BROKER_MUTANTS, TRANSACTION_MUTANTS
from kraft_native.base import mutants
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.facade.log import Log
from kraft_native.partition.partition import Partition
from kraft_native.segment.config import LogConfig


def test_an_unknown_bug_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="name: 'none' is not one of batch-that"):
        mutants.plant("none")


def test_the_simulator_knows_each_bug() -> None:
    planted: list[str] = []

    class Planted(Patches):
        def plant(self, name: str) -> None:
            planted.append(name)

    for mutant in (*BROKER_MUTANTS.values(), *TRANSACTION_MUTANTS.values()):
        patches = Planted()
        try:
            mutant.apply(patches)
        finally:
            patches.undo()
    assert sorted(planted) == sorted(mutants.names())


def test_a_bug_lasts_until_it_is_undone(tmp_path: Path) -> None:
    with Log(tmp_path / "t-0", LogConfig(high_watermark="manual")) as log:
        partition = Partition(log, "t", bytes(15) + b"\1", 0)
        partition.become_leader(3, node_id=1)
        patches = Patches()
        patches.plant("fetch-of-an-earlier-epoch-counts")
        try:
            assert partition.latest(current_leader_epoch=2) == (0, -1, 3)
        finally:
            patches.undo()
        with pytest.raises(Exception, match="requested in epoch 2"):
            partition.latest(current_leader_epoch=2)
