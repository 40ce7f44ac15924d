"""DescribeLogDirs (key 35), versions 1 to 5: the log directories, their space, and the sizes of the logs in them."""

from collections import defaultdict

from kraft.broker.api import Answer, RequestContext, serves
from kraft.broker.broker import Broker
from kraft.broker.ports import LogDirUsage
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


@serves("DescribeLogDirs")
def describe_log_dirs(broker: Broker, request: DescribeLogDirsRequest, _context: RequestContext,
                      answer: Answer) -> None:
    """All logs when no topics are given; a topic without partitions means all of its partitions here."""
    broker.table.settle()
    wanted = None if request.topics is None else {topic.topic: list(topic.partitions) for topic in request.topics}
    cordoned = broker.setting("cordoned.log.dirs")
    names = cordoned if isinstance(cordoned, list) else []
    answer(DescribeLogDirsResponse(results=[
        _directory(each, wanted, cordoned="*" in names or each.path in names) for each in broker.log_dirs.usage()]))


def _directory(usage: LogDirUsage, wanted: dict[str, list[int]] | None, *, cordoned: bool) -> DescribeLogDirsResult:
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for topic, index, size in sorted(usage.logs):
        if wanted is None or (topic in wanted and (not wanted[topic] or index in wanted[topic])):
            topics[topic].append(DescribeLogDirsPartition(partition_index=index, partition_size=size))
    return DescribeLogDirsResult(
        error_code=usage.error, log_dir=usage.path, total_bytes=usage.total_bytes, usable_bytes=usage.usable_bytes,
        is_cordoned=cordoned,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()])
