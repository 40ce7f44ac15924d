"""A node as a process."""

import asyncio
import gc
import logging
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from kraft.config.node_config import NodeConfig
from kraft.runtime import process
from kraft.runtime.any_node import AnyNode
from kraft.runtime.process import NodeFailedError, run_node
from tests.runtime.nodes import config

GIVE_UP_SECONDS = 60
PROGRAM = """
import gc, os, signal, sys
from pathlib import Path
from kraft.runtime.process import run_node
from tests.runtime.nodes import config

def ready(node):
    print(gc.get_freeze_count(), gc.isenabled())
    os.kill(os.getpid(), signal.SIGTERM)

run_node(config(Path(sys.argv[1])), ready)
"""


class SlowNode:
    """A node whose start never ends."""

    cluster_id, listeners = "", {}

    def __init__(self, config: NodeConfig) -> None:
        self.config = config

    async def start(self) -> None:
        await asyncio.Event().wait()

    async def run(self) -> None:
        raise AssertionError("it did not start")

    def stop(self) -> None:
        """Do nothing: the node has nothing to stop."""

    def reload(self) -> None:
        """Do nothing: the node has no files that may change."""


def test_a_start_that_takes_too_long_is_given_up(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Settings without effect are logged before."""
    monkeypatch.setattr(process, "make_node", SlowNode)
    monkeypatch.setattr(gc, "disable", lambda: None)
    with caplog.at_level(logging.INFO), pytest.raises(NodeFailedError, match="did not start within 50 ms"):
        run_node(config(tmp_path, server_max_startup_time_ms="50", num_io_threads="16",
                        share_coordinator_threads="1"), pytest.fail)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, "what it sent would be swallowed"
    reported = {line.message.partition(":")[0]: line.levelname for line in caplog.records
                if "without effect" in line.message}
    assert reported == {"num.io.threads": "WARNING", "share.coordinator.threads": "WARNING"}


class FaultyNode(AnyNode):
    """A node with a timer that fails while it serves."""

    @property
    def server(self) -> NoReturn:
        raise AssertionError("it has no listener")

    async def _start(self) -> None:
        asyncio.get_running_loop().call_later(0, self._tick)

    def _tick(self) -> None:
        raise LookupError("the timer is not set again")

    async def read_metrics(self, requested_s: float) -> NoReturn:
        raise AssertionError(requested_s)


def test_a_callback_that_fails_stops_the_node(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(process, "make_node", FaultyNode)
    monkeypatch.setattr(gc, "disable", lambda: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    with pytest.raises(NodeFailedError, match="the node stopped: LookupError: the timer is not set again"):
        run_node(config(tmp_path), lambda node: asyncio.get_running_loop().call_later(GIVE_UP_SECONDS, node.stop))
    assert any("Exception in callback" in line.message for line in caplog.records)


@pytest.mark.parametrize("context", [
    {"message": "Fatal error on transport", "exception": ValueError("malformed"), "transport": None},
    {"message": "Exception in callback connection_made()", "exception": OSError("no descriptors"), "handle": None}])
def test_an_error_of_a_connection_does_not_stop_the_node(
        tmp_path: Path, caplog: pytest.LogCaptureFixture, context: dict[str, object]) -> None:
    async def run() -> None:
        node = FaultyNode(config(tmp_path))
        process._failed_in(node, asyncio.get_running_loop(), context)
        assert node.failure is None and not node.stopping
    asyncio.run(run())
    assert caplog.records


def test_objects_of_the_start_are_no_garbage(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "data")], check=True, capture_output=True,
                          text=True, timeout=120)
    frozen, automatic = done.stdout.split()
    assert int(frozen) > 10_000
    assert automatic == "False", "a collection examines every element of the requests in progress"
    files = [*(tmp_path / "data").rglob("*.log"), *(tmp_path / "data").rglob("quorum-state")]
    assert files
    assert not any(path.stat().st_mode & 0o007 for path in files), "not for other accounts"
