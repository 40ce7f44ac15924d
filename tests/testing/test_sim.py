"""The simulator: a few seeds, the same trace for the same seed, and checkers that find what they are for."""

import subprocess
import sys

import pytest

from kraft.raft import following, leading
from kraft.raft.replica import Replica
from kraft.testing.sim.options import SimOptions
from kraft.testing.sim.run import simulate

CALM = SimOptions(safety_ms=15_000, healing_ms=12_000)
ROUGH = SimOptions(
    safety_ms=30_000, latency_ms=30, loss=0.05, duplicates=0.05, flush_ms=20, crash_interval_ms=3_000,
    cut_interval_ms=4_000, pause_interval_ms=10_000, clock_skew=0.05, snapshot_interval_ms=2_000,
    voter_change_interval_ms=3_000, lost_writes=1.0)


def test_nothing_goes_wrong_where_nothing_can() -> None:
    result = simulate(1, CALM)
    assert result.violation is None
    assert result.counts["elections won"] == 1
    assert result.counts["acknowledged"] == result.counts["proposed"] > 100


@pytest.mark.parametrize("seed", range(4))
def test_all_invariants_hold(seed: int) -> None:
    result = simulate(seed, ROUGH)
    assert result.violation is None
    assert result.counts["crashes,"] > 3
    assert result.counts["elections won"] > 1


def test_the_same_seed_is_the_same_run_in_another_process() -> None:
    code = "from tests.testing.test_sim import *; print(simulate(7, ROUGH).trace)"
    out = [subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                          capture_output=True, text=True, check=True).stdout for seed in ("1", "2")]
    assert out[0] == out[1] == simulate(7, ROUGH).trace + "\n"


# --- what is broken is found ------------------------------------------------------------------------------------------


def found(seeds: range) -> str:
    """The first violation over some seeds."""
    results = (simulate(seed, ROUGH) for seed in seeds)
    return next((result.violation for result in results if result.violation), "")


def test_a_leader_that_counts_what_it_has_not_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = leading._update_high_watermark

    def mutant(replica: Replica, leader: object) -> None:
        flushed, replica.flushed = replica.flushed, replica.log.end.offset
        real(replica, leader)
        replica.flushed = flushed

    monkeypatch.setattr(leading, "_update_high_watermark", mutant)
    assert "MajorityReachedHighWatermark" in found(range(3))


def test_a_follower_that_acknowledges_what_it_has_not_flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "is_durable", property(lambda replica: True))
    assert "MajorityReachedHighWatermark" in found(range(3))


def test_a_majority_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leading, "majority_value", lambda values: max(values))
    assert found(range(3))


def test_a_follower_that_does_not_truncate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_cut", lambda replica, diverging: None)
    assert found(range(6))
