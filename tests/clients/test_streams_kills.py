"""A few kills; `make streams-kills` is the long form."""

from pathlib import Path

import pytest

from tests.clients.streams_kills import run
from tests.clients.transactional import JAVA, require

pytestmark = pytest.mark.peer
KILLS = 2


def test_the_output_of_a_killed_application_equals_the_input(tmp_path: Path) -> None:
    require(JAVA)
    wrong, streams = run(tmp_path, KILLS, 1)
    assert wrong == ""
    assert sum(count for target, count in streams.kills.items() if target.startswith("application")) == KILLS
