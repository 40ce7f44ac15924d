"""Streams groups: the permission on the group, and on the topics of its topology."""

from collections.abc import Iterator
from typing import Final

from kraft.broker.access.consumer_groups import HEARTBEAT_CHECK
from kraft.broker.access.rules import Call, Check, Elements, plainly
from kraft.broker.access.serving import serve_elements
from kraft.broker.api import Steps
from kraft.broker.groups.streams.heartbeats import topology_to_check
from kraft.broker.topology_names import refusal_of_names
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.streams_group_describe_response import (
    DescribedGroup,
    StreamsGroupDescribeResponse,
    Topology,
)
from kraft.security.acls import Operation, ResourceType

NAMED_CHECK: Final = Check(Operation.DESCRIBE, ResourceType.TOPIC, "topology", "of each topic of the topology")
CREATE_CLUSTER_CHECK: Final = Check(Operation.CREATE, ResourceType.CLUSTER,
                                    remark="to have missing internal topics created", silent=True)
CREATE_CHECK: Final = Check(Operation.CREATE, ResourceType.TOPIC, "topology",
                            "of missing internal topics, without the permission on the cluster", silent=True)
SHOWN_CHECK: Final = Check(Operation.DESCRIBE, ResourceType.TOPIC, remark="of each topic of the topology")
HIDDEN: Final = "The described group uses topics that the client is not authorized to describe."


def streams_group_heartbeat(call: Call) -> Steps:
    """Serve a member of a group that the client may read, which names only topics that it may describe. Names that no
    topic may have are refused first, as Kafka does."""
    request = call.request
    if not HEARTBEAT_CHECK.passes(call.access, request):
        call.answer(plainly(call, request, HEARTBEAT_CHECK.error))
        return
    topology = topology_to_check(request)
    if topology is not None and not (yield from refusal_of_names(topology)):
        for topic in topology.named_topics:
            if not call.access.may(NAMED_CHECK.operation, NAMED_CHECK.resource, topic):
                call.answer(plainly(call, request, NAMED_CHECK.error))
                return
            yield
    yield from call.pass_on(request, call.answer)


def streams_group_describe(rule: Elements, call: Call) -> Steps:
    """Describe the groups that the client may describe, with the operations that it may do where it requests them. A
    group with a topic that the client may not describe is refused."""
    def show(response: StreamsGroupDescribeResponse) -> Steps:
        for group in response.groups:
            if group.error_code == ErrorCode.NONE:
                yield from _hide(call, group)
            if group.error_code == ErrorCode.NONE and call.request.include_authorized_operations:
                group.authorized_operations = call.access.operations(ResourceType.GROUP, group.group_id)
            yield

    return serve_elements(rule, call._replace(answer=call.filtered(show)))


def _hide(call: Call, group: DescribedGroup) -> Steps:
    for name in _topics(group.topology):
        if not call.access.may(SHOWN_CHECK.operation, SHOWN_CHECK.resource, name):
            group.error_code, group.error_message = SHOWN_CHECK.error, HIDDEN
            group.topology, group.members, group.group_state = None, [], ""
            group.group_epoch = group.assignment_epoch = 0
            return
        yield


def _topics(topology: Topology | None) -> Iterator[str]:
    for each in () if topology is None or topology.subtopologies is None else topology.subtopologies:
        yield from each.source_topics
        yield from each.repartition_sink_topics
        for topic in (*each.repartition_source_topics, *each.state_changelog_topics):
            yield topic.name
