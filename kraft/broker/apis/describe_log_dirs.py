"""DescribeLogDirs (key 35), versions 1 to 5: the log directories, their space, and the sizes of their logs.

For logs that are being moved here from another directory the answer has the progress."""

from collections import defaultdict
from collections.abc import Generator, Mapping
from typing import Final

from kraft.broker.api import Answer, RequestContext, Steps, counted_steps, sorted_steps
from kraft.broker.broker import Broker
from kraft.broker.ports import LogDirUsage
from kraft.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kraft.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

NONE: Final = {-1: None}
"""Partitions of a topic that the request does not name."""


def describe_log_dirs(broker: Broker, request: DescribeLogDirsRequest, _context: RequestContext,
                      answer: Answer) -> Steps:
    """Answer with all logs when no topics are given; a topic without partitions means all of its partitions here."""
    while broker.table.settle():
        yield
    wanted: dict[str, dict[int, int]] | None = None
    if request.topics is not None:
        wanted = {}
        for topic in request.topics:
            wanted[topic.topic] = yield from counted_steps(topic.partitions)
            yield
    response = DescribeLogDirsResponse()
    for each in broker.log_dirs.usage():
        result = yield from _directory(each, wanted, cordoned=broker.is_cordoned(each.path))
        response.results.append(result)
    answer(response)


def _directory(usage: LogDirUsage, wanted: Mapping[str, Mapping[int, int]] | None, *,
               cordoned: bool) -> Generator[None, None, DescribeLogDirsResult]:
    topics: dict[str, list[DescribeLogDirsPartition]] = defaultdict(list)
    for each in (yield from sorted_steps(usage.logs)):
        yield
        partitions = None if wanted is None else wanted.get(each.topic, NONE)
        if not partitions or each.partition in partitions:
            topics[each.topic].append(DescribeLogDirsPartition(
                partition_index=each.partition, partition_size=each.size_bytes, offset_lag=each.offset_lag,
                is_future_key=each.is_future))
    return DescribeLogDirsResult(
        error_code=usage.error, log_dir=usage.path, total_bytes=usage.total_bytes, usable_bytes=usage.usable_bytes,
        is_cordoned=cordoned,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()])
