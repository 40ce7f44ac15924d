"""Metadata (key 3), versions 0 to 13: brokers, and topics with their leaders.

- All topics: an empty list in version 0, null from 1 on, where an empty list means none.
- Topics may be named by id from version 12 on; an earlier request that does so is refused.
- Versions below 4 always allow creation.

A missing topic is created when the client and `auto.create.topics.enable` allow it. The answer then waits for the
creation and already names its leaders. A leader whose process has ended is not named (`kraft.broker.leader_checks`).
"""

from collections.abc import Generator
from functools import partial
from itertools import compress
from uuid import UUID

from kraft.broker.api import STEP, Answer, RequestContext, Steps, each_step, sorted_steps
from kraft.broker.authorized import NOT_REQUESTED, cluster_operations, may_describe_topic, topic_operations
from kraft.broker.broker import Broker
from kraft.broker.internal_topics import CREATE_TOPICS_VERSION, is_internal, own_topic
from kraft.broker.request_parts import CHANGES_MAX
from kraft.broker.topic_views import absence_of, controller_of, named_leader, offline_replicas, reachable_brokers
from kraft.metadata.image import MetadataImage, TopicImage
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
DEFAULT_OF_CONTROLLER = -1
"""Partition count and replication factor that CreateTopics leaves to the active controller."""
INVALID = ErrorCode.INVALID_TOPIC_EXCEPTION


def metadata(broker: Broker, request: MetadataRequest, context: RequestContext, answer: Answer) -> Steps:
    """Answer at once, or after the creation of missing topics. A topic that is named twice is described once."""
    if (yield from is_malformed(request, context.version)):
        topics = yield from each_step(lambda each: MetadataResponseTopic(
            error_code=ErrorCode.INVALID_REQUEST, name=each.name or "", topic_id=each.topic_id), request.topics or ())
        answer(MetadataResponse(topics=topics))
        return
    missing = yield from _to_create(broker, request, context)
    if not missing:
        yield from _respond(broker, request, context, {}, answer)
        return

    def created(response: Message) -> None:
        assert isinstance(response, CreateTopicsResponse)
        context.run(_respond_created(broker, request, context, response, answer))

    topics_to_create = yield from each_step(partial(_new_topic, broker), missing)
    creation = CreateTopicsRequest(topics=topics_to_create, timeout_ms=30_000)
    yield from broker.submit_steps(creation, context, created, CREATE_TOPICS_VERSION)


def is_malformed(request: MetadataRequest, version: int) -> Generator[None, None, bool]:
    """Return whether the request names topics in a way that its version does not have."""
    if version >= FIRST_VERSION_BY_ID:
        return False
    for topic in request.topics or ():
        if topic.name is None or topic.topic_id != ZERO_UUID:
            return True
        yield
    return False


def wants_all(request: MetadataRequest, version: int) -> bool:
    """Return whether the request is for all topics."""
    return request.topics is None or (version < FIRST_VERSION_NULL_IS_ALL and not request.topics)


def _respond_created(broker: Broker, request: MetadataRequest, context: RequestContext,
                     response: CreateTopicsResponse, answer: Answer) -> Steps:
    failed = {}
    for each in response.topics:
        failed[each.name] = _creation_error(each.error_code)
        yield
    yield from _respond(broker, request, context, failed, answer)


def _to_create(broker: Broker, request: MetadataRequest,
               context: RequestContext) -> Generator[None, None, list[str]]:
    """Return the missing names that the request may create, each once, up to the limit of one creation request."""
    allowed = context.version < FIRST_VERSION_WITH_CREATION_FLAG or request.allow_auto_topic_creation
    if not allowed or not request.topics or not broker.setting("auto.create.topics.enable"):
        return []
    names: dict[str, None] = {}
    for topic in request.topics:
        if (topic.name and topic.topic_id == ZERO_UUID and topic.name not in names
                and broker.image.topic(topic.name) is None and absence_of(topic.name) != INVALID):
            names[topic.name] = None
        yield
    return list(names)[:CHANGES_MAX]


def _new_topic(broker: Broker, name: str) -> CreatableTopic:
    own = own_topic(broker, name)
    return own or CreatableTopic(name=name, num_partitions=_own(broker, "num.partitions"),
                          replication_factor=_own(broker, "default.replication.factor"))


def _own(broker: Broker, name: str) -> int:
    """Return the broker's own setting; without one the controller's applies."""
    value = broker.own_integer(name)
    return DEFAULT_OF_CONTROLLER if value is None else value


def _creation_error(code: int) -> int:
    """Return the error that a client gets for a failed creation. A race that another request won is not a failure."""
    if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return ErrorCode.NONE
    if code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.POLICY_VIOLATION):
        return code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if code != ErrorCode.INVALID_REPLICATION_FACTOR else code


def _respond(broker: Broker, request: MetadataRequest, context: RequestContext, failed: dict[str, int],
             answer: Answer) -> Steps:
    """Answer when the leaders are checked."""
    image = broker.image
    leaders: dict[int, None] = {}
    if wants_all(request, context.version):
        leaders.update(dict.fromkeys(image.brokers))
    else:
        for each in (yield from _wanted(image, request, context)):
            topic = _find(image, each.name, each.topic_id)
            for partition in topic.partitions.values() if topic is not None else ():
                leaders[partition.leader] = None
            yield
    broker.leaders.submit(leaders, lambda ended: context.run(_send(broker, request, context, failed, ended, answer)))


def _send(broker: Broker, request: MetadataRequest, context: RequestContext, failed: dict[str, int],
          ended: tuple[int, ...], answer: Answer) -> Steps:
    listed = reachable_brokers(broker, context.listener, context.now_ms)
    brokers = [MetadataResponseBroker(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
               for each in listed]
    live = [each.broker_id for each in listed if not each.fenced and each.broker_id not in ended]
    image = broker.image
    topics = []
    for each in (yield from _wanted(image, request, context)):
        topics.append((yield from _topic(broker, image, context, each, request, failed, ended)))
        yield
    answer(MetadataResponse(
        brokers=brokers,
        cluster_id=broker.cluster_id,
        controller_id=controller_of(broker, live),
        topics=topics,
        cluster_authorized_operations=(cluster_operations(context.access)
                                       if request.include_cluster_authorized_operations else NOT_REQUESTED),
    ))


def _wanted(image: MetadataImage, request: MetadataRequest,
            context: RequestContext) -> Generator[None, None, list[MetadataRequestTopic]]:
    if wants_all(request, context.version):
        names = yield from sorted_steps(image.topic_ids)
        if context.access is not None:
            seen = yield from each_step(partial(may_describe_topic, context.access), names)
            names = list(compress(names, seen))
        return (yield from each_step(lambda name: MetadataRequestTopic(name=name), names))
    named: dict[tuple[str | None, UUID], MetadataRequestTopic] = {}
    for number, each in enumerate(request.topics or ()):
        named.setdefault((each.name, each.topic_id), each)
        if number % STEP == 0:
            yield
    return list(named.values())


def _topic(broker: Broker, image: MetadataImage, context: RequestContext, wanted: MetadataRequestTopic,
           request: MetadataRequest, failed: dict[str, int],
           ended: tuple[int, ...]) -> Generator[None, None, MetadataResponseTopic]:
    found = _find(image, wanted.name, wanted.topic_id)
    operations = (topic_operations(context.access, wanted.name if found is None else found.name)
                  if request.include_topic_authorized_operations else NOT_REQUESTED)
    if found is None:
        if wanted.topic_id != ZERO_UUID:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id)
        name = wanted.name or ""
        code = failed.get(name) or absence_of(name)
        return MetadataResponseTopic(error_code=code, name=name, topic_authorized_operations=operations)
    partitions = []
    for index in sorted(found.partitions):
        each = found.partitions[index]
        code, leader = named_leader(broker, each, context.listener, ended)
        partitions.append(MetadataResponsePartition(
            error_code=code, partition_index=index, leader_id=leader,
            leader_epoch=each.leader_epoch, replica_nodes=each.replicas, isr_nodes=each.isr,
            offline_replicas=offline_replicas(broker, each)))
        yield
    return MetadataResponseTopic(
        name=found.name, topic_id=found.topic_id, is_internal=is_internal(found.name), partitions=partitions,
        topic_authorized_operations=operations)


def _find(image: MetadataImage, name: str | None, topic_id: UUID) -> TopicImage | None:
    if topic_id != ZERO_UUID:
        return image.topics.get(topic_id)
    return image.topic(name) if name else None
