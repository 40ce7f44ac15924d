"""AlterReplicaLogDirs (key 34), versions 1 to 2: puts replicas into other log directories of this broker.

A replica that lies where it shall is a success. Moving one is not done here: OPERATION_NOT_ATTEMPTED.
"""

from collections import defaultdict

from kraft.broker.api import Answer, RequestContext, serves
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from kraft.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


@serves("AlterReplicaLogDirs")
def alter_replica_log_dirs(broker: Broker, request: AlterReplicaLogDirsRequest, _context: RequestContext,
                           answer: Answer) -> None:
    """Each replica on its own."""
    broker.table.settle()
    usages = broker.log_dirs.usage()
    homes = {(topic, index): each.path for each in usages for topic, index, _ in each.logs}
    paths = [each.path for each in usages]
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = defaultdict(list)
    for wanted in request.dirs:
        for topic in wanted.topics:
            for index in topic.partitions:
                code = _outcome(homes.get((topic.name, index)), wanted.path, paths)
                results[topic.name].append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    answer(AlterReplicaLogDirsResponse(results=[
        AlterReplicaLogDirTopicResult(topic_name=name, partitions=partitions) for name, partitions in results.items()]))


def _outcome(home: str | None, wanted: str, paths: list[str]) -> ErrorCode:
    if wanted not in paths:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if home is None:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE if home == wanted else ErrorCode.OPERATION_NOT_ATTEMPTED
