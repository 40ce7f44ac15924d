"""Temporary directory of one run over mutants, and the processes that work in it.

A mutant may write without end, and may leave nodes behind that do. So everything that its tests write is in one
directory, whose size is watched and which is removed after each test run. All processes of a test run are found by a
variable of their environment and killed.

SIGTERM and SIGHUP end the run like Ctrl-C. After a SIGKILL the next run removes what is left.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TextIO

PREFIX: Final = "kraft-mutants-"
LOCK: Final = "owner"
MARK: Final = "KRAFT_MUTANTS_DIRECTORY"
"""Variable of the environment of every process of a test run."""
DATA_BYTES_MAX: Final = 4 << 30
RUN_SECONDS_MAX: Final = 600
WATCH_SECONDS: Final = 0.5
END_SECONDS_MAX: Final = 30


class LimitError(Exception):
    """A test run wrote more, or took longer, than it may."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise SystemExit at SIGTERM and SIGHUP, so that everything is cleaned up. Main thread only."""
    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def workspace(top: Path | None = None) -> Iterator[Path]:
    """A new directory below `top` (default: that of temporary files). Directories of runs that were killed are removed
    first, with their processes."""
    top = Path(tempfile.gettempdir()) if top is None else top
    for abandoned in sorted(top.glob(f"{PREFIX}*")):
        _remove_abandoned(abandoned)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=top) as name:
        directory = Path(name)
        with open(directory / "new", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.rename(directory / "new", directory / LOCK)     # no other run sees it unlocked
            try:
                yield directory
            finally:
                end_processes(directory)


def _remove_abandoned(directory: Path) -> None:
    with suppress(FileNotFoundError), open(directory / LOCK, encoding="ascii") as lock:
        if _is_free(lock):
            end_processes(directory)
            shutil.rmtree(directory)


def _is_free(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def end_processes(directory: Path) -> None:
    """Kill the processes of test runs in this directory, and those that they start meanwhile.

    Raises TimeoutError when one still lives after `END_SECONDS_MAX`.
    """
    deadline = time.monotonic() + END_SECONDS_MAX
    while found := _processes(directory):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {found} do not end")
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def _processes(directory: Path) -> list[int]:
    wanted = f"{MARK}={directory}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):    # it has ended, or is of another user
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def run(directory: Path, command: Sequence[str], cwd: Path, environment: Mapping[str, str], *,
        bytes_max: int = DATA_BYTES_MAX, seconds_max: float = RUN_SECONDS_MAX) -> subprocess.CompletedProcess[str]:
    """Run a command whose temporary files are in `directory`, and remove those files and its processes afterwards.

    Raises LimitError when its files have more than `bytes_max` or it takes longer than `seconds_max`.
    """
    ports = f"kraft-test-ports-{os.getuid()}"       # the counter is shared with test runs of others
    deadline = time.monotonic() + seconds_max
    with tempfile.TemporaryDirectory(prefix="data-", dir=directory) as data:
        os.symlink(Path(tempfile.gettempdir()) / ports, os.path.join(data, ports))
        output = Path(data, "output")
        with output.open("w") as file, subprocess.Popen(
                command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                env={**environment, "TMPDIR": data, MARK: str(directory)}) as process:
            try:
                while not _has_ended(process):
                    if (size := size_of(data)) > bytes_max:
                        raise LimitError(f"{size} bytes were written, {bytes_max} are allowed")
                    if time.monotonic() > deadline:
                        raise LimitError(f"the run takes longer than {seconds_max} s")
            finally:
                end_processes(directory)
        return subprocess.CompletedProcess(command, process.returncode, output.read_text(errors="replace"))


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(WATCH_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def size_of(directory: str) -> int:
    """Return the bytes on disk of all files below a directory in which others work."""
    total = 0
    for path, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
    return total
