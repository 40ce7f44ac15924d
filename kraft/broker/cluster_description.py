"""The answer to DescribeCluster, on listeners of brokers and of controllers."""

from collections.abc import Callable
from typing import Final

from kraft.broker.authorized import NOT_REQUESTED, cluster_operations
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_cluster_response import DescribeClusterBroker, DescribeClusterResponse
from kraft.security.access import Access

BROKERS: Final = 1
CONTROLLERS: Final = 2
NAMES: Final = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def describe_nodes(
    request: DescribeClusterRequest, version: int, endpoint_type: int, cluster_id: str, controller_id: int,
    nodes: Callable[[], list[DescribeClusterBroker]], access: Access | None = None,
) -> DescribeClusterResponse:
    """Return the nodes of the kind `endpoint_type` that the listener serves; an error when the request is for the
    other kind. `access`: what the client may do; None: everything."""
    if request.endpoint_type != endpoint_type:
        if version == 0:
            code = ErrorCode.INVALID_REQUEST       # version 0 has no endpoint types
        elif request.endpoint_type in (BROKERS, CONTROLLERS):
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        else:
            code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        wanted = NAMES.get(request.endpoint_type, str(request.endpoint_type))
        message = (f"The request was sent to an endpoint of type {NAMES[endpoint_type]}, but we wanted an endpoint of "
                   f"type {wanted}")
        return DescribeClusterResponse(error_code=code, error_message=message)
    requested = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        endpoint_type=endpoint_type, cluster_id=cluster_id, controller_id=controller_id, brokers=nodes(),
        cluster_authorized_operations=cluster_operations(access) if requested else NOT_REQUESTED)
