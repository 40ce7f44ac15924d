"""DescribeLogDirs (key 35), versions 1 to 5: the log directories, their space, the sizes of the logs in them,
and how far those have come that move here from another directory."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

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
    wanted = None if request.topics is None else {topic.topic: tuple(topic.partitions) for topic in request.topics}
    answer(DescribeLogDirsResponse(results=[
        _directory(each, wanted, cordoned=broker.is_cordoned(each.path)) for each in broker.log_dirs.usage()]))


def _directory(usage: LogDirUsage, wanted: Mapping[str, Sequence[int]] | None, *,
               cordoned: bool) -> DescribeLogDirsResult:
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for each in sorted(usage.logs):
        partitions = None if wanted is None else wanted.get(each.topic, (-1,))
        if not partitions or each.partition in partitions:
            topics[each.topic].append(DescribeLogDirsPartition(
                partition_index=each.partition, partition_size=each.size_bytes, offset_lag=each.offset_lag,
                is_future_key=each.is_future))
    return DescribeLogDirsResult(
        error_code=usage.error, log_dir=usage.path, total_bytes=usage.total_bytes, usable_bytes=usage.usable_bytes,
        is_cordoned=cordoned,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()])
