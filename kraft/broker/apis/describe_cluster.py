"""DescribeCluster (key 60), versions 0 to 2. Endpoint type 1 is brokers, 2 controllers; each where it is served."""

from typing import Final

from kraft.broker.api import Answer, RequestContext, serves
from kraft.broker.authorized import CLUSTER_OPERATIONS, NOT_ASKED
from kraft.broker.broker import Broker
from kraft.broker.topic_views import listed_brokers
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse

BROKERS: Final = 1
CONTROLLERS: Final = 2


@serves("DescribeCluster")
def describe_cluster(broker: Broker, request: DescribeClusterRequest, context: RequestContext, answer: Answer) -> None:
    """The nodes of the kind that the listener serves."""
    here = CONTROLLERS if context.listener in broker.config.controller_listener_names else BROKERS
    if request.endpoint_type != here:
        if context.version == 0:
            code = ErrorCode.INVALID_REQUEST       # version 0 knows of no endpoint types
        elif request.endpoint_type in (BROKERS, CONTROLLERS):
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        else:
            code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        answer(DescribeClusterResponse(error_code=code, error_message=code.message))
        return
    answer(DescribeClusterResponse(
        endpoint_type=here, cluster_id=broker.cluster_id, controller_id=broker.node_id,
        brokers=_controllers(broker) if here == CONTROLLERS else _brokers(broker, request, context),
        cluster_authorized_operations=(CLUSTER_OPERATIONS if request.include_cluster_authorized_operations
                                       else NOT_ASKED)))


def _brokers(broker: Broker, request: DescribeClusterRequest, context: RequestContext) -> list[DescribeClusterBroker]:
    return [DescribeClusterBroker(broker_id=each.broker_id, host=each.host, port=each.port, rack=each.rack,
                                  is_fenced=each.fenced)
            for each in listed_brokers(broker, context.listener, fenced=request.include_fenced_brokers)]


def _controllers(broker: Broker) -> list[DescribeClusterBroker]:
    endpoint = broker.endpoints[broker.config.controller_listener_names[0]]
    return [DescribeClusterBroker(broker_id=broker.node_id, host=endpoint.host, port=endpoint.port)]
