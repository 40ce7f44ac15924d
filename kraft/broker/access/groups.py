"""DescribeGroups: the permission to describe each group, and what else the client may do to it."""

from kraft.broker.access.rules import Call, Elements
from kraft.broker.access.serving import serve_elements
from kraft.broker.api import Steps
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kraft.security.acls import ResourceType


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
