"""Audit of a cluster: changes that another node decides, and a topic whose leader ends."""

import json
from typing import Any

from kraft.broker.internal_topics import AUDIT_TOPIC
from kraft.client import Cluster
from kraft.client.fetcher import AT_ONCE, fetch_request
from kraft.client.topics import create_topic
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.testing.pytest_plugin import NewCluster
from kraft_native.batch.batch import walk
from kraft_native.batch.records import records


def events_in(cluster: Cluster) -> list[dict[str, Any]]:
    request = fetch_request(AUDIT_TOPIC, 0, 0, AT_ONCE)
    part = cluster.leader(AUDIT_TOPIC, 0).send(request, FetchResponse, version=11).responses[0].partitions[0]
    return [json.loads(record.value) for batch in walk(bytes(part.records or b"")) for record in records(batch)]


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
