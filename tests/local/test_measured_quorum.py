"""The quorum that bench/commit measures: it starts, commits for its own leader and for clients, and ends."""

import os
from functools import partial
from pathlib import Path

import pytest

from bench.commit import clients
from bench.commit.quorums import KraftQuorum


def test_the_quorum_that_is_measured_commits(tmp_path: Path) -> None:
    quorum = KraftQuorum(tmp_path, 3)
    try:
        quorum.start()
        inside = quorum.measure(100, 4, 0.1)
        assert inside["count"] > 0
        assert inside["p50_us"] > 0
        assert clients.run(partial(clients.FramedClient, quorum.leader_port, bytes(100)), 4, 0.1)["per_s"] > 0
    finally:
        quorum.stop()
    for pid in quorum.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
