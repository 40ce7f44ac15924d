"""The real log in a small, deterministic selection of the states that `make crash` tries."""

from pathlib import Path

import pytest

from kraft.crashes.run import scratch_directory

from .engine import EngineLog
from .failing import run_failing
from .runner import Runner
from .subject import DURABILITIES
from .workload import record


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize(("policy", "seed", "every", "bound"), [
    ("delete", 1, 7, 350),
    ("delete", 4, 7, 350),
    ("compact", 3, 23, 1_000),      # fewer points, but up to the end: most compactions come late in a workload
])
def test_crash_states(durability, policy, seed, every, bound):
    with scratch_directory() as top:
        recording = record(EngineLog(policy), Path(top), durability, seed, 40)
        report = Runner(EngineLog(policy), recording, random_count=3, every=every, nested=40, bound=bound).run()
    assert not report.broken, report.broken[0]
    assert report.states >= 150


@pytest.mark.parametrize("durability", DURABILITIES)
def test_the_same_seed_makes_the_same_system_calls(durability):
    """The bytes are the same too: otherwise a run that found an error cannot be repeated."""
    calls = []
    for _ in range(2):
        with scratch_directory() as top:
            recording = record(EngineLog(), Path(top), durability, 3, 60)
            calls.append([(event.kind, event.path.removeprefix(top), event.offset, event.begun, event.error, event.data)
                          for event in recording.events])
    assert calls[0] == calls[1]
    assert len(calls[0]) > 300


@pytest.mark.parametrize("durability", DURABILITIES)
def test_failing_calls(durability):
    report = run_failing(EngineLog(), durability, 2, 25, every=17)
    assert not report.broken, report.broken[0]
    assert report.outcomes["refused"] >= 15


@pytest.mark.parametrize("durability", DURABILITIES)
def test_failing_compactions(durability):
    report = run_failing(EngineLog("compact"), durability, 1, 25, every=17)
    assert not report.broken, report.broken[0]
    assert report.outcomes["refused"] >= 15
