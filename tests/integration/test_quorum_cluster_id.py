"""Controllers that were formatted without a cluster id: their first leader creates it (KIP-642)."""

from kraft.client.connection import Connection
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterResponse
from kraft_native.segment.checkpoints import MetaProperties, read_meta_properties, write_meta_properties
from tests.integration.admin import wait_until
from tests.integration.quorum import CLUSTER_ID, ControllerProcess, MakeQuorum, Quorum


def id_in(node: ControllerProcess) -> list[str | None]:
    found = [read_meta_properties(path) for path in node.directories]
    return [each and each.cluster_id for each in found]


def write_id(node: ControllerProcess, cluster_id: str) -> None:
    for path in node.directories:
        found = read_meta_properties(path)
        assert found is not None
        write_meta_properties(path, MetaProperties(found.node_id, cluster_id, found.directory_id))


def described_id(node: ControllerProcess) -> str:
    """Return the cluster id that the node's controller listener reports."""
    with Connection("127.0.0.1", node.controller_port) as connection:
        return connection.send(DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse).cluster_id


def ids(quorum: Quorum) -> set[str | None]:
    """Return the ids in the files of all nodes and in their answers."""
    return {known for node in quorum.nodes.values() for known in (*id_in(node), described_id(node))}


def test_the_first_leader_makes_the_cluster_id(new_quorum: MakeQuorum) -> None:
    """The nodes have both roles and two directories each. Later all crash between the commit and the write, one of them
    half-way."""
    quorum = new_quorum(3, cluster_id="", is_broker=True, directories=2)
    assert {known for node in quorum.nodes.values() for known in id_in(node)} == {""}
    quorum.start()
    [made] = ids(quorum)
    assert made is not None
    assert len(made) == 22
    for node in quorum.nodes.values():
        node.kill()
        write_id(node, "")
    half = quorum.nodes[2].directories[-1]
    found = read_meta_properties(half)
    assert found is not None
    write_meta_properties(half, MetaProperties(found.node_id, made, found.directory_id))
    quorum.start()
    assert ids(quorum) == {made}


def test_a_controller_with_another_id_is_refused(new_quorum: MakeQuorum) -> None:
    quorum = new_quorum(3, cluster_id="")
    quorum.start()
    [made] = ids(quorum)
    assert made not in ("", CLUSTER_ID)
    other = quorum.nodes[3]
    other.kill()
    write_id(other, CLUSTER_ID)
    other.start()
    wait_until(lambda: "is of another cluster than this node" in other.log(), "the others refuse it")
    assert quorum.describe().leader != other.node_id


def test_a_controller_that_waits_for_the_id_can_be_stopped(new_quorum: MakeQuorum) -> None:
    node = new_quorum(3, cluster_id="").nodes[1]
    node.launch()
    wait_until(lambda: "has no cluster id yet" in node.log(), "the controller waits")
    node.stop()
    assert id_in(node) == [""]
