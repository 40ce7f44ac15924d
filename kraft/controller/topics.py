"""CreateTopics and DeleteTopics.

Each topic of a request is decided on its own: valid topics are created, the others get their error. The created topics
take effect together or not at all. Topics are decided in steps: a topic may have very many partitions.
"""

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Final
from uuid import UUID

from kraft.controller.configs import new_topic_configs
from kraft.controller.decision import (
    PARTITIONS_PER_REQUEST_MAX,
    ConfigRules,
    Context,
    Decision,
    EffectiveConfig,
    RefusedError,
    text_of,
)
from kraft.controller.partitions import assigned_partitions, partition_records, placed_partitions
from kraft.controller.placement import Ring, ring_of
from kraft.metadata.image import (
    CLUSTER_DEFAULT,
    ZERO_ID,
    PartitionRegistration,
    TopicImage,
    collision_key,
)
from kraft.metadata.snapshot import Record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kraft.protocol.messages.remove_topic_record import RemoveTopicRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.security.audit.kinds import AUDIT_TOPIC
from kraft_native.base.wire import CommonStructs

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
NAME_LENGTH_MAX: Final = 249
TOPICS_OF_A_STEP: Final = 8
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")

# Settings of new topics, by their overrides.
ConfigsByOverrides = dict[tuple[tuple[str, str], ...], CommonStructs]

# First versions in which CreateTopics returns the configs of new topics, and DeleteTopics has a code for "switched
# off".
_CONFIGS_SINCE: Final = 5
_DELETION_DISABLED_SINCE: Final = 3


def duplicates(names: Iterable[str]) -> list[str]:
    """Return names that occur more than once, in the order of their first occurrence."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return [name for name, count in counts.items() if count > 1]


def check_topic_name(name: str) -> None:
    """Refuse an invalid topic name with INVALID_TOPIC_EXCEPTION."""
    if not name:
        wrong = "it is empty"
    elif name in (".", ".."):
        wrong = "'.' and '..' are directories"
    elif len(name) > NAME_LENGTH_MAX:
        wrong = f"it has {len(name)} characters, {NAME_LENGTH_MAX} are allowed"
    elif not _NAME.fullmatch(name):
        wrong = "only ASCII letters, digits, '.', '_' and '-' are allowed"
    else:
        return
    raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name {name[:NAME_LENGTH_MAX]!r}: {wrong}")


# --- CreateTopics ---------------------------------------------------------------------------------------------------


def create_topics(
    context: Context, request: CreateTopicsRequest
) -> Generator[None, None, Decision[CreateTopicsResponse]]:
    """Create the topics of the request. With `validate_only` the answer is the same and nothing is created.

    POLICY_VIOLATION for the whole request when it has more partitions than one request may.
    """
    repeated = dict.fromkeys(duplicates(topic.name for topic in request.topics))
    wanted = [topic for topic in request.topics if topic.name not in repeated]
    check_partition_total(
        context, ((topic.num_partitions, len(topic.assignments)) for topic in wanted))
    records: list[Record] = []
    results: list[CreatableTopicResult] = []
    known: ConfigsByOverrides = {}
    ring = context.kept.result(ring_of, context.image.brokers)
    for number, topic in enumerate(wanted, 1):
        if number % TOPICS_OF_A_STEP == 0:
            yield
        try:
            topic_records, result = yield from _create_topic(context, topic, ring, len(records), known)
        except RefusedError as refusal:
            results.append(_failed(topic.name, refusal.error, refusal.message))
        else:
            records += topic_records
            results.append(result)
    results += (_failed(name, ErrorCode.INVALID_REQUEST, "the topic is named more than once") for name in repeated)
    return Decision(CreateTopicsResponse(topics=results), () if request.validate_only else records)


def check_partition_total(context: Context, topics: Iterable[tuple[int, int]]) -> None:
    """Refuse with POLICY_VIOLATION topics, as (count or -1, count of manual assignments), that have too many partitions
    together."""
    total = sum(assigned or (context.settings.default_partitions if count == -1 else max(0, count))
                for count, assigned in topics)
    if total > PARTITIONS_PER_REQUEST_MAX:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def _failed(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=text_of(code, message),
                                num_partitions=-1, replication_factor=-1, configs=[])


def _create_topic(
    context: Context, topic: CreatableTopic, ring: Ring, records_before: int,
    known: ConfigsByOverrides
) -> Generator[None, None, tuple[list[Record], CreatableTopicResult]]:
    image = context.image
    if topic.name in image.topic_ids:
        raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r} exists")
    check_topic_name(topic.name)
    if topic.name == CLUSTER_METADATA_TOPIC:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{CLUSTER_METADATA_TOPIC} is the metadata log and no topic")
    key = collision_key(topic.name)
    if key is not None and key in image.colliding:
        raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION,
                           f"topic {topic.name!r} collides with {image.colliding[key][0]!r}: "
                           "'.' and '_' are the same in names of metrics")
    configs, config_records = new_topic_configs(context, topic)
    partitions = yield from _partitions_of(context, topic, ring, context.next_offset + records_before)
    context.charge(len(partitions))
    topic_id = context.new_id()
    records = [Record(TopicRecord(name=topic.name, topic_id=topic_id)), *config_records]
    created = TopicImage(topic.name, topic_id, partitions)
    records += yield from partition_records(context, created, partitions)
    result = CreatableTopicResult(
        name=topic.name, topic_id=topic_id, error_message=None, num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas))
    if context.api_version >= _CONFIGS_SINCE:
        # Set and not given, because that copies it: a list that topics have in common is encoded once.
        result.configs = _all_configs(context, configs, known)
    return records, result


def _partitions_of(
    context: Context, topic: CreatableTopic, ring: Ring, rotation: int
) -> Generator[None, None, dict[int, PartitionRegistration]]:
    if topic.assignments:
        if topic.num_partitions != -1 or topic.replication_factor != -1:
            raise RefusedError(ErrorCode.INVALID_REQUEST,
                               "with a manual assignment partition count and replication factor must both be -1")
        indexes = [assignment.partition_index for assignment in topic.assignments]
        if sorted(indexes) != list(range(len(indexes))):
            raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                               "manually assigned partitions must be numbered from 0 on, each once")
        return (yield from assigned_partitions(
            context, {assignment.partition_index: assignment.broker_ids for assignment in topic.assignments}, None))
    if topic.replication_factor < -1 or topic.replication_factor == 0:
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR,
                           f"replication factor {topic.replication_factor}: at least 1, or -1 for the default")
    if topic.num_partitions < -1 or topic.num_partitions == 0:
        raise RefusedError(ErrorCode.INVALID_PARTITIONS,
                           f"partition count {topic.num_partitions}: at least 1, or -1 for the default")
    settings = context.settings
    count = settings.default_partitions if topic.num_partitions == -1 else topic.num_partitions
    replicas = settings.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
    return (yield from placed_partitions(context, ring, 0, count, replicas, rotation))


def _all_configs(
    context: Context, configs: Mapping[str, str], known: ConfigsByOverrides
) -> CommonStructs:
    """Return all settings of a new topic. Those of topics without overrides stay the same for a long time. `known`
    keeps the others for the topics of the request that have the same overrides."""
    layers = context.node_config(), context.image.config(CLUSTER_DEFAULT)
    if not configs:
        return context.kept.result(_common_configs, context.rules, *layers)
    key = tuple(configs.items())
    if key not in known:
        known[key] = CommonStructs(_reported(context.rules.topic_values(configs, *layers)))
    return known[key]


def _common_configs(rules: ConfigRules, broker: Mapping[str, str], cluster: Mapping[str, str]) -> CommonStructs:
    """Return all settings of topics without overrides."""
    return CommonStructs(_reported(rules.topic_values({}, broker, cluster)))


def _reported(values: Iterable[EffectiveConfig]) -> Iterator[CreatableTopicConfigs]:
    for value in values:
        yield CreatableTopicConfigs(
            name=value.name, value=None if value.sensitive else value.value, read_only=value.read_only,
            config_source=value.source, is_sensitive=value.sensitive)


def create_topics_refused(request: CreateTopicsRequest, code: ErrorCode, message: str | None) -> CreateTopicsResponse:
    """Return the same error for every topic."""
    return CreateTopicsResponse(topics=[
        _failed(name, code, message) for name in dict.fromkeys(topic.name for topic in request.topics)])


# --- DeleteTopics ---------------------------------------------------------------------------------------------------


def delete_topics(context: Context, request: DeleteTopicsRequest) -> Decision[DeleteTopicsResponse]:
    """Delete topics by name or id; each may be named once, and by only one of the two. A topic that is named by both is
    refused in one result, as in Kafka."""
    if not context.settings.delete_topics:
        raise RefusedError(ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= _DELETION_DISABLED_SINCE
                           else ErrorCode.INVALID_REQUEST, "delete.topic.enable is false")
    named: dict[str, int] = {}
    by_id: dict[UUID, int] = {}
    results: list[DeletableTopicResult] = []
    wanted: list[tuple[str | None, UUID]] = [(name, ZERO_ID) for name in request.topic_names]
    wanted += ((topic.name, topic.topic_id) for topic in request.topics)
    for name, topic_id in wanted:
        if name is not None and topic_id != ZERO_ID:
            results.append(_deleted(name, topic_id, ErrorCode.INVALID_REQUEST, "a topic is named by name or by id"))
        elif name is not None:
            named[name] = named.get(name, 0) + 1
        elif topic_id != ZERO_ID:
            by_id[topic_id] = by_id.get(topic_id, 0) + 1
        else:
            results.append(_deleted(None, ZERO_ID, ErrorCode.INVALID_REQUEST, "neither a name nor an id is given"))
    records: list[Record] = []
    for name, count in named.items():
        results.append(_delete_by_name(context, name, count, by_id, records))
    for topic_id, count in by_id.items():
        result = _delete_by_id(context, topic_id, count, named, records)
        if result is not None:
            results.append(result)
    return Decision(DeleteTopicsResponse(responses=results), records)


def _deleted(
    name: str | None, topic_id: UUID, code: ErrorCode = ErrorCode.NONE, message: str | None = None
) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=text_of(code, message))


def _delete_by_name(
    context: Context, name: str, count: int, by_id: Mapping[UUID, int], records: list[Record]
) -> DeletableTopicResult:
    topic_id = context.image.topic_ids.get(name)
    if count > 1:
        return _deleted(name, ZERO_ID, ErrorCode.INVALID_REQUEST, "the topic is named more than once")
    if topic_id is None:
        return _deleted(name, ZERO_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic_id in by_id:
        return _deleted(name, topic_id, ErrorCode.INVALID_REQUEST, "the topic is named by its id too")
    return _delete(context, context.image.topics[topic_id], records)


def _delete_by_id(
    context: Context, topic_id: UUID, count: int, named: Mapping[str, int], records: list[Record]
) -> DeletableTopicResult | None:
    """Return the result; None for a topic that has its result by its name."""
    topic = context.image.topics.get(topic_id)
    if count > 1:
        return _deleted(None, topic_id, ErrorCode.INVALID_REQUEST, "the id is given more than once")
    if topic is None:
        return _deleted(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    return None if named.get(topic.name) == 1 else _delete(context, topic, records)


def _delete(context: Context, topic: TopicImage, records: list[Record]) -> DeletableTopicResult:
    if topic.name == AUDIT_TOPIC and not context.settings.has_authorizer:
        # With ACLs only those that they name can delete it; without, anybody could remove the traces.
        return _deleted(topic.name, topic.topic_id, ErrorCode.INVALID_TOPIC_EXCEPTION,
                        f"{AUDIT_TOPIC} has the audit, which clients may delete only where ACLs allow it")
    try:
        context.charge(len(topic.partitions))
    except RefusedError as refusal:
        return _deleted(topic.name, topic.topic_id, refusal.error, refusal.message)
    records.append(Record(RemoveTopicRecord(topic_id=topic.topic_id)))
    return _deleted(topic.name, topic.topic_id)


def delete_topics_refused(request: DeleteTopicsRequest, code: ErrorCode, message: str | None) -> DeleteTopicsResponse:
    """Return the same error for every topic."""
    results = [_deleted(name, ZERO_ID, code, message) for name in request.topic_names]
    results += (_deleted(topic.name, topic.topic_id, code, message) for topic in request.topics)
    return DeleteTopicsResponse(responses=results)
