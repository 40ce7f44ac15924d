"""DescribeTopicPartitions (key 75), version 0: topics in the order of their names, in pages with a cursor (KIP-966)."""

from bisect import bisect_left
from collections.abc import Collection, Generator
from functools import partial
from itertools import compress
from operator import not_
from typing import NamedTuple

from kraft.broker.api import Answer, RequestContext, Steps, counted_steps, each_step, sorted_steps
from kraft.broker.authorized import may_describe_topic, topic_operations
from kraft.broker.broker import Broker
from kraft.broker.internal_topics import is_internal
from kraft.broker.topic_views import absence_of, named_leader, offline_replicas
from kraft.metadata.image import PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from kraft.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kraft.security.access import Access


class _Page(NamedTuple):
    """Partitions of one answer, by topic, the start of the next page, and requested topics that the client may not
    describe."""

    topics: list[tuple[str, list[int]]]
    cursor: Cursor | None = None
    denied: tuple[str, ...] = ()


def describe_topic_partitions(broker: Broker, request: DescribeTopicPartitionsRequest, context: RequestContext,
                              answer: Answer) -> Steps:
    """Answer with at most as many partitions as client and broker allow. The cursor names the start of the next page: a
    partition of a requested topic. A leader whose process has ended is not named (`kraft.broker.leader_checks`)."""
    requested = yield from counted_steps(topic.name for topic in request.topics)
    if request.cursor is not None and (
            request.cursor.partition_index < 0 or (requested and request.cursor.topic_name not in requested)):
        answer(DescribeTopicPartitionsResponse(topics=(yield from each_step(_invalid, request.topics))))
        return
    page = yield from _page(broker, request, requested, context.access)
    image = broker.image
    leaders: dict[int, None] = {}
    for name, indexes in page.topics:
        topic = image.topic(name)
        if topic is not None:
            leaders.update(dict.fromkeys(topic.partitions[index].leader for index in indexes))
        yield
    broker.leaders.submit(leaders, lambda ended: context.run(_respond(broker, context, page, ended, answer)))


def _invalid(topic: TopicRequest) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)


def _page(broker: Broker, request: DescribeTopicPartitionsRequest,
          requested: Collection[str], access: Access | None) -> Generator[None, None, _Page]:
    room = min(max(request.response_partition_limit, 1), broker.integer("max.request.partition.size.limit"))
    names = yield from sorted_steps(requested or broker.image.topic_ids)
    first = 0
    if request.cursor is not None:
        names = names[bisect_left(names, request.cursor.topic_name):]
        if names and names[0] == request.cursor.topic_name:
            first = request.cursor.partition_index
    denied: list[str] = []
    if access is not None:
        visible = yield from each_step(partial(may_describe_topic, access), names)
        denied = list(compress(names, map(not_, visible))) if requested else []
        if names and not visible[0]:
            first = 0
        names = list(compress(names, visible))
    page = _Page([], denied=tuple(denied))
    for number, name in enumerate(names):
        found = broker.image.topic(name)
        start = first if number == 0 else 0
        indexes = [] if found is None else [index for index in sorted(found.partitions) if index >= start]
        chosen = indexes[:room]
        page.topics.append((name, chosen))
        yield
        room -= len(chosen)
        if len(chosen) < len(indexes):
            return page._replace(cursor=Cursor(topic_name=name, partition_index=start + len(chosen)))
        if room == 0 and number + 1 < len(names):
            return page._replace(cursor=Cursor(topic_name=names[number + 1], partition_index=0))
    return page


def _respond(broker: Broker, context: RequestContext, page: _Page, ended: tuple[int, ...], answer: Answer) -> Steps:
    topics = []
    for name, indexes in page.topics:
        topics.append((yield from _topic(broker, context, name, indexes, ended)))
        yield
    topics += yield from each_step(_denied, page.denied)
    answer(DescribeTopicPartitionsResponse(topics=topics, next_cursor=page.cursor))


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name)


def _topic(broker: Broker, context: RequestContext, name: str, indexes: list[int],
           ended: tuple[int, ...]) -> Generator[None, None, DescribeTopicPartitionsResponseTopic]:
    found = broker.image.topic(name)
    if found is None:
        return DescribeTopicPartitionsResponseTopic(
            error_code=absence_of(name), name=name, topic_authorized_operations=topic_operations(context.access, name))
    # It may have been deleted and created again meanwhile.
    partitions = yield from each_step(
        lambda index: _partition(broker, context, index, found.partitions[index], ended),
        [index for index in indexes if index in found.partitions])
    return DescribeTopicPartitionsResponseTopic(
        name=name, topic_id=found.topic_id, is_internal=is_internal(name), partitions=partitions,
        topic_authorized_operations=topic_operations(context.access, name))


def _partition(broker: Broker, context: RequestContext, index: int, found: PartitionRegistration,
               ended: tuple[int, ...]) -> DescribeTopicPartitionsResponsePartition:
    code, leader = named_leader(broker, found, context.listener, ended)
    return DescribeTopicPartitionsResponsePartition(
        error_code=code, partition_index=index, leader_id=leader, leader_epoch=found.leader_epoch,
        replica_nodes=found.replicas, isr_nodes=found.isr, eligible_leader_replicas=found.elr,
        last_known_elr=found.last_known_elr, offline_replicas=offline_replicas(broker, found))
