"""Audit of a cluster: changes that another node decides, and a topic whose leader ends."""

import json
from typing import Any

from kraft.client import Cluster
from kraft.client.audit import AuditPartition
from kraft.client.topics import create_topic
from kraft.security.audit.kinds import AUDIT_TOPIC
from kraft.testing.pytest_plugin import NewCluster


def events_in(cluster: Cluster) -> list[dict[str, Any]]:
    return [json.loads(line) for line in AuditPartition(cluster, 0).read()]


def test_events_of_all_brokers_name_the_records_that_a_controller_wrote(
    new_kraft_cluster: NewCluster
) -> None:
    cluster = new_kraft_cluster(brokers=3, controllers=1, settings={
        "kraft.audit.topic.enable": "true"})
    cluster.start()
    created: list[str] = []

    def create(number: int) -> None:
        for broker in cluster.brokers.values():
            if broker.running:
                created.append(f"t{number}-{broker.node_id}")
                with Cluster(broker.address, timeout=10) as client:
                    create_topic(client, created[-1], 1)

    def found() -> set[str]:
        with cluster.client() as client:
            return {each["resources"][0]["name"] for each in events_in(client)}

    create(0)
    cluster.wait_until(lambda: found() == set(created), "the topic has all events")
    with cluster.client() as client:
        events = events_in(client)
        leader = client.topic(AUDIT_TOPIC).partitions[0].leader_id
    assert {each["unmapped"]["node_id"] for each in events} == set(cluster.brokers)
    ranges = [tuple(each["unmapped"]["metadata_offsets"][0]) for each in events]
    assert len(set(ranges)) == len(ranges) == 3
    cluster.brokers[leader].kill()
    create(1)
    cluster.wait_until(lambda: found() == set(created), "the next leader has the later events")
