"""`controller.quorum.bootstrap.servers` names a broker that is not a voter: nodes find the voters by it (KIP-642)."""

from contextlib import ExitStack

from tests.integration.admin import admin, create, metadata, wait_until
from tests.integration.quorum import MakeQuorum, MemberProcess, Quorum
from tests.ports import free_ports

BOOTSTRAP = "controller.quorum.bootstrap.servers"


def brokers_seen_by(node: MemberProcess) -> set[int]:
    return set(metadata(admin(node)).brokers)


def start_broker(quorum: Quorum, node_id: int, servers: str, ends: ExitStack) -> MemberProcess:
    broker = quorum.new_broker(node_id)
    broker.settings[BOOTSTRAP] = servers
    broker.start()
    ends.callback(stop_quietly, broker)
    return broker


def stop_quietly(broker: MemberProcess) -> None:
    broker.stop()
    assert broker.alarms() == []


def test_a_new_broker_and_a_new_controller_find_the_quorum_by_a_broker(new_quorum: MakeQuorum) -> None:
    quorum = new_quorum(4, voters=3)
    *voters, newcomer = quorum.nodes.values()
    with ExitStack() as ends:
        quorum.start([node.node_id for node in voters])
        known = start_broker(quorum, 10, quorum.settings[BOOTSTRAP], ends)
        start_broker(quorum, 11, known.address, ends)
        wait_until(lambda: brokers_seen_by(known) == {10, 11}, "the new broker is registered")
        newcomer.settings |= {BOOTSTRAP: known.address, "controller.quorum.auto.join.enable": "true"}
        newcomer.start()
        wait_until(lambda: [each.node_id for each in quorum.describe().voters] == [1, 2, 3, 4],
                   "the new controller votes")


def test_voters_that_all_moved_find_each_other_by_a_broker(new_quorum: MakeQuorum) -> None:
    """The broker knows none of the new addresses before the voters announce them to it."""
    quorum = new_quorum(3)
    nodes = list(quorum.nodes.values())
    with ExitStack() as ends:
        quorum.start()
        broker = start_broker(quorum, 10, quorum.settings[BOOTSTRAP], ends)
        create(broker, "before")
        former = [node.controller_port for node in nodes]
        for node in nodes:
            node.kill()
        free = [port for port in free_ports(2 * len(nodes)) if port not in former]
        for node, port in zip(nodes, free, strict=False):
            node.move(port)
            node.settings[BOOTSTRAP] = broker.address
        quorum.start()
        assert quorum.describe().leader in quorum.nodes
        create(broker, "after")
