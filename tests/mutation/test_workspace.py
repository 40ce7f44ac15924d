"""A run over mutants leaves nothing behind, however it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mutation.workspace import LimitError, end_processes, ended_by_signals, run, size_of, workspace
from tools.tree import ROOT

LIVES: str = "import time; print('up', flush=True); time.sleep(600)"
"""A node that a test leaves behind."""
LEAVES: str = f"""
import subprocess, sys, tempfile
node = subprocess.Popen([sys.executable, '-c', {LIVES!r}], start_new_session=True, stdout=subprocess.PIPE)
node.stdout.readline()
with open(tempfile.mkdtemp() + '/log', 'wb') as file:
    file.write(bytes(1 << 20))
print(node.pid, flush=True)
"""
"""A test that writes a file, and ends without its node."""
WAITS: str = LEAVES + "open(sys.argv[1], 'w').write(str(node.pid))\nnode.wait()\n"
RUNS: str = f"""
import os, sys
from pathlib import Path
from tests.mutation.workspace import ended_by_signals, run, workspace
with ended_by_signals(), workspace(Path(sys.argv[1])) as directory:
    run(directory, [sys.executable, '-c', {WAITS!r}, sys.argv[2]], directory, os.environ)
"""


def lives(process: int) -> bool:
    """Return whether a process runs; one that has ended and was not collected does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_files_and_processes_of_a_test_run_are_removed(tmp_path: Path) -> None:
    with workspace(tmp_path) as directory:
        done = run(directory, [sys.executable, "-c", LEAVES], tmp_path, os.environ)
        assert done.returncode == 0
        assert not lives(int(done.stdout))
        assert [each.name for each in directory.iterdir()] == ["owner"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("limits", "message"), [
    ({"bytes_max": 1 << 19}, "bytes were written"), ({"seconds_max": 0}, "takes longer")])
def test_a_test_run_that_exceeds_a_limit_is_ended(tmp_path: Path, limits: dict[str, int], message: str) -> None:
    node = tmp_path / "node"
    with workspace(tmp_path) as directory:
        with pytest.raises(LimitError, match=message):
            run(directory, [sys.executable, "-c", WAITS, str(node)], tmp_path, os.environ, **limits)
        assert [each.name for each in directory.iterdir()] == ["owner"]
    assert not node.exists() or not lives(int(node.read_text()))


def started(top: Path, node: Path) -> "subprocess.Popen[bytes]":
    """Return a run whose test has started a node."""
    os.mkfifo(node)
    process = subprocess.Popen([sys.executable, "-c", RUNS, str(top), str(node)], cwd=ROOT)
    assert lives(int(node.read_text()))
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    top = tmp_path / "top"
    top.mkdir()
    with started(top, tmp_path / "node") as process:
        process.send_signal(number)
        assert process.wait(60) != 0
    assert list(top.iterdir()) == []


def test_the_next_run_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    """It keeps the directory of a run that works."""
    with started(tmp_path, tmp_path / "node") as process:
        process.kill()
        process.wait(60)
    [left] = tmp_path.glob("kraft-mutants-*")
    with workspace(tmp_path) as first:
        assert not left.exists()
        end_processes(left)            # raises when one lives that cannot be killed
        with workspace(tmp_path) as second:
            assert first.exists() and second != first


def test_handlers_of_signals_are_restored() -> None:
    before: Callable[..., object] | int | None = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), ended_by_signals():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_bytes_on_disk_are_counted(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(b"x" * 10_000)
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 30)
    assert 10_000 <= size_of(str(tmp_path)) < 1 << 20
