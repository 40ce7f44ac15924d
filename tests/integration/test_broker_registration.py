"""Registrations of a broker's process in trouble: it comes late, to the wrong cluster, is removed, or its lease is not
renewed."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from kraft.cli.metadata_source import AsOf, from_leader
from kraft.client.connection import Connection
from kraft.local.addresses import host_of
from kraft.local.cluster import LocalCluster
from kraft.local.local_node import LocalNode
from kraft.log_dir import new_cluster_id
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_partition_request import AlterPartitionRequest
from kraft.protocol.messages.alter_partition_response import AlterPartitionResponse
from kraft.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from kraft.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from kraft.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from kraft.protocol.messages.unregister_broker_response import UnregisterBrokerResponse
from kraft.runtime.storage.metadata_directory import DIRECTORY_NAME
from kraft.runtime.storage.snapshot_files import list_snapshots
from kraft.testing.pytest_plugin import launcher_of
from tests.cli.nodes import Tool, refused
from tests.cli.test_operators import partitions
from tests.integration.quorum import SECONDS, MakeQuorum, MemberProcess

FAST = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
CUT = {"metadata.log.max.record.bytes.between.snapshots": "1000", "metadata.max.retention.bytes": "1000"}
"""Settings under which the log starts at the newest snapshot."""


@pytest.mark.kraft_cluster(brokers=1, controllers=1, settings=CUT)
def test_a_late_one_begins_with_a_snapshot(
    kraft_cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """A late broker cannot obtain its own registration without the snapshot: the records before it are deleted."""
    cluster, tool = kraft_cluster, Tool(kraft_cluster.bootstrap, capsys)
    controller, = cluster.controllers.values()
    tool.json("topics", "create", *(f"early-{number}" for number in range(20)))
    cluster.wait_until(lambda: list_snapshots(controller.directory / DIRECTORY_NAME)[0].end_offset > 40,
                       "the log starts behind the topics")
    late = LocalNode(launcher_of(request.config), tmp_path / "late", 9, host_of(9), roles=("broker",),
                     cluster_id=cluster.cluster_id, settings=cluster.brokers[1].settings)
    try:
        late.start()
        cluster.wait_until(lambda: cluster.seen_by(1) == {1, 9}, "it takes part")
        assert "was fetched from the leader" in late.log()
        first = list_snapshots(late.directory / DIRECTORY_NAME)[0]
        assert first.end_offset > 40
        tool.bootstrap = late.address
        assert {row["topic"] for row in tool.json("topics", "list")} >= {f"early-{number}" for number in range(20)}
        late.stop()
    finally:
        late.close()


def test_one_of_another_cluster(new_quorum: MakeQuorum) -> None:
    """The broker is refused, logs by which cluster and why, and ends with 1. The controllers continue without having
    received it."""
    quorum, other_cluster_id = new_quorum(1), new_cluster_id()
    quorum.start()
    broker = MemberProcess(quorum.directory / "10", 10, {
        "process.roles": "broker", **quorum.settings, "initial.broker.registration.timeout.ms": "1000"})
    broker.format(f"--cluster-id={other_cluster_id}")
    code, out, complaints = refused("server", "start", f"--data={broker.data}", f"--listen={broker.address}",
                                    *(f"--set={name}={value}" for name, value in broker.settings.items()))
    assert (code, out) == (1, "")
    controller = quorum.nodes[1].controller_address
    assert complaints.splitlines()[-1] == (
        f"kraft: no controller registered this node's broker in time: the controller at {controller} is of another "
        f"cluster than this node, whose cluster id is {other_cluster_id} (INCONSISTENT_CLUSTER_ID)")
    assert [each.node_id for each in quorum.describe().replicas] == [1]


@pytest.mark.kraft_cluster(brokers=2, controllers=1, settings=FAST)
def test_one_that_was_unregistered_while_it_ran(
    kraft_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker's epoch is stale: its requests are refused, so it registers again, and is a replica as before."""
    cluster, tool = kraft_cluster, Tool(kraft_cluster.bootstrap, capsys)
    tool.json("topics", "create", "t", "--partitions", 1, "--replication-factor", 2)
    controller, = cluster.controllers.values()
    with cluster.client() as client:
        old_epoch = from_leader(client, AsOf()).brokers[2].epoch
        answer = client.send(UnregisterBrokerRequest(broker_id=2), UnregisterBrokerResponse)
        assert answer.error_code == ErrorCode.NONE
        stale = f"broker 2 is not registered in epoch {old_epoch} any more: it registers again"
        cluster.wait_until(lambda: stale in cluster.brokers[2].log(), "it has learned of it")
        cluster.wait_until(lambda: sorted(partitions(tool, "t")[0]["isr"]) == [1, 2], "it is in sync again")
        assert from_leader(client, AsOf()).brokers[2].epoch > old_epoch
    with Connection(controller.host, controller.controller_port) as connection:
        beaten = connection.send(BrokerHeartbeatRequest(broker_id=2, broker_epoch=old_epoch), BrokerHeartbeatResponse)
        altered = connection.send(AlterPartitionRequest(broker_id=2, broker_epoch=old_epoch), AlterPartitionResponse)
    assert (beaten.error_code, altered.error_code) == (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.STALE_BROKER_EPOCH)
    assert cluster.seen_by(1) == {1, 2}


@pytest.mark.kraft_cluster(brokers=2, controllers=1, settings=FAST)
def test_one_whose_lease_nobody_renews(kraft_cluster: LocalCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """The broker continues to serve, as Kafka's does. Its log, `kraft cluster status` and `kraft why` report the
    expired lease."""
    cluster, tool = kraft_cluster, Tool(kraft_cluster.bootstrap, capsys)
    tool.json("topics", "create", "t", "--partitions", 1, "--replication-factor", 2, "--config",
              "min.insync.replicas=2")
    assert tool.json("cluster", "status")[0]["problems"] == []
    controller, = cluster.controllers.values()
    controller.kill()
    cluster.wait_until(lambda: all("ran out: no controller has answered a heartbeat for" in node.log()
                                   for node in cluster.brokers.values()), "their leases have ended")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce("t", b"without controllers")
    assert producer.flush(int(SECONDS)) == 0
    code, out, _ = tool.run("cluster", "status", "--timeout", 1)
    assert code == 1
    for node_id in cluster.brokers:
        assert f"\n  broker {node_id}: its lease ended " in out
    assert "\n  the quorum does not answer: " in out
    for about in ((), ("t/0",)):
        code, out, _ = tool.run("why", *about, "--timeout", 1)
        assert code == 1
        assert "Broker 1 reaches no controller: its lease ended " in out
        assert " s ago: controllers may have fenced it." in out
    controller.start()
    cluster.wait_until(lambda: all(f"has a lease again: controller {controller.node_id} answered" in node.log()
                                   for node in cluster.brokers.values()), "they have leases again")
    cluster.wait_until(lambda: tool.run("cluster", "status")[0] == 0, "all is well")
