"""OffsetFetch: the permission to describe a group, and then each of its topics."""

from collections.abc import Generator
from functools import partial
from typing import Any, Final

from kraft.broker.access.rules import Call, Check, Elements, Hides, Inner, Place
from kraft.broker.access.serving import as_requested, denials, deny_all, divide, keep_allowed
from kraft.broker.api import Steps
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup
from kraft.protocol.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kraft.security.acls import Operation, ResourceType

FIRST_BATCH_VERSION: Final = 8
FIRST_BY_ID: Final = 10
"""First version of OffsetFetch and OffsetCommit with ids in place of names."""
FIRST_WITH_ERROR: Final = 2
NO_OFFSET: Final = -1

GROUP: Final = Check(Operation.DESCRIBE, ResourceType.GROUP, "groups.group_id")
TOPIC: Final = Check(Operation.DESCRIBE, ResourceType.TOPIC, "topics.name",
                     "a request for all topics is answered without the others")
CHECKS: Final = (GROUP, TOPIC)


def topic_name(call: Call, topic: Any) -> str | None:
    """Return the name of a topic that a request names, or gives the id of; None for an unknown id."""
    if call.version < FIRST_BY_ID:
        return str(topic.name)
    return call.image.topic_name(topic.topic_id)


def _whole_topic(_code: ErrorCode, topic: Any) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id)


def _partition(code: ErrorCode, index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=code)


def _old_partition(code: ErrorCode, index: int) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(partition_index=index, committed_offset=NO_OFFSET, error_code=code)


_IN_GROUP: Final = Elements("topics", "topics", TOPIC, _whole_topic,
                            Inner("partition_indexes", "partitions", _partition), name=topic_name)
_ALONE: Final = Elements("topics", "topics", TOPIC, lambda _code, topic: OffsetFetchResponseTopic(name=topic.name),
                         Inner("partition_indexes", "partitions", _old_partition))
_GROUPS: Final = Elements(
    "groups", "groups", GROUP,
    lambda code, group: OffsetFetchResponseGroup(group_id=group.group_id, error_code=code),
    place=Place.AS_REQUESTED)
_SHOWN: Final = Hides("topics", TOPIC)


def offset_fetch(call: Call) -> Steps:
    """Return offsets of the topics that the client may describe, in groups that it may describe."""
    if call.version < FIRST_BATCH_VERSION:
        yield from _one_group(call)
        return
    divided = yield from divide(_GROUPS, call, call.request.groups)
    refused = yield from denials(_GROUPS, divided)
    wanted: list[OffsetFetchRequestGroup] = []
    undescribed: dict[str, list[Any]] = {}
    whole: dict[str, None] = {}
    for group in divided.allowed:
        if group.topics is None:
            whole[group.group_id] = None
            wanted.append(group)
        else:
            wanted.append((yield from _divided(call, group, undescribed)))
        yield
    if not wanted:
        call.answer(OffsetFetchResponse(groups=refused))
        return

    def complete(response: OffsetFetchResponse) -> Steps:
        for result in response.groups:
            if result.error_code == ErrorCode.NONE:
                if result.group_id in whole:
                    yield from keep_allowed(_SHOWN, call, result)
                result.topics += undescribed.pop(result.group_id, ())
            yield
        response.groups = yield from as_requested(divided.errors, response.groups, refused)

    yield from call.pass_on(call.request.replace(groups=wanted), call.filtered(complete))


def _divided(call: Call, group: OffsetFetchRequestGroup, undescribed: dict[str, list[Any]]
             ) -> Generator[None, None, OffsetFetchRequestGroup]:
    """Return the group with the topics that the client may describe; `undescribed` gets the results of the others."""
    divided = yield from divide(_IN_GROUP, call, group.topics)
    if not divided.denied:
        return group
    undescribed[group.group_id] = yield from denials(_IN_GROUP, divided)
    return group.replace(topics=divided.allowed)


def _one_group(call: Call) -> Steps:
    request = call.request
    if not call.access.may(Operation.DESCRIBE, ResourceType.GROUP, request.group_id):
        refused = OffsetFetchResponse(error_code=GROUP.error)
        if call.version < FIRST_WITH_ERROR:
            topics = yield from deny_all(_ALONE, ((topic, GROUP.error) for topic in request.topics or ()))
            refused = OffsetFetchResponse(topics=topics)
        call.answer(refused)
        return
    if request.topics is None:
        yield from call.pass_on(request, call.filtered(partial(keep_allowed, _SHOWN, call)))
        return
    divided = yield from divide(_ALONE, call, request.topics)
    if not divided.denied:
        yield from call.pass_on(request, call.answer)
        return
    undescribed = yield from denials(_ALONE, divided)

    def complete(response: OffsetFetchResponse) -> Steps:
        if response.error_code == ErrorCode.NONE:
            response.topics = [*response.topics, *undescribed]
        yield

    yield from call.pass_on(request.replace(topics=divided.allowed), call.filtered(complete))
