"""Three controllers in processes of their own all restart at other addresses at once. At the previous addresses nothing
listens, or something accepts connections and never answers."""

import random
import socket
from contextlib import ExitStack

import pytest

from kraft.runtime.quorum.recorder_file import read_entries
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from tests.integration.quorum import ControllerProcess, MakeQuorum, Quorum
from tests.ports import free_ports

ELECTION_SECONDS = 1.0


def seconds_to_leader(nodes: list[ControllerProcess], leader_id: int, epoch: int) -> float:
    """Return the seconds from the start of the second core to the election, according to the flight recorders."""
    elected, starts = 0.0, []
    for node in nodes:
        entries = list(read_entries(node.directory / DIRECTORY_NAME))
        starts.append(max(entry.time_ms for entry in entries if entry.what == "started"))
        if node.node_id == leader_id:
            elected = next(entry.time_ms for entry in entries if entry.what == "becomes"
                           and (entry.values["role"], entry.values["epoch"]) == ("Leader", epoch))
    return (elected - sorted(starts)[1]) / 1000


def relocate(quorum: Quorum, chance: random.Random, former: ExitStack) -> float:
    """Kill all controllers and start them elsewhere, perhaps without the previous leader. Return the seconds from when
    two of them ran until a leader exists."""
    leader_id = quorum.leader.node_id
    nodes = list(quorum.nodes.values())
    for node in chance.sample(nodes, len(nodes)):
        node.kill()
    is_unresponsive = chance.random() < 0.5
    before = [node.controller_port for node in nodes]
    free = [port for port in free_ports(2 * len(nodes)) if port not in before]
    for node, port in zip(nodes, free, strict=False):
        if is_unresponsive:
            former.enter_context(socket.create_server(("127.0.0.1", node.controller_port), backlog=50))
        node.move(port)
    servers = ",".join(node.controller_address for node in nodes)
    for node in nodes:
        node.settings["controller.quorum.bootstrap.servers"] = servers
    started = [node for node in nodes if node.node_id != leader_id or chance.random() < 0.5]
    for node in started:
        node.launch()
    for node in started:
        node.await_ready()
    found = quorum.client(started).describe()
    assert found.leader in [node.node_id for node in started]
    seconds = seconds_to_leader(started, found.leader, found.epoch)
    former.close()                     # for nodes that start later the previous addresses may be free or in use
    for node in nodes:
        if node not in started:
            node.start()
    return seconds


@pytest.mark.parametrize("seed", [1])
def test_a_quorum_at_other_addresses_finds_a_leader(new_quorum: MakeQuorum, seed: int) -> None:
    quorum = new_quorum(3)
    quorum.start()
    with ExitStack() as former:
        relocate(quorum, random.Random(seed), former)


@pytest.mark.long
def test_twenty_times_at_other_addresses(new_quorum: MakeQuorum, capsys: pytest.CaptureFixture[str]) -> None:
    """Each election takes less than two election time-outs; a limit for an idle machine."""
    quorum, chance = new_quorum(3), random.Random(20)
    quorum.start()
    took = []
    for _ in range(20):
        with ExitStack() as former:
            took.append(relocate(quorum, chance, former))
    with capsys.disabled():
        print("\nseconds from the second start to a leader: " + " ".join(f"{each:.2f}" for each in sorted(took)))
    assert max(took) <= 2 * ELECTION_SECONDS
