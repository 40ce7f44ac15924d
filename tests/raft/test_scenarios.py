"""Every scenario file describes what happens; see `tests/raft/scenario.py`."""

import re
from pathlib import Path

import pytest

from tests.raft.scenario import Story, files, played


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    text = path.read_text()
    assert played(text) == text


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_names_the_sentence_it_shows(path: Path) -> None:
    assert re.match(r"# (KIP-\d+|Raft|KAFKA-\d+|Redpanda)", path.read_text())


def test_a_wrong_line_is_found() -> None:
    text = "quorum 1 2 3\n----\n\ntime-out 1\n----\n1 becomes role=Leader\n"
    assert played(text) != text


def test_commands_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="unknown command"):
        Story().run("frobnicate 1")
