"""Metadata, CreateTopics and DeleteTopics: permissions that depend on which topics exist, or on another permission."""

from typing import Any, Final
from uuid import UUID

from kraft.broker.access.rules import Call, Check, on_cluster
from kraft.broker.api import Steps, counted_steps
from kraft.broker.apis.metadata import is_malformed, wants_all
from kraft.broker.topic_views import absence_of
from kraft.log_dir import METADATA_TOPIC
from kraft.metadata.image import ZERO_ID
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse, MetadataResponseTopic
from kraft.security.acls import Operation, ResourceType

TOPIC: Final = ResourceType.TOPIC
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED

# --- Metadata ---------------------------------------------------------------------------------------------------------

METADATA_CHECKS: Final = (
    Check(Operation.DESCRIBE, TOPIC, "topics.name", "a request for all topics is answered without the others"),
    on_cluster(Operation.CREATE, "or CREATE on the topic: for a topic that the request would create", silent=True),
    Check(Operation.CREATE, TOPIC, "topics.name", "or CREATE on the cluster"),
)


def metadata(call: Call) -> Steps:
    """Serve the topics that the client may describe, and create those that it may create. The handler hides topics from
    a client that requests all, and refuses a malformed request."""
    request: MetadataRequest = call.request
    if wants_all(request, call.version) or (yield from is_malformed(request, call.version)):
        yield from call.pass_on(request, call.answer)
        return
    creates = (call.broker is not None and request.allow_auto_topic_creation
               and bool(call.broker.setting("auto.create.topics.enable"))
               and not call.access.may(Operation.CREATE, ResourceType.CLUSTER))
    wanted, creation_denied, denied = [], [], []
    refused_ones: dict[str | UUID, None] = {}
    for each in request.topics or ():
        yield
        key = each.name if each.name is not None else each.topic_id
        if key in refused_ones:
            continue
        name = _name_of(call, each.name, each.topic_id)
        if name is None:
            wanted.append(each)
        elif not call.access.may(Operation.DESCRIBE, TOPIC, name):
            refused_ones[key] = None
            denied.append(_undescribed(each))
        elif creates and call.image.topic(name) is None and not call.access.may(Operation.CREATE, TOPIC, name):
            refused_ones[key] = None
            creation_denied.append(MetadataResponseTopic(error_code=DENIED, name=name))
        else:
            wanted.append(each)
    refused = [*creation_denied, *denied]
    if not refused:
        yield from call.pass_on(request, call.answer)
        return

    def add(response: MetadataResponse) -> Steps:
        response.topics = [*response.topics, *refused]
        yield

    yield from call.pass_on(request.replace(topics=wanted), call.filtered(add))


def _undescribed(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    """Return the result that discloses nothing beyond what the request names."""
    if topic.topic_id != ZERO_ID:
        return MetadataResponseTopic(error_code=DENIED, name=None, topic_id=topic.topic_id)
    return MetadataResponseTopic(error_code=DENIED, name=topic.name)


def _name_of(call: Call, name: str | None, topic_id: UUID) -> str | None:
    """Return the name of a topic that is named in either way; None for an unknown id."""
    return name if topic_id == ZERO_ID else call.image.topic_name(topic_id)


# --- DescribeProducers ------------------------------------------------------------------------------------------------


def if_valid(_call: Call, topic: Any) -> Check | None:
    """Return the check of a topic of DescribeProducers; None for a name that the handler refuses."""
    return None if absence_of(topic.name) == ErrorCode.INVALID_TOPIC_EXCEPTION else READ


READ: Final = Check(Operation.READ, TOPIC, "topics.name")

# --- CreateTopics -----------------------------------------------------------------------------------------------------

CREATE_CHECKS: Final = (
    on_cluster(Operation.CREATE, "or CREATE on the topic", silent=True),
    Check(Operation.CREATE, TOPIC, "topics.name", "or CREATE on the cluster"),
    Check(Operation.DESCRIBE_CONFIGS, TOPIC, "topics.name", "otherwise the answer has `topic_config_error_code`, "
          "and no partitions, replicas and settings"),
)


def create_topics(call: Call) -> Steps:
    """Create the topics that the client may create, and show the settings of those that it may describe. A name that
    occurs twice is refused by the controller, with another error."""
    every_name = call.access.may(Operation.CREATE, ResourceType.CLUSTER)
    counts = yield from counted_steps(each.name for each in call.request.topics)
    allowed, refused = [], []
    for each in call.request.topics:
        if every_name or counts[each.name] > 1 or each.name == METADATA_TOPIC or call.access.may(
                Operation.CREATE, TOPIC, each.name):
            allowed.append(each)
        else:
            refused.append(CreatableTopicResult(name=each.name, error_code=DENIED, error_message=DENIED.message))
        yield
    if refused and not allowed:
        call.answer(CreateTopicsResponse(topics=refused))
        return

    def show(response: CreateTopicsResponse) -> Steps:
        for topic in response.topics:
            if topic.error_code == ErrorCode.NONE and not call.access.may(
                    Operation.DESCRIBE_CONFIGS, TOPIC, topic.name):
                topic.topic_config_error_code = DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
            yield
        response.topics = [*response.topics, *refused]

    request = call.request.replace(topics=allowed) if refused else call.request
    yield from call.pass_on(request, call.filtered(show))


# --- DeleteTopics -----------------------------------------------------------------------------------------------------

DELETE_CHECKS: Final = (
    on_cluster(Operation.DELETE, "or DESCRIBE and DELETE on the topic", silent=True),
    Check(Operation.DESCRIBE, TOPIC, "topics.name", "and DELETE; an id alone is answered without a name"),
    Check(Operation.DELETE, TOPIC, "topics.name", "for a topic that exists"),
)


def delete_topics(call: Call) -> Steps:
    """Delete the topics that the client may delete. Without DESCRIBE the answer does not depend on whether a topic
    exists, and connects no id with a name."""
    request = call.request
    if call.access.may(Operation.DELETE, ResourceType.CLUSTER):
        yield from call.pass_on(request, call.answer)
        return
    counts = yield from counted_steps((each.name, each.topic_id) for each in request.topics)
    named = yield from counted_steps(request.topic_names)
    refused: list[DeletableTopicResult] = []
    topics, names = [], []
    for topic in request.topics:
        is_odd = counts[topic.name, topic.topic_id] > 1 or (topic.name is None) == (topic.topic_id == ZERO_ID)
        result = None if is_odd else _undeletable(call, topic)
        if result is None:
            topics.append(topic)
        else:
            refused.append(result)
        yield
    for name in request.topic_names:
        result = None if named[name] > 1 else _undeletable(call, DeleteTopicState(name=name))
        if result is None:
            names.append(name)
        else:
            refused.append(result)
        yield
    if not refused:
        yield from call.pass_on(request, call.answer)
        return
    if not topics and not names:
        call.answer(DeleteTopicsResponse(responses=refused))
        return

    def add(response: DeleteTopicsResponse) -> Steps:
        response.responses = [*refused, *response.responses]
        yield

    yield from call.pass_on(request.replace(topics=topics, topic_names=names), call.filtered(add))


def _undeletable(call: Call, topic: DeleteTopicState) -> DeletableTopicResult | None:
    """Return the refusal of a topic; None when it may be deleted, or does not exist for a client that may know it."""
    name = _name_of(call, topic.name, topic.topic_id)
    if name is None:
        return None
    may_describe = call.access.may(Operation.DESCRIBE, TOPIC, name)
    may_delete = call.access.may(Operation.DELETE, TOPIC, name)
    if topic.topic_id != ZERO_ID:
        if may_delete:
            return None
        return _refused(name if may_describe else None, topic.topic_id)
    if not may_describe or (not may_delete and call.image.topic(name) is not None):
        return _refused(name, ZERO_ID)
    return None


def _refused(name: Any, topic_id: UUID) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=DENIED, error_message=DENIED.message)
