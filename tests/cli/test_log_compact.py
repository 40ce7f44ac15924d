"""`kraft log compact`: the latest record of each key remains, nothing else changes, and nobody else is disturbed."""

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraft import Log, LogDir
from kraft.cli.command import run
from tests.golden import golden, needs_golden


def dumped(directory: Path, capsys: pytest.CaptureFixture[str]) -> list[dict]:
    capsys.readouterr()
    assert run(["log", "dump", "--json", str(directory)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Ten keys, each written many times."""
    made = tmp_path / "keys-0"
    with Log(made) as log:
        for number in range(500):
            log.append_record(b"value %d" % number, b"key %d" % (number % 10))
    return made


def test_the_latest_of_each_key(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    latest = dumped(directory, capsys)[-10:]
    assert run(["log", "compact", "--roll", str(directory)]) == 0
    assert "500 records read, 10 kept" in capsys.readouterr().out
    assert dumped(directory, capsys) == latest
    assert run(["log", "verify", str(directory)]) == 0


def test_the_active_segment_stays(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = dumped(directory, capsys)
    assert run(["log", "compact", "--json", str(directory)]) == 0
    assert json.loads(capsys.readouterr().out)["records_read"] == 0
    assert dumped(directory, capsys) == before


def test_ctrl_c(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the middle of the work, which reports every 16 MiB: the log is whole, and the next run finishes it."""
    directory = tmp_path / "large-0"
    with Log(directory) as log:
        for number in range(40):
            log.append_record(b"%d" % number + bytes(1_000_000), b"key %d" % (number % 2))
    before = [record["offset"] for record in dumped(directory, capsys)]

    @contextmanager
    def progress_bar(_what: str, _total_bytes: int) -> Iterator[Callable[[int], None]]:
        yield lambda _: signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as pressed:
        pressed.setattr("kraft.cli.log.progress_bar", progress_bar)
        assert run(["log", "compact", "--roll", str(directory)]) == 130
    assert capsys.readouterr() == ("", "")
    assert [record["offset"] for record in dumped(directory, capsys)] == before
    assert run(["log", "verify", str(directory)]) == 0
    assert run(["log", "compact", str(directory)]) == 0
    assert [record["offset"] for record in dumped(directory, capsys)] == before[-2:]


def test_a_log_in_use_is_refused(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Log(directory):
        assert run(["log", "compact", str(directory)]) == 1
    assert "another" in capsys.readouterr().err


@needs_golden
def test_kafkas_log_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Compact through the log directory: its checkpoints stay true, its other partitions are not touched."""
    top = tmp_path / "data"
    shutil.copytree(golden("log", "data"), top)
    others = {path: path.read_bytes() for path in top.glob("plain-0/*")}
    before = {record["key"]: record for record in dumped(top / "delrec-0", capsys)}
    assert run(["log", "compact", "--roll", str(top / "delrec-0")]) == 0
    after = dumped(top / "delrec-0", capsys)
    assert after == sorted(before.values(), key=lambda record: record["offset"])
    assert run(["log", "verify", str(top / "delrec-0")]) == 0
    assert {path: path.read_bytes() for path in top.glob("plain-0/*")} == others
    capsys.readouterr()
    with LogDir(top):
        assert run(["log", "compact", str(top / "delrec-0")]) == 1
    assert "another process" in capsys.readouterr().err
