"""`kraft completion`: the scripts, and the answers that they request."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from kraft.cli.command import COMPLETION_VARIABLE, run
from tests.cli.nodes import END_SECONDS, Tool, command
from tools.tree import ROOT

# One line that a user runs once, and the calls of the shell when it completes a word. Zsh's own functions for that work
# only while somebody types: here they are replaced by ones that print their arguments.
DIALOGUES = {
    "bash": """
        eval "$(kraft completion bash)"
        completer=$(complete -p kraft); completer=${completer##*-F }; completer=${completer%% *}
        COMP_WORDS=(kraft topics de) COMP_CWORD=2
        $completer kraft de topics
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": """
        compdef() { completer=$1 }
        _describe() { print -rl -- ${(P)3} }
        eval "$(kraft completion zsh)"
        words=(kraft topics de) CURRENT=3
        $completer
    """,
    "fish": """
        kraft completion fish | source
        complete --do-complete 'kraft topics de'
    """,
}
WITHOUT_FILES_OF_THE_USER = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}


@pytest.mark.parametrize("shell", DIALOGUES)
def test_a_shell_completes_a_command(shell: str, tmp_path: Path) -> None:
    if (program := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")
    kraft = tmp_path / "kraft"
    kraft.write_text(f'#!/bin/sh\nexec {shlex.join(command())} "$@"\n')
    kraft.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    ended = subprocess.run([program, WITHOUT_FILES_OF_THE_USER[shell], "-c", DIALOGUES[shell]], cwd=ROOT, text=True,
                           env=environment, capture_output=True, timeout=END_SECONDS, check=True)
    assert ended.stderr == ""
    words = [line.replace("\t", ":").partition(":")[0] for line in ended.stdout.splitlines()]
    assert sorted(words) == ["delete", "describe"]


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
