"""StreamsGroupHeartbeat (88) and StreamsGroupDescribe (89), which the group coordinator serves.

While the feature streams.version is 0 they are UNSUPPORTED_VERSION. Their requests are decoded in steps. The
coordinator limits a heartbeat (`heartbeats.check_form`), and a description is served in parts.

The coordinator names internal topics that a group needs and that do not exist. This broker has them created, if the
client may create them. The answer to a heartbeat says why they are missing.
"""

from typing import Any, Final

from kraft.broker.api import Answer, RequestContext, Steps, each_step
from kraft.broker.broker import Broker
from kraft.broker.coordinator.answer import RequestContext as CoordinatorContext
from kraft.broker.groups.streams import requests
from kraft.broker.groups.streams.configuring import StatusCode
from kraft.broker.groups.streams.heartbeats import topology_to_check
from kraft.broker.groups.streams.serving import Outcome
from kraft.broker.groups.streams.topology import InternalTopic
from kraft.broker.request_parts import serve_in_parts
from kraft.broker.topology_names import refusal_of_names
from kraft.metadata.versions import STREAMS_VERSION
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig
from kraft.protocol.messages.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse
from kraft.protocol.messages.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse
from kraft.security.access import Access
from kraft.security.acls import CLUSTER_NAME, Operation, ResourceType

DEFAULT_REPLICATION: Final = -1


def serve(broker: Broker, request: Any, context: RequestContext, answer: Answer) -> Steps:
    """Pass the request to the coordinator, which answers now or when its records are committed."""
    if broker.image.features.get(STREAMS_VERSION, 0) <= 0:
        yield from _refuse(request, answer)
        return
    origin = CoordinatorContext(context.version, context.client_id, f"/{context.client_host}")
    if request.API_KEY == ApiKey.STREAMS_GROUP_DESCRIBE:
        def describe(part: Any, answer_part: Answer) -> None:
            requests.describe(broker.groups, part, origin, answer_part, context.now_ms)

        yield from serve_in_parts(request, describe, answer, context.run)
        return

    topology = topology_to_check(request)
    if topology is not None and (message := (yield from refusal_of_names(topology))):
        answer(StreamsGroupHeartbeatResponse(error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=message))
        return

    def done(outcome: Outcome) -> None:
        if outcome.missing:
            context.run(_create(broker, outcome, context, answer))
        else:
            answer(outcome.response)

    requests.heartbeat(broker.groups, request, origin, done, context.now_ms)


def _refuse(request: Any, answer: Answer) -> Steps:
    error = ErrorCode.UNSUPPORTED_VERSION
    if request.API_KEY == ApiKey.STREAMS_GROUP_DESCRIBE:
        described = yield from each_step(lambda group_id: DescribedGroup(group_id=group_id, error_code=error),
                                         request.group_ids)
        answer(StreamsGroupDescribeResponse(groups=described))
    else:
        answer(StreamsGroupHeartbeatResponse(error_code=error, error_message=error.message))


def _create(broker: Broker, outcome: Outcome, context: RequestContext, answer: Answer) -> Steps:
    """Answer the heartbeat, and have the missing topics created."""
    names = yield from each_step(lambda topic: topic.name, outcome.missing)
    forbidden = yield from _forbidden(context.access, names)
    if forbidden:
        _explain(outcome.response, f"Unauthorized to CREATE on topics {', '.join(forbidden)}.")
    elif failures := broker.topic_creations.failures(names, context.now_ms):
        _explain(outcome.response, f"Creation failed: {', '.join(failures)}.")
    answer(outcome.response)
    if not forbidden:
        topics = yield from each_step(_creatable, outcome.missing)
        yield from broker.topic_creations.create(topics, context)


def _forbidden(access: Access | None, names: list[str]) -> Any:
    """Return the topics that the client may not create, in steps."""
    if access is None or access.may(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        return []
    allowed = yield from each_step(lambda name: access.may(Operation.CREATE, ResourceType.TOPIC, name), names)
    return [name for name, may in zip(names, allowed, strict=True) if not may]


def _explain(response: StreamsGroupHeartbeatResponse, why: str) -> None:
    for status in response.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail = f"{status.status_detail}; {why}"


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name, num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or DEFAULT_REPLICATION,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs])
