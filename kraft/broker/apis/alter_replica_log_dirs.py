"""AlterReplicaLogDirs (key 34), versions 1 to 2: puts replicas into other log directories of this broker (KIP-113).

Success means that the move has begun, or that nothing has to move; DescribeLogDirs reports the progress. Naming the
directory that a replica lies in ends a move of it.

A replica that is not here yet (REPLICA_NOT_AVAILABLE), or whose topic does not exist (UNKNOWN_TOPIC_OR_PARTITION), is
created in that directory when it arrives. A cordoned directory accepts none (INVALID_REPLICA_ASSIGNMENT).
"""

from collections import defaultdict

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from kraft.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def alter_replica_log_dirs(broker: Broker, request: AlterReplicaLogDirsRequest, _context: RequestContext,
                           answer: Answer) -> Steps:
    """Move each replica on its own. The last mention of a replica counts, as in Kafka."""
    while broker.table.settle():
        yield
    paths: dict[tuple[str, int], str] = {}
    for wanted in request.dirs:
        for topic in wanted.topics:
            for index in topic.partitions:
                paths[topic.name, index] = wanted.path
                yield
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for (name, index), path in paths.items():
        code = broker.moves.alter(name, index, path)
        results[name].append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
        yield
    answer(AlterReplicaLogDirsResponse(results=[
        AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions) for name, partitions in results.items()]))
