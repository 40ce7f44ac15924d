"""DescribeTopicPartitions (key 75), version 0: topics in the order of their names, in pages with a cursor (KIP-966)."""

from bisect import bisect_left
from collections.abc import Generator

from kraft.broker.api import Answer, RequestContext, Steps, each_step, serves, sorted_steps
from kraft.broker.authorized import TOPIC_OPERATIONS
from kraft.broker.broker import Broker
from kraft.broker.internal_topics import is_internal
from kraft.broker.topic_views import absence_of, offline_replicas, partition_error
from kraft.metadata.image import PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from kraft.protocol.messages.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


@serves("DescribeTopicPartitions")
def describe_topic_partitions(broker: Broker, request: DescribeTopicPartitionsRequest, context: RequestContext,
                              answer: Answer) -> Steps:
    """At most as many partitions as client and broker allow; the cursor says where the next page begins: at a partition
    of a topic that is asked for."""
    room = min(max(request.response_partition_limit, 1), broker.integer("max.request.partition.size.limit"))
    asked = [topic.name for topic in request.topics]
    names = yield from sorted_steps(dict.fromkeys(asked) if asked else broker.image.topic_ids)
    first = 0
    if request.cursor is not None:
        if request.cursor.partition_index < 0 or (asked and request.cursor.topic_name not in asked):
            answer(DescribeTopicPartitionsResponse(topics=[
                DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
                for name in asked]))
            return
        names = names[bisect_left(names, request.cursor.topic_name):]
        if names and names[0] == request.cursor.topic_name:
            first = request.cursor.partition_index
    topics = []
    for number, name in enumerate(names):
        start = first if number == 0 else 0
        topic, taken, rest = yield from _topic(broker, context, name, start, room)
        topics.append(topic)
        yield
        room -= taken
        cursor = Cursor(topic_name=name, partition_index=start + taken) if rest else None
        if cursor is None and room == 0 and number + 1 < len(names):
            cursor = Cursor(topic_name=names[number + 1], partition_index=0)
        if cursor is not None:
            answer(DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor))
            return
    answer(DescribeTopicPartitionsResponse(topics=topics))


def _topic(broker: Broker, context: RequestContext, name: str, start: int,
           room: int) -> Generator[None, None, tuple[DescribeTopicPartitionsResponseTopic, int, bool]]:
    """The topic with at most `room` partitions, how many these are, and whether there are more."""
    found = broker.image.topic(name)
    if found is None:
        missing = DescribeTopicPartitionsResponseTopic(
            error_code=absence_of(name), name=name, topic_authorized_operations=TOPIC_OPERATIONS)
        return missing, 0, False
    indexes = [index for index in sorted(found.partitions) if index >= start]
    chosen = indexes[:room]
    partitions = yield from each_step(
        lambda index: _partition(broker, context, index, found.partitions[index]), chosen)
    topic = DescribeTopicPartitionsResponseTopic(
        name=name, topic_id=found.topic_id, is_internal=is_internal(name),
        partitions=partitions,
        topic_authorized_operations=TOPIC_OPERATIONS)
    return topic, len(chosen), len(chosen) < len(indexes)


def _partition(broker: Broker, context: RequestContext, index: int,
               found: PartitionRegistration) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=partition_error(broker, found, context.listener), partition_index=index, leader_id=found.leader,
        leader_epoch=found.leader_epoch, replica_nodes=found.replicas, isr_nodes=found.isr,
        eligible_leader_replicas=found.elr, last_known_elr=found.last_known_elr,
        offline_replicas=offline_replicas(broker, found))
