"""Short form of `make fuzz-wire`, and tests that it detects what it watches for."""

from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from kraft.protocol.api_keys import ApiKey
from tests.fuzz_wire.frames import TURN_FRAMES, Corpus, Frame, framed
from tests.fuzz_wire.run import Feeder, Report, fuzz

FRAMES = 4000
IDS = (UUID(int=5), UUID(int=6))
SERVED = {0: (3, 13), 3: (0, 13), 18: (0, 4)}


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Replace the check for leaks: nothing of the engine runs in this process but the feeders, whose sockets close
    when they end."""


def test_a_node_survives(tmp_path: Path) -> None:
    report = fuzz(tmp_path / "data", 1, seconds=60, frames_max=FRAMES)
    assert not report.wrong, report
    assert report.answers["answered"] > report.frames / 4
    assert report.served.keys() == report.announced
    assert {each.listener for each in report.announced} == {"broker", "controller"}


def test_frames_depend_on_seed_and_number_alone() -> None:
    one, other, another = (Corpus(seed, IDS, SERVED) for seed in (3, 3, 4))
    forwards = [one.frame(number) for number in range(200)]
    assert forwards == [other.frame(number) for number in reversed(range(200))][::-1]
    assert forwards != [another.frame(number) for number in range(200)]


def test_each_version_is_used() -> None:
    corpus = Corpus(3, IDS, SERVED)
    served = [(key, version) for key, (low, high) in SERVED.items() for version in range(low, high + 1)]
    first = [corpus.frame(number) for number in range(len(served) * TURN_FRAMES)]
    assert all(frame.intact for frame in first)
    assert Counter((frame.api_key, frame.version) for frame in first) == dict.fromkeys(served, TURN_FRAMES)


def test_a_version_without_an_answer_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.fuzz_wire import run
    feed = run.Feeder._feed

    def deaf(feeder: Feeder, frame: Frame) -> tuple[str, str]:
        return ("closed", "") if (frame.api_key, frame.version) == (ApiKey.METADATA, 9) else feed(feeder, frame)

    monkeypatch.setattr(run.Feeder, "_feed", deaf)
    report = fuzz(tmp_path / "data", 1, seconds=60, frames_max=FRAMES)
    assert len(report.wrong) == 1
    assert "listener='broker', api='Metadata', version=9" in report.wrong[0]


@pytest.mark.parametrize(("reply", "what"), [
    (b"\0\0\0\7", "cannot be read"), (b"\0\0\0\x08" + bytes(30), "correlation id 8"), (b"", "cannot be read")])
def test_a_wrong_answer_is_seen(reply: bytes, what: str) -> None:
    feeder = Feeder.__new__(Feeder)
    assert what in feeder._examine(Frame(framed(b""), ApiKey.METADATA, 4, 7, intact=True), reply)
    assert feeder._examine(Frame(framed(b""), ApiKey.METADATA, 4, 7, intact=False), reply) == ""


def test_a_dead_node_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill a node under the feeders."""
    from tests.fuzz_wire import run
    check = run._check

    def kill_first(node: run.NodeProcess, report: Report, feeders: list[Feeder]) -> None:
        node.kill()
        check(node, report, feeders)

    monkeypatch.setattr(run, "_check", kill_first)
    report = fuzz(tmp_path / "data", 1, seconds=5, frames_max=50)
    assert any("died" in each or "nobody listens" in each for each in report.wrong)
