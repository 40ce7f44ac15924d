"""`kraft cluster up` as a user starts it."""

import json
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kraft.client import Cluster
from tests.cli.nodes import END_SECONDS, command, refused
from tools.tree import ROOT


@contextmanager
def up(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], list[dict[str, Any]]]]:
    """The process, and what it prints until it is ready."""
    process = subprocess.Popen(command("cluster", "up", "--json", *arguments), cwd=ROOT, text=True,
                               stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        assert process.stdout
        printed = []
        while not printed or printed[-1]["event"] != "ready":
            printed.append(json.loads(process.stdout.readline()))
        yield process, printed
    finally:
        process.kill()
        process.communicate(timeout=END_SECONDS)


def wait_for_ends(descriptors: list[int]) -> None:
    """Wait for the ends of processes, by descriptors that name them, and close these."""
    for each in descriptors:
        ended, _, _ = select.select([each], [], [], END_SECONDS)
        os.close(each)
        assert ended


def test_up_and_up_again(tmp_path: Path) -> None:
    with up("--nodes", 2, "--controllers", 1, "--data", tmp_path / "data") as (process, printed):
        *nodes, ready = printed
        assert [(each["node_id"], each["roles"]) for each in nodes] == [
            (1, ["broker"]), (2, ["broker"]), (3001, ["controller"])]
        with Cluster(ready["bootstrap"]) as cluster:
            assert [each.node_id for each in cluster.nodes()] == [1, 2]
            assert cluster.metadata([]).cluster_id == ready["cluster_id"]
        running = [os.pidfd_open(each["pid"]) for each in nodes]
        process.send_signal(signal.SIGINT)
        assert process.wait(END_SECONDS) == 0
        wait_for_ends(running)
    code, _, complaints = refused("cluster", "up", "--data", tmp_path / "data")
    assert code == 1
    assert "a cluster of 2 brokers and 1 controllers, not of 3 and 0" in complaints
    with up("--nodes", 2, "--controllers", 1, "--data", tmp_path / "data") as (process, again):
        *nodes, ready_again = again
        assert ready_again | {"start_seconds": 0} == ready | {"start_seconds": 0}
        running = [os.pidfd_open(each["pid"]) for each in nodes]
        os.kill(nodes[1]["pid"], signal.SIGKILL)
        assert process.stdout
        assert json.loads(process.stdout.readline()) == {"event": "ended", "node_id": 2, "status": -9}
        process.kill()
        wait_for_ends(running)      # no process is left, however the owner ended


def test_a_wrong_setting_is_reported() -> None:
    code, out, complaints = refused("cluster", "up", "--nodes", 1, "--set", "num.partitions=many")
    assert (code, out) == (1, "")
    assert "num.partitions" in complaints


def test_an_unknown_setting_is_refused_as_by_the_server(tmp_path: Path) -> None:
    code, out, complaints = refused("cluster", "up", "--nodes", 1, "--data", tmp_path / "data",
                                    "--set", "num.partition=3")
    assert (code, out) == (1, "")
    assert complaints == "kraft: unknown setting num.partition; did you mean num.partitions?\n"
