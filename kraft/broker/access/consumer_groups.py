"""ConsumerGroupHeartbeat, ConsumerGroupDescribe and ShareGroupDescribe: the permission on the group, and on the topics
of its members."""

from typing import Any, Final

from kraft.broker.access.rules import Call, Check, Elements, plainly
from kraft.broker.access.serving import serve_elements
from kraft.broker.api import Steps
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.consumer_group_describe_response import ConsumerGroupDescribeResponse
from kraft.protocol.messages.share_group_describe_response import ShareGroupDescribeResponse
from kraft.security.acls import Operation, ResourceType

HEARTBEAT_CHECK: Final = Check(Operation.READ, ResourceType.GROUP, "group_id")
NAMED_CHECK: Final = Check(Operation.DESCRIBE, ResourceType.TOPIC, "subscribed_topic_names",
                           "of each topic; a regular expression matches only such topics")
SHOWN_CHECK: Final = Check(Operation.DESCRIBE, ResourceType.TOPIC, remark="of each topic that a member is assigned")
HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."


def consumer_group_heartbeat(call: Call) -> Steps:
    """Serve a member of a group that the client may read, which names only topics that it may describe."""
    request = call.request
    if not HEARTBEAT_CHECK.passes(call.access, request):
        call.answer(plainly(call, request, HEARTBEAT_CHECK.error))
        return
    for topic in request.subscribed_topic_names or ():
        if not call.access.may(NAMED_CHECK.operation, NAMED_CHECK.resource, topic):
            call.answer(plainly(call, request, NAMED_CHECK.error))
            return
        yield
    yield from call.pass_on(request, call.answer)


def consumer_group_describe(rule: Elements, call: Call) -> Steps:
    """Describe the groups that the client may describe, with the operations that it may do where it requests them. A
    group with a topic that the client may not describe is refused."""
    def show(response: ConsumerGroupDescribeResponse | ShareGroupDescribeResponse) -> Steps:
        allowed: dict[str, bool] = {}
        group: Any
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                yield from _hide(call, group, allowed)
            if group.error_code == ErrorCode.NONE and call.request.include_authorized_operations:
                group.authorized_operations = call.access.operations(ResourceType.GROUP, group.group_id)
            yield

    return serve_elements(rule, call._replace(answer=call.filtered(show)))


def _assignments(member: Any) -> tuple[Any, ...]:
    """Return the assignments in a description. That of a share group's member has no target."""
    target = getattr(member, "target_assignment", None)
    return (member.assignment,) if target is None else (member.assignment, target)


def _hide(call: Call, group: Any, allowed: dict[str, bool]) -> Steps:
    for member in group.members:
        for assignment in _assignments(member):
            for topic in assignment.topic_partitions:
                name = topic.topic_name
                if name not in allowed:
                    allowed[name] = call.access.may(SHOWN_CHECK.operation, SHOWN_CHECK.resource, name)
                if not allowed[name]:
                    group.error_code, group.error_message = SHOWN_CHECK.error, HIDDEN
                    group.group_state, group.assignor_name, group.members = "", "", []
                    group.group_epoch = group.assignment_epoch = 0
                    return
        yield
