"""The quick form of `make backup-kills`: a few kills of backups and restores beside writing clients."""

import os
from pathlib import Path

import pytest

from kraft.client import Cluster
from kraft.runtime.server_node import ServerNode
from tests.backups.kills import MODULES, PROCESSES, Run, Writers, torn
from tests.backups.source import Source, visible
from tests.runtime.nodes import config, with_node

KILLS_MIN = 3


@pytest.fixture(scope="module", autouse=True)
def server() -> None:
    """Start the process that others are forked from: it stays, and is no leak of a test."""
    PROCESSES.set_forkserver_preload(MODULES)
    process = PROCESSES.Process(target=os.getpid)
    process.start()
    process.join()
    process.close()


def test_killed_backups_and_restores(tmp_path: Path) -> None:
    def work(cluster: Cluster, node: ServerNode) -> Run:
        bootstrap = f"127.0.0.1:{node.listeners['PLAINTEXT'].port}"
        Source(cluster).create()
        run = Run(bootstrap, tmp_path, 3)
        writers = Writers(bootstrap, 3)
        writers.start()
        try:
            for name in ("a", "b"):
                assert run.create(name) == []
                assert run.restore(name) == []
        finally:
            writers.stop()
        return run

    run = with_node(config(tmp_path / "source"), work)
    assert run.kills >= KILLS_MIN
    committed = with_node(config(run.target), lambda cluster, _: {
        each: visible(cluster, (each, 0)) for each in ("from", "to")})
    assert torn(committed) == []
