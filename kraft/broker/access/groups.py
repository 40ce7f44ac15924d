"""SyncGroup and DescribeGroups: the permission to read or describe a group, and what else the client may do to it."""

from typing import Final

from kraft.broker.access.rules import Call, Check, Elements
from kraft.broker.access.serving import serve_elements
from kraft.broker.api import Steps
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kraft.protocol.messages.sync_group_response import SyncGroupResponse
from kraft.security.acls import Operation, ResourceType

SYNC_CHECK: Final = Check(Operation.READ, ResourceType.GROUP, "group_id")
FIRST_SYNC_WITH_PROTOCOL: Final = 5


def sync_group(call: Call) -> Steps | None:
    """Serve a member of a group that the client may read. The handler refuses a request without the protocol, which
    some versions need: that comes first in Kafka."""
    request = call.request
    lacks_protocol = request.protocol_type is None or request.protocol_name is None
    if (call.version >= FIRST_SYNC_WITH_PROTOCOL and lacks_protocol) or SYNC_CHECK.passes(call.access, request):
        return call.serve(request, call.answer)
    call.answer(SyncGroupResponse(error_code=SYNC_CHECK.error))
    return None


def describe_groups(rule: Elements, call: Call) -> Steps:
    """Describe the groups that the client may describe, with the operations that it may do where it requests them."""
    def show(response: DescribeGroupsResponse) -> Steps:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = call.access.operations(ResourceType.GROUP, group.group_id)
            yield

    if call.request.include_authorized_operations:
        return serve_elements(rule, call._replace(answer=call.filtered(show)))
    return serve_elements(rule, call)
