"""Two processes with one broker's id: the one whose session was over stops, and acknowledges nothing."""

from pathlib import Path

import pytest

from kraft.client.connection import Connection, ConnectionFailedError
from kraft.client.producer import produce_request
from kraft.local.addresses import host_of
from kraft.local.cluster import LocalCluster
from kraft.local.local_node import LocalNode
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.produce_request import ProduceRequest
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.testing.pytest_plugin import launcher_of
from tests.integration.quorum import SECONDS
from tests.native.logs import batch

PRODUCE_VERSION = 9
FAST = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}


def acknowledged(connection: Connection, request: ProduceRequest) -> bool:
    """Return whether the answer acknowledges the records; a connection that closes without an answer does not."""
    try:
        answer = connection.answer(request, ProduceResponse, PRODUCE_VERSION, timeout=SECONDS)
    except ConnectionFailedError:
        return False
    return bool(answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE)


@pytest.mark.kraft_cluster(brokers=3, controllers=1, settings=FAST)
def test_a_process_that_was_paused_past_its_session(
    kraft_cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cluster, old = kraft_cluster, kraft_cluster.brokers[1]
    with cluster.client(old) as client:
        made = client.send(CreateTopicsRequest(timeout_ms=10_000, topics=[CreatableTopic(
            name="t", num_partitions=-1, replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])],
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")])]), CreateTopicsResponse)
        assert made.topics[0].error_code == ErrorCode.NONE
        cluster.wait_until(lambda: client.metadata(["t"]).topics[0].error_code == ErrorCode.NONE, "it knows the topic")
    successor = LocalNode(launcher_of(request.config), tmp_path / "successor", 1, host_of(9), roles=("broker",),
                          cluster_id=cluster.cluster_id, settings=old.settings)
    produce = produce_request({("t", 0): batch(1)}, -1, 20_000)
    with Connection(old.host, old.port) as connection:
        assert connection.send(produce, ProduceResponse, version=PRODUCE_VERSION).responses[0].partition_responses[
            0].error_code == ErrorCode.NONE
        old.pause()
        cluster.wait_until(lambda: cluster.seen_by(2) == {2, 3}, "it is fenced")
        successor.start()
        try:
            cluster.wait_until(lambda: cluster.seen_by(2) == {1, 2, 3}, "the other process took its place")
            connection.post(produce, PRODUCE_VERSION)
            old.resume()
            assert not acknowledged(connection, produce)
            old.expect_end()
            assert "broker 1 is another process now: incarnation" in old.log()
            assert cluster.seen_by(2) == {1, 2, 3}
            assert successor.running
            successor.stop()
        finally:
            successor.close()
