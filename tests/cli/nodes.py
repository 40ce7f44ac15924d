"""Nodes as users start them: the node's command in a process of its own, the other commands in this one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kraft.cli.command import run
from tools.tree import ROOT

END_SECONDS = 30
# Groups form at once: one consumer waits for no other.
QUICK = ("--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=2")


class Started:
    """A node that serves. `ready` is its ready line, `bootstrap` where clients connect."""

    def __init__(self, process: subprocess.Popen[str], ready: dict[str, Any]) -> None:
        self.process = process
        self.ready = ready
        self.bootstrap = ready["listeners"]["PLAINTEXT"]

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Return its exit code and its standard error."""
        self.process.send_signal(number)
        _, complaints = self.process.communicate(timeout=END_SECONDS)
        return self.process.returncode, complaints


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "kraft", *map(str, arguments)]


@contextmanager
def running(data: Path, *arguments: object, listen: str = "127.0.0.1:0") -> Iterator[Started]:
    """A node on `data`, by default on a port that the system chooses; killed when the test leaves it running."""
    given = ("--listen", listen) if listen else ()
    process = subprocess.Popen(command("server", "start", "--data", data, *given, "--json", *QUICK, *arguments),
                               cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert process.stdout
        line = process.stdout.readline()
        if not line:
            pytest.fail(f"the node did not start: {process.communicate(timeout=END_SECONDS)[1]}")
        yield Started(process, json.loads(line))
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=END_SECONDS)


def refused(*arguments: object) -> tuple[int, str, str]:
    """Return exit code, output and complaints of a command that ends by itself."""
    ended = subprocess.run(command(*arguments), cwd=ROOT, text=True, capture_output=True, timeout=END_SECONDS,
                           check=False)
    return ended.returncode, ended.stdout, ended.stderr


class Tool:
    """The subcommands that query a cluster, run in this process against one node."""

    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = bootstrap
        self.capsys = capsys

    def run(self, *arguments: object) -> tuple[int, str, str]:
        """Return exit code, output and complaints."""
        self.capsys.readouterr()
        code = run([*map(str, arguments), "--bootstrap", self.bootstrap])
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err

    def json(self, *arguments: object) -> list[dict[str, Any]]:
        """Return the objects that a command prints; it must succeed."""
        code, out, complaints = self.run(*arguments, "--json")
        assert (code, complaints) == (0, "")
        return [json.loads(line) for line in out.splitlines()]
