"""The crash kit against small reference logs: the correct one passes, each wrong one is caught."""

from pathlib import Path

import pytest

from kraft.crashes.run import scratch_directory

from .__main__ import damage_run
from .failing import FAULTS, run_failing
from .promises import Batch, Floor, Gap, History, Observed, Progress, judge
from .reference import ReferenceLog
from .runner import Runner
from .subject import DURABILITIES
from .workload import record


def run(subject, durability, seed, bound, steps=30, *, stop_at_broken=False):
    with scratch_directory() as top:
        recording = record(subject, Path(top), durability, seed, steps)
        return Runner(subject, recording, bound=bound, random_count=4, nested=25,
                      stop_at_broken=stop_at_broken).run()


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_careful_log_keeps_its_promises(durability):
    report = run(ReferenceLog(), durability, 1, 400)
    assert report.states >= 300
    assert not report.broken, report.broken[0]
    assert {crash for _, crash in report.tried} == {"killed", "power loss", "power loss in recovery"}


@pytest.mark.parametrize(("flaw", "durability", "seed"), [
    ("acknowledges before the flush", "per-append", 1),
    ("forgets the directory", "page-cache", 1),
    ("forgets the sealed segment", "group-commit", 1),
    ("renames without flush", "group-commit", 2),
    ("deletes before it notes", "per-append", 1),
    ("trusts the tail", "page-cache", 1),
    ("appends behind the tear", "page-cache", 1),
    ("cuts without flush", "page-cache", 3),
    ("skips damage", "page-cache", 1),
])
def test_a_wrong_log_is_caught(flaw, durability, seed):
    report = run(ReferenceLog(flaw), durability, seed, 1_200, steps=40, stop_at_broken=True)
    assert report.broken


@pytest.mark.parametrize("durability", DURABILITIES)
def test_failing_calls_of_a_careful_log(durability):
    report = run_failing(ReferenceLog(), durability, 1, 20, every=3)
    assert not report.broken, report.broken[0]
    assert set(report.tried) == {fault.label for fault in FAULTS}
    assert report.outcomes["refused"] > 50


def test_a_log_that_acknowledges_a_failed_write_is_caught():
    report = run_failing(ReferenceLog("ignores failures"), "per-append", 1, 20, every=5)
    assert any("the fault was not reported" in line for line in report.broken)


def test_a_log_that_cuts_at_damage_is_caught():
    with scratch_directory() as top:
        report = damage_run(ReferenceLog(), Path(top), 1, 10, clean=True).run(every=7)
    assert any("missing without a word" in line for line in report.broken)


def test_one_seed_gives_one_run():
    first, second = (run(ReferenceLog(), "group-commit", 3, 200) for _ in range(2))
    assert first.tried == second.tried
    assert first.generated == second.generated


# --- the judgement itself -------------------------------------------------------------------------------------------

def batch(base, name=b"old"):
    return Batch(base, base, b"%s %d" % (name, base))


@pytest.fixture
def history():
    """Five appends (versions 1 to 5), a truncation to 2 (6), two other appends (7, 8)."""
    history = History()
    for base in range(5):
        history.append([batch(base)])
    history.truncate(2)
    for base in (2, 3):
        history.append([batch(base, b"new")])
    return history


def verdict(history, batches, *, killed=False, floors=(), done=8, begun=8, start=0, end=None, gaps=()):
    seen = Observed(start, batches[-1].last + 1 if end is None else end, batches, list(gaps))
    return judge(history, Progress(begun, done, tuple(floors)), seen, killed=killed)


OLD = [batch(base) for base in range(5)]
NEW = [*OLD[:2], batch(2, b"new"), batch(3, b"new")]


def test_judge_accepts_any_version_after_power_loss_without_floors(history):
    for served in (OLD, OLD[:3], NEW, NEW[:3], OLD[:1]):
        assert verdict(history, served) == []


def test_judge_after_a_kill_wants_the_newest_version(history):
    assert verdict(history, NEW, killed=True) == []
    assert verdict(history, NEW[:3], killed=True, done=7) == []
    assert verdict(history, NEW, killed=True, done=7) == []
    for served in (NEW[:3], OLD):
        assert verdict(history, served, killed=True)


def test_judge_refuses_a_mixture(history):
    assert any("cut off together" in what for what in verdict(history, [*NEW, OLD[4]]))


def test_judge_holds_to_floors(history):
    assert verdict(history, OLD[:2], floors=[Floor(8, 3)])
    assert verdict(history, NEW[:3], floors=[Floor(8, 3)]) == []
    assert verdict(history, OLD, floors=[Floor(6, 0)])              # the truncation was durable
    assert verdict(history, OLD[:2], floors=[Floor(5, 5)]) == []    # the batches that it cut off are not promised


def test_judge_refuses_what_was_never_there(history):
    assert verdict(history, [Batch(0, 0, b"other")])
    assert verdict(history, [*OLD[:2], Batch(2, 2, OLD[3].data)])
    assert verdict(history, NEW, begun=7, done=7)


def test_the_judge_requires_gaps_to_be_reported(history):
    hole = [OLD[0], OLD[2]]
    assert verdict(history, hole)
    assert verdict(history, hole, gaps=[Gap(1, 2)]) == []
    assert verdict(history, OLD[:2], end=4)
    assert verdict(history, [OLD[1], OLD[0]], end=2)


def test_judge_of_the_log_start():
    history = History()
    for base in range(5):
        history.append([batch(base)])
    history.move_start(3)
    assert verdict(history, OLD[3:], killed=True, done=6, begun=6, start=3) == []
    assert verdict(history, OLD, killed=True, done=6, begun=6)
    assert verdict(history, OLD, done=6, begun=6) == []
    assert verdict(history, OLD, done=6, begun=6, floors=[Floor(6, 0)])
    assert verdict(history, OLD[4:], done=6, begun=6, start=4)
