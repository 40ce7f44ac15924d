"""Metadata (key 3), versions 0 to 13: brokers, and topics with their leaders.

Version 0: an empty list is all topics; from 1 null is all and an empty list none. From 12 topics may be named by id;
before, a request that has one is refused. Versions below 4 always allow creation. A topic that does not exist is
created when the client and `auto.create.topics.enable` allow it; the answer then waits for the creation and already
names its leaders. A leader whose process has ended is not named (`kraft.broker.leader_checks`).
"""

from uuid import UUID

from kraft.broker.api import Answer, RequestContext, serves
from kraft.broker.authorized import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from kraft.broker.broker import Broker
from kraft.broker.internal_topics import OFFSETS_TOPIC, is_internal, offsets_topic
from kraft.broker.topic_views import absence_of, offline_replicas, partition_error, reachable_brokers
from kraft.metadata.image import NO_LEADER, TopicImage
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import ZERO_UUID, Message
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

FIRST_VERSION_NULL_IS_ALL = 1
FIRST_VERSION_WITH_CREATION_FLAG = 4
FIRST_VERSION_BY_ID = 12
CREATE_TOPICS_VERSION = 7


@serves("Metadata")
def metadata(broker: Broker, request: MetadataRequest, context: RequestContext, answer: Answer) -> None:
    """Answers at once, or after the topics that are missing were created."""
    if context.version < FIRST_VERSION_BY_ID and not all(map(_is_named, request.topics or ())):
        answer(MetadataResponse(topics=[
            MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=each.name or "", topic_id=each.topic_id)
            for each in request.topics or ()]))
        return
    missing = _to_create(broker, request, context)
    if not missing:
        _respond(broker, request, context, {}, answer)
        return

    def created(response: Message) -> None:
        assert isinstance(response, CreateTopicsResponse)
        failed = {each.name: _creation_error(each.error_code) for each in response.topics}
        _respond(broker, request, context, failed, answer)

    creation = CreateTopicsRequest(topics=[_new_topic(broker, name) for name in missing], timeout_ms=30_000)
    broker.submit(creation, CREATE_TOPICS_VERSION, context.now_ms, created, context.client_id)


def _is_named(topic: MetadataRequestTopic) -> bool:
    return topic.topic_id == ZERO_UUID and topic.name is not None


def _to_create(broker: Broker, request: MetadataRequest, context: RequestContext) -> list[str]:
    """Names that do not exist and may come into being by being asked for, each once."""
    allowed = context.version < FIRST_VERSION_WITH_CREATION_FLAG or request.allow_auto_topic_creation
    if not allowed or not request.topics or not broker.setting("auto.create.topics.enable"):
        return []
    names = [topic.name for topic in request.topics if topic.name and topic.topic_id == ZERO_UUID]
    return list(dict.fromkeys(name for name in names if broker.image.topic(name) is None))


def _new_topic(broker: Broker, name: str) -> CreatableTopic:
    if name == OFFSETS_TOPIC:
        return offsets_topic(broker)
    return CreatableTopic(name=name, num_partitions=broker.integer("num.partitions"),
                          replication_factor=broker.integer("default.replication.factor"))


def _creation_error(code: int) -> int:
    """What a client is told of a creation that failed. A race that another request won is no failure."""
    if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return ErrorCode.NONE
    if code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.POLICY_VIOLATION):
        return code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if code != ErrorCode.INVALID_REPLICATION_FACTOR else code


def _respond(broker: Broker, request: MetadataRequest, context: RequestContext, failed: dict[str, int],
             answer: Answer) -> None:
    """Answers when the leaders are checked."""
    if request.topics is None or (context.version < FIRST_VERSION_NULL_IS_ALL and not request.topics):
        leaders = list(broker.image.brokers)
    else:
        topics = [found for each in request.topics
                  if (found := _find(broker, each.name, each.topic_id)) is not None]
        leaders = [partition.leader for topic in topics for partition in topic.partitions.values()]
    broker.leaders.submit(leaders, lambda ended: answer(_response(broker, request, context, failed, ended)))


def _response(broker: Broker, request: MetadataRequest, context: RequestContext, failed: dict[str, int],
              ended: tuple[int, ...]) -> MetadataResponse:
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    listed = reachable_brokers(broker, context.listener, context.now_ms)
    brokers = [MetadataResponseBroker(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
               for each in listed]
    live = [each.broker_id for each in listed if not each.fenced]
    return MetadataResponse(
        brokers=brokers,
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id if broker.node_id in live else min(live, default=-1),
        topics=[_topic(broker, context, each, failed, operations, ended)
                for each in _wanted(broker, request, context)],
        cluster_authorized_operations=(CLUSTER_OPERATIONS if request.include_cluster_authorized_operations
                                       else NOT_ASKED),
    )


def _wanted(broker: Broker, request: MetadataRequest, context: RequestContext) -> list[MetadataRequestTopic]:
    everything = request.topics is None or (context.version < FIRST_VERSION_NULL_IS_ALL and not request.topics)
    if everything:
        return [MetadataRequestTopic(name=name) for name in sorted(broker.image.topic_ids)]
    assert request.topics is not None
    return request.topics


def _topic(broker: Broker, context: RequestContext, wanted: MetadataRequestTopic, failed: dict[str, int],
           operations: int, ended: tuple[int, ...]) -> MetadataResponseTopic:
    found = _find(broker, wanted.name, wanted.topic_id)
    if found is None:
        if wanted.topic_id != ZERO_UUID:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        name = wanted.name or ""
        code = failed.get(name) or absence_of(name)
        return MetadataResponseTopic(error_code=code, name=name, topic_authorized_operations=operations)
    return MetadataResponseTopic(
        name=found.name, topic_id=found.topic_id, is_internal=is_internal(found.name),
        partitions=[
            MetadataResponsePartition(
                error_code=(ErrorCode.LEADER_NOT_AVAILABLE if each.leader in ended
                            else partition_error(broker, each, context.listener)),
                partition_index=index, leader_id=NO_LEADER if each.leader in ended else each.leader,
                leader_epoch=each.leader_epoch, replica_nodes=each.replicas, isr_nodes=each.isr,
                offline_replicas=offline_replicas(broker, each))
            for index, each in sorted(found.partitions.items())],
        topic_authorized_operations=operations,
    )


def _find(broker: Broker, name: str | None, topic_id: UUID) -> TopicImage | None:
    if topic_id != ZERO_UUID:
        return broker.image.topics.get(topic_id)
    return broker.image.topic(name) if name else None
