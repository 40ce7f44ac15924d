"""The exit of the `kraft` command: versions, closed pipes, Ctrl-C, errors in one line."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kraft import __version__
from kraft.cli.command import run
from kraft.cli.progress import LONG_WORK_BYTES, progress_bar
from kraft_native.base import crc
from tests.cli.partitions import PartitionMaker
from tools.tree import ROOT


def start(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "kraft", *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **options)


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """More output than a pipe holds."""
    made = PartitionMaker(tmp_path / "long-0")
    for _ in range(200):
        made.records(*[bytes(100)] * 100)
    return made.directory


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    text = capsys.readouterr().out
    assert f"kraft {__version__}\n" in text
    assert " build, GCC" in text
    assert f"crc32c: {crc.kernel_name()} (of " in text


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "log" in capsys.readouterr().out
    assert run(["log", "--help"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("dump", "stat", "verify"))


def test_a_reader_that_disconnects(long_log: Path) -> None:
    with start("log", "dump", "--json", long_log) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline().startswith(b'{"offset":0,')
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_a_reader_that_never_was(long_log: Path) -> None:
    """Already the first write fails, and it happens only at the very end."""
    for arguments in (["log", "stat", long_log], ["--version"], ["log", "--help"]):
        reading, writing = os.pipe()
        os.close(reading)
        process = subprocess.run([sys.executable, "-m", "kraft", *map(str, arguments)], cwd=ROOT, stdout=writing,
                                 stderr=subprocess.PIPE, check=False, timeout=60)
        os.close(writing)
        assert (process.returncode, process.stderr) == (141, b""), arguments


def hear_ctrl_c() -> None:
    """Restore the effect of Ctrl-C, which background jobs of a shell ignore, as do their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c(long_log: Path) -> None:
    with start("log", "dump", "--json", long_log, preexec_fn=hear_ctrl_c) as process:
        assert process.stdout
        assert process.stderr
        # It blocks in a write now: the pipe is full, as nobody reads.
        assert process.stdout.readline().startswith(b'{"offset":0,')
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(60) == 130


def test_ctrl_c_while_a_log_is_verified(tmp_path: Path) -> None:
    made = PartitionMaker(tmp_path / "damaged-0")
    for _ in range(2_000):
        made.records(b"a")
    log = made.path(".log")
    data = bytearray(log.read_bytes())
    size = len(data) // 2_000
    for position in range(size - 1, len(data), 2 * size):       # every second one: between them are sound ones
        data[position] ^= 0x10
    log.write_bytes(data)
    with start("log", "verify", made.directory, preexec_fn=hear_ctrl_c) as process:
        assert process.stdout
        assert process.stderr
        # It prints more than the pipe holds, and blocks in a write.
        assert process.stdout.readline().startswith(b"damaged: ")
        process.send_signal(signal.SIGINT)
        assert b"1000 damages" not in process.stdout.read()
        assert process.stderr.read() == b""
        assert process.wait(60) == 130


def test_an_error_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = PartitionMaker(tmp_path / "topic-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("7\n")
    assert run(["log", "stat", str(made.directory)]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("kraft: ")
    assert printed.count("\n") == 1


@pytest.mark.parametrize(("hidden", "command", "message"), [
    ("pyarrow", "export", "kraft: pyarrow is not installed: pip install 'kraft[pipeline]'"),
    ("kraft.pipeline.digest", "audit",
     "ModuleNotFoundError: import of kraft.pipeline.digest halted; None in sys.modules"),
])
def test_a_missing_package_is_one_line(long_log: Path, tmp_path: Path, hidden: str, command: str, message: str) -> None:
    """A missing module of ours is a broken installation."""
    arguments = {"export": ["--from", str(long_log.parent), str(tmp_path / "table")], "audit": [str(long_log)]}[command]
    program = (f"import sys; sys.modules[{hidden!r}] = None; from kraft.cli.command import run; "
               "sys.exit(run(sys.argv[1:]))")
    done = subprocess.run([sys.executable, "-c", program, "pipeline", command, *arguments], cwd=ROOT, text=True,
                          capture_output=True, check=False)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, message)
    assert (len(done.stderr.splitlines()) == 1) == (hidden == "pyarrow")


def test_progress_is_for_terminals_and_long_work(monkeypatch: pytest.MonkeyPatch,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("reading", 10 * LONG_WORK_BYTES) as progress:
        progress(1)
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("reading", LONG_WORK_BYTES - 1) as progress:
        progress(1)
    assert capsys.readouterr().err == ""
    with progress_bar("reading", LONG_WORK_BYTES) as progress:
        progress(LONG_WORK_BYTES)
        print("a line")
    printed = capsys.readouterr()
    assert "reading" in printed.err and printed.out == "a line\n"
