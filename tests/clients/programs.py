"""Programs around third-party clients: franz-go, Sarama and kafka-go in Go, KafkaJS in JavaScript.

Each library is behind the same two commands (`go/main.go` documents their output), so that one test judges them all.
Their transactions are in `transactional`.
The programs are built from the lock files beside them. Where the language is missing, `require` skips the test and says
why.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest

HERE: Final = Path(__file__).parent
BUILT: Final = HERE / ".cache"
GO_PROGRAM: Final = BUILT / "clients"
JS_PROGRAM: Final = BUILT / "js" / "client.mjs"
BUILD_SECONDS: Final = 600
STOP_SECONDS: Final = 60


class Library(NamedTuple):
    """One client library, and what it can do."""

    name: str
    codecs: tuple[str, ...]
    is_idempotent: bool = True
    """True when a record that it sends again is stored once."""

    def command(self, verb: str, *arguments: str) -> list[str]:
        if self.name == "kafkajs":
            return ["node", str(JS_PROGRAM), verb, *arguments]
        return [str(GO_PROGRAM), verb, self.name, *arguments]


CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
LIBRARIES: Final = (
    Library("franz-go", CODECS),
    Library("sarama", CODECS),
    Library("kafka-go", CODECS, is_idempotent=False),
    Library("kafkajs", ("none", "gzip")),
)


def require(library: Library) -> None:
    """Skip the calling test, visibly, when the library is not available."""
    reason = _javascript() if library.name == "kafkajs" else go_reason()
    if reason is not None:
        pytest.skip(f"needs {library.name}: {reason}")


@functools.cache
def go_reason() -> str | None:
    """Build the Go programs; return the reason for a failure, or None."""
    return _built("go", HERE / "go", "build", "-o", str(GO_PROGRAM), ".")


@functools.cache
def _javascript() -> str | None:
    shutil.copytree(HERE / "js", JS_PROGRAM.parent, dirs_exist_ok=True)
    return _built("npm", JS_PROGRAM.parent, "ci", "--no-audit", "--no-fund", "--ignore-scripts")


def _built(tool: str, directory: Path, *arguments: str) -> str | None:
    """Build; return the reason for a failure, or None."""
    if shutil.which(tool) is None:
        return f"{tool} is not installed"
    done = subprocess.run([tool, *arguments], cwd=directory, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=BUILD_SECONDS)
    return None if done.returncode == 0 else f"{tool} {arguments[0]}: {done.stdout[-500:]}"


class Acknowledged(NamedTuple):
    """Acknowledgement that a producer received."""

    partition: int
    offset: int
    value: int


class Read(NamedTuple):
    """A record as a member of a group read it."""

    partition: int
    offset: int
    key: int
    header: int
    value: int


class Running:
    """A running program. Its output goes to a file, so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        self.process = process
        self._output = output
        self._errors = errors

    @property
    def lines(self) -> list[str]:
        """The whole lines that it has written."""
        text = self._output.read_text()
        return text[:text.rfind("\n") + 1].splitlines()

    def stop(self) -> list[str]:
        """Request a graceful end and wait for it; return its lines."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.wait()

    def wait(self) -> list[str]:
        """Wait until it ends; return its lines."""
        code = self.process.wait(STOP_SECONDS)
        assert code == 0, f"exit code {code}: {self._errors.read_text()[-2000:]}"
        return self.lines


@contextmanager
def running(directory: Path, name: str, command: list[str]) -> Iterator[Running]:
    """Run a program, killed at the end if it still runs."""
    output, errors = directory / f"{name}.out", directory / f"{name}.err"
    with output.open("wb") as out, errors.open("wb") as err, subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=out, stderr=err) as process:
        try:
            yield Running(process, output, errors)
        finally:
            process.kill()


def acknowledged(lines: list[str]) -> list[Acknowledged]:
    return [Acknowledged(*map(int, line.split())) for line in lines]


def reads(lines: list[str]) -> list[Read]:
    return [Read(*map(int, line.split())) for line in lines]
