"""Share groups: the permission on the group, and on the topics of its members or of its offsets."""

from typing import Any, Final

from kraft.broker.access.consumer_groups import HEARTBEAT_CHECK
from kraft.broker.access.rules import Call, Check, Elements, Hides, Inner, Place, plainly
from kraft.broker.access.serving import as_requested, denials, divide, keep_allowed
from kraft.broker.api import Steps
from kraft.broker.groups.share.heartbeats import is_well_formed
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kraft.security.acls import Operation, ResourceType

NAMED_CHECK: Final = Check(Operation.DESCRIBE, ResourceType.TOPIC, "subscribed_topic_names", "of each topic")
OFFSETS_GROUP: Final = Check(Operation.DESCRIBE, ResourceType.GROUP, "groups.group_id")
OFFSETS_TOPIC: Final = Check(Operation.DESCRIBE, ResourceType.TOPIC, "topics.topic_name",
                             "a request for all topics is answered without the others")
NO_OFFSET: Final = -1
OFFSETS_CHECKS: Final = (OFFSETS_GROUP, OFFSETS_TOPIC)


def share_group_heartbeat(call: Call) -> Steps:
    """Serve a member of a group that the client may read, which names only topics that it may describe. A request that
    no group could serve is refused for that first, as Kafka does."""
    request = call.request
    if not HEARTBEAT_CHECK.passes(call.access, request):
        call.answer(plainly(call, request, HEARTBEAT_CHECK.error))
        return
    for topic in (request.subscribed_topic_names or ()) if is_well_formed(request) else ():
        if not call.access.may(NAMED_CHECK.operation, NAMED_CHECK.resource, topic):
            call.answer(plainly(call, request, NAMED_CHECK.error))
            return
        yield
    yield from call.pass_on(request, call.answer)


_GROUPS: Final = Elements(
    "groups", "groups", OFFSETS_GROUP,
    lambda code, group: DescribeShareGroupOffsetsResponseGroup(
        group_id=group.group_id, error_code=code, error_message=code.message),
    place=Place.AS_REQUESTED)
_TOPICS: Final = Elements(
    "topics", "topics", OFFSETS_TOPIC,
    lambda _code, topic: DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name),
    Inner("partitions", "partitions", lambda code, index: DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=NO_OFFSET, error_code=code, error_message=code.message)))
_SHOWN: Final = Hides("topics", OFFSETS_TOPIC)


def describe_share_group_offsets(call: Call) -> Steps:
    """Describe offsets of the topics that the client may describe, in groups that it may describe."""
    divided = yield from divide(_GROUPS, call, call.request.groups)
    refused = yield from denials(_GROUPS, divided)
    wanted: list[Any] = []
    undescribed: dict[str, list[Any]] = {}
    for group in divided.allowed:
        if group.topics is not None:
            topics = yield from divide(_TOPICS, call, group.topics)
            if topics.denied:
                undescribed[group.group_id] = yield from denials(_TOPICS, topics)
                group = group.replace(topics=topics.allowed)
        wanted.append(group)
        yield
    if not wanted:
        call.answer(DescribeShareGroupOffsetsResponse(groups=refused))
        return

    def complete(response: DescribeShareGroupOffsetsResponse) -> Steps:
        whole = {group.group_id: None for group in wanted if group.topics is None}
        for result in response.groups:
            if result.error_code == ErrorCode.NONE:
                if result.group_id in whole:
                    yield from keep_allowed(_SHOWN, call, result)
                result.topics = [*result.topics, *undescribed.pop(result.group_id, ())]
            yield
        response.groups = yield from as_requested(divided.errors, response.groups, refused)

    yield from call.pass_on(call.request.replace(groups=wanted), call.filtered(complete))
