"""`kraft completion`: the scripts, and the answers they ask for."""

import os
import subprocess

import pytest

from kraft.cli.command import COMPLETION_VARIABLE, run
from tests.cli.nodes import END_SECONDS, Tool, command
from tools.tree import ROOT


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"{COMPLETION_VARIABLE}={shell}_complete" in capsys.readouterr().out


def completed(words: str, bootstrap: str) -> list[str]:
    environment = {**os.environ, COMPLETION_VARIABLE: "bash_complete", "COMP_WORDS": words,
                   "COMP_CWORD": str(words.count(" ")), "KRAFT_BOOTSTRAP": bootstrap}
    ended = subprocess.run(command(), cwd=ROOT, env=environment, text=True, capture_output=True, timeout=END_SECONDS,
                           check=True)
    return [line.partition(",")[2] for line in ended.stdout.splitlines() if line]


def test_words_are_completed() -> None:
    assert sorted(completed("kraft topics de", "")) == ["delete", "describe"]


def test_names_are_completed(tool: Tool) -> None:
    tool.json("topics", "create", "name-a", "name-b", "other")
    assert completed("kraft topics delete name-", tool.bootstrap) == ["name-a", "name-b"]
    assert completed("kraft consume name-b name-", tool.bootstrap) == ["name-a", "name-b"]
    assert completed("kraft consume --group none-of-thi", tool.bootstrap) == []
    assert completed("kraft topics delete name-", "127.0.0.1:1") == []
