"""DescribeCluster (key 60), versions 0 to 2, on a listener of brokers. Endpoint type 1 is brokers, 2 controllers."""

from kraft.broker.api import Answer, RequestContext
from kraft.broker.broker import Broker
from kraft.broker.cluster_description import BROKERS, describe_nodes
from kraft.broker.topic_views import controller_of, listed_brokers
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterBroker


def describe_cluster(broker: Broker, request: DescribeClusterRequest, context: RequestContext, answer: Answer) -> None:
    """Answer with the brokers. Add how long ago this broker's lease ended, if it has, and the faults on its disks."""
    live = [each.broker_id for each in listed_brokers(broker, context.listener)]

    def nodes() -> list[DescribeClusterBroker]:
        return [DescribeClusterBroker(broker_id=each.broker_id, host=each.host, port=each.port, rack=each.rack,
                                      is_fenced=each.fenced)
                for each in listed_brokers(broker, context.listener, fenced=request.include_fenced_brokers)]

    response = describe_nodes(request, context.version, BROKERS, broker.cluster_id,
                              controller_of(broker, live), nodes, context.access)
    lease_left_ms = broker.controller.lease_left_ms
    if lease_left_ms is not None and lease_left_ms < 0:
        response.lease_ended_ms = -lease_left_ms
    response.lost_records = broker.storage.lost_records()
    response.stray_partitions = broker.storage.stray_count
    answer(response)
