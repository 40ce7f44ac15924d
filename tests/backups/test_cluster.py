"""A backup of one node begins a cluster of three, whose nodes are restored one by one."""

from pathlib import Path
from typing import Any

import pytest

from kraft.cli.command import run
from kraft.client import Cluster
from kraft.client.configs import Change, Operation, alter_configs
from kraft.client.partitions import LATEST, list_all_offsets
from kraft.client.producer import Producer
from kraft.runtime.server_node import ServerNode
from tests.backups.source import Source, batch_of, state_of
from tests.integration.quorum import ControllerProcess
from tests.ports import free_ports
from tests.runtime.nodes import config, with_node


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Check nothing: nodes run in processes of their own, and sockets close at a time of their own."""


def restored(place: Path, top: Path) -> list[ControllerProcess]:
    """Restore three nodes, each with its own command. Partitions of one replica stay alone."""
    ports = free_ports(3)
    known = {"controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports)}
    nodes = [ControllerProcess(top / str(number), number, port, known, is_broker=True)
             for number, port in enumerate(ports, 1)]
    voters = ",".join(node.voter for node in nodes)
    for node in nodes:
        assert run(["backup", "restore", str(place), f"--data={node.data}", "--nodes=1,2,3",
                    f"--initial-controllers={voters}", *(f"--set={name}={value}"
                                                         for name, value in node.settings.items())]) == 0
    return nodes


@pytest.mark.long
def test_three_nodes_from_one_backup(tmp_path: Path) -> None:
    place = tmp_path / "backups"

    def source(cluster: Cluster, node: ServerNode) -> dict[str, Any]:
        Source(cluster).create()
        alter_configs(cluster, "broker", "1", [Change("log.cleaner.threads", Operation.SET, "2")])
        address = f"127.0.0.1:{node.listeners['PLAINTEXT'].port}"
        assert run(["backup", "create", str(place), "--bootstrap", address]) == 0
        return state_of(cluster)

    before = with_node(config(tmp_path / "source", node_id="1"), source)
    nodes = restored(place, tmp_path / "restored")
    ends = {each: (found[-1][0] + 1 if found else 0) for each, found in before["records"].items()}
    try:
        for node in nodes:
            node.launch()
        for node in nodes:
            node.await_ready()
        with Cluster(",".join(node.address for node in nodes), timeout=20) as cluster:
            assert state_of(cluster, ends) == before
            sent = Producer(cluster).send({("orders", index): batch_of(0, 1) for index in range(2)})
            assert sent == {("orders", index): ends["orders", index] for index in range(2)}
            topic = cluster.topic("orders")
            assert list_all_offsets(cluster, [topic], {("orders", 0): LATEST})["orders", 0] == ends["orders", 0] + 1
    finally:
        for node in nodes:
            node.stop()
    assert [node.alarms() for node in nodes] == [[], [], []]
