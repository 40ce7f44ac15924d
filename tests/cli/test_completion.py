"""`kraft completion`: the scripts, and the answers they ask for."""

import os
import subprocess

import pytest

from kraft.cli.command import COMPLETION_VARIABLE, run
from tests.cli.nodes import END_SECONDS, command
from tools.tree import ROOT


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"{COMPLETION_VARIABLE}={shell}_complete" in capsys.readouterr().out


def test_words_are_completed() -> None:
    environment = {**os.environ, COMPLETION_VARIABLE: "bash_complete", "COMP_WORDS": "kraft topics de",
                   "COMP_CWORD": "2"}
    ended = subprocess.run(command(), cwd=ROOT, env=environment, text=True, capture_output=True, timeout=END_SECONDS,
                           check=True)
    assert sorted(ended.stdout.split()) == ["plain,delete", "plain,describe"]
