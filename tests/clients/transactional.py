"""Programs around transactional producers of others: franz-go and Sarama in Go, Kafka's own in Java.

They carry out the commands that `go/transactions.go` documents, so that one test, and one campaign, drives them all.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.clients.programs import BUILD_SECONDS, GO_PROGRAM, HERE, go_reason
from tests.peer.kafka import HERE as LOGGING
from tests.peer.kafka import QUICK_START, classpath, missing

JAVA: Final = "java"
FRANZ_GO: Final = "franz-go"
PRODUCERS: Final = (JAVA, FRANZ_GO, "sarama", "sarama-sync")
WITH_SESSIONS: Final = (JAVA, FRANZ_GO)
"""Producers that have a consumer whose offsets they commit."""
JAVA_SOURCES: Final = HERE / "java"
FLINK_SOURCES: Final = HERE / "flink"
ANSWER_SECONDS: Final = 120.0
ENDED: Final = "ended"


def reason_against(name: str) -> str | None:
    """Return why the program of that producer cannot be run, or None."""
    return java_reason() if name == JAVA else go_reason()


def require(name: str) -> None:
    """Skip the calling test, visibly, when the producer is not available."""
    if (reason := reason_against(name)) is not None:
        pytest.skip(f"needs {name}: {reason}")


@functools.cache
def java_reason(directory: Path = JAVA_SOURCES) -> str | None:
    """Compile the Java programs of a directory with its `pom.xml`; return the reason for a failure, or None."""
    if (reason := missing(directory)) is not None:
        return reason
    if shutil.which("javac") is None:
        return "javac is not installed"
    done = subprocess.run(["javac", "-nowarn", "-d", str(_classes(directory)), "-cp", classpath(directory),
                           *map(str, directory.glob("*.java"))],
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=BUILD_SECONDS)
    return None if done.returncode == 0 else f"javac: {done.stdout[-500:]}"


def _classes(directory: Path) -> Path:
    return directory / ".cache" / "classes"


def java_command(main_class: str, *arguments: str, heap: str = "256m", level: str = "off",
                 directory: Path = JAVA_SOURCES) -> list[str]:
    """Return the command of a compiled Java program. `level`: of its log, on standard output."""
    return ["java", f"-Xmx{heap}", *QUICK_START, f"-Dpeer.level={level}", "-cp",
            f"{LOGGING}:{_classes(directory)}:{classpath(directory)}", main_class, *arguments]


class LostError(Exception):
    """The producer cannot continue."""


class EndedError(LostError):
    """The program has ended, or does not answer."""


class AbortError(Exception):
    """The transaction has to be aborted."""


class Input(NamedTuple):
    """A record that the program has consumed."""

    topic: str
    partition: int
    offset: int
    value: bytes


class Program:
    """A running program. `stored` receives the number and offset of each acknowledged record, in a thread of its
    own."""

    def __init__(self, name: str, bootstrap: str, stored: Callable[[int, int], None]) -> None:
        command = (java_command("Transactions", bootstrap) if name == JAVA
                   else [str(GO_PROGRAM), "transactions", name, bootstrap])
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True)
        self._stored = stored
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                words = line.split()
                if words[0] == "stored":
                    self._stored(int(words[1]), int(words[2]))
                else:
                    self._answers.put(line.rstrip())
        self._answers.put(ENDED)

    def call(self, *words: object) -> list[Input]:
        """Carry out a command. Raises `LostError` and `AbortError`."""
        self._write(*words)
        try:
            kind, _, text = self._answers.get(timeout=ANSWER_SECONDS).partition(" ")
        except queue.Empty:
            raise EndedError(f"no answer to {words[0]} in {ANSWER_SECONDS:.0f} s") from None
        if kind == "abort":
            raise AbortError(text)
        if kind == "lost":
            raise LostError(text)
        if kind == ENDED:
            raise EndedError("the program has ended")
        found = [each.split(":") for each in text.split()]
        return [Input(topic, int(partition), int(offset), bytes.fromhex(value))
                for topic, partition, offset, value in found]

    def send(self, number: int, topic: str, partition: int, value: bytes) -> None:
        """Send a record; `number` comes back with its offset."""
        self._write("send", number, topic, partition, value.hex())

    def _write(self, *words: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise EndedError("the program has ended") from error

    def kill(self) -> None:
        """End the program with kill -9."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):      # it may hold a part of a command
            self._process.stdin.close()


@contextlib.contextmanager
def program(name: str, bootstrap: str, stored: Callable[[int, int], None] = lambda number, offset: None,
            ) -> Iterator[Program]:
    """Run the program of a producer; it is killed at the end."""
    found = Program(name, bootstrap, stored)
    try:
        yield found
    finally:
        found.kill()
