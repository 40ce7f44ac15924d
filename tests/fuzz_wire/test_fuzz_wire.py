"""The short form of `make fuzz-wire`; and that what it watches for is seen."""

from pathlib import Path
from uuid import UUID

import pytest

from tests.fuzz_wire.frames import Corpus, Frame, framed
from tests.fuzz_wire.run import Feeder, Report, fuzz

FRAMES = 4000
IDS = (UUID(int=5), UUID(int=6))


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Nothing of the engine runs in this process but in its feeders, whose sockets close when they end."""


def test_a_node_survives(tmp_path: Path) -> None:
    report = fuzz(tmp_path / "data", 1, seconds=20, frames_max=FRAMES)
    assert not report.wrong, report
    assert report.answers["answered"] > report.frames / 4
    assert len(report.served) > 30


def test_frames_depend_on_seed_and_number_alone() -> None:
    one, other, another = (Corpus(seed, IDS, frozenset({0, 1, 3, 18})) for seed in (3, 3, 4))
    forwards = [one.frame(number) for number in range(200)]
    assert forwards == [other.frame(number) for number in reversed(range(200))][::-1]
    assert forwards != [another.frame(number) for number in range(200)]


@pytest.mark.parametrize(("reply", "what"), [
    (b"\0\0\0\7", "cannot be read"), (b"\0\0\0\x08" + bytes(30), "correlation id 8"), (b"", "cannot be read")])
def test_a_wrong_answer_is_seen(reply: bytes, what: str) -> None:
    feeder = Feeder.__new__(Feeder)
    assert what in feeder._examine(Frame(framed(b""), 3, 4, 7, intact=True), reply)
    assert feeder._examine(Frame(framed(b""), 3, 4, 7, intact=False), reply) == ""


def test_a_dead_node_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that is killed under the feeders."""
    from tests.fuzz_wire import run
    check = run._check

    def kill_first(node: run.NodeProcess, report: Report, feeders: list[Feeder]) -> None:
        node.kill()
        check(node, report, feeders)

    monkeypatch.setattr(run, "_check", kill_first)
    report = fuzz(tmp_path / "data", 1, seconds=5, frames_max=50)
    assert any("died" in each or "nobody listens" in each for each in report.wrong)
