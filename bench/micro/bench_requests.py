"""One request through its handler: Produce of one record, Fetch of 64 KiB and 1 MiB. `extra_info` has microseconds per
request in the median round. The reply object and a sink in Python are included; "reply alone" shows their share.
"""

import statistics
from uuid import UUID

import pytest

from bench.micro.bench_log import batch_of
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft_native.batch.records import BatchBuilder
from kraft_native.facade.log import Log
from kraft_native.partition.cold_read import ColdReader
from kraft_native.partition.partition import Partition
from kraft_native.partition.purgatory import Purgatory
from kraft_native.partition.table import PartitionTable
from kraft_native.request.reply import Reply, ReplySink
from kraft_native.segment.config import LogConfig
from kraft_native.serve.fetch import FetchHandler
from kraft_native.serve.fetch_session import SessionCache
from kraft_native.serve.produce import ProduceHandler

TOPIC_ID = UUID(int=7)
REQUESTS_PER_ROUND = 2_000


class Sink(ReplySink):
    def reply_finished(self, _reply):
        return 0


def measure(benchmark, key, version, handle, requests=REQUESTS_PER_ROUND):
    sink = Sink()

    def run():
        for number in range(requests):
            handle(Reply(sink, key, version, number))

    benchmark.pedantic(run, rounds=15, warmup_rounds=2)
    benchmark.extra_info["us per request"] = round(statistics.median(benchmark.stats.stats.data) / requests * 1e6, 2)


@pytest.fixture
def parts(tmp_path):
    with Log(tmp_path / "t-0", LogConfig()) as log:
        partition = Partition(log, "t", TOPIC_ID.bytes, 0)
        table = PartitionTable(Purgatory())
        table.add(partition)
        partition.become_leader(0, node_id=1)
        yield partition, table


def test_reply_alone(benchmark):
    parts = [b"reply"]
    measure(benchmark, 0, 12, lambda reply: reply.finish(parts))


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [7, 12, 13])
def test_produce_one_record(benchmark, parts, version, acks):
    builder = BatchBuilder()
    builder.append(b"x" * 100, timestamp_ms=1_700_000_000_000)
    body = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(
        name="t" if version < 13 else "", topic_id=TOPIC_ID,
        partition_data=[PartitionProduceData(index=0, records=builder.build())])]).encode(version)
    handler = ProduceHandler(parts[1])
    measure(benchmark, 0, version, lambda reply: handler.handle_bytes(reply, body))


@pytest.mark.parametrize("checks_memory", [False, True], ids=["", "checking what is in memory"])
@pytest.mark.parametrize("batch_bytes", [200, 16 << 10], ids=["200 B batches", "16 KiB batches"])
@pytest.mark.parametrize("size", [1, 64 << 10, 1 << 20], ids=["one batch", "64 KiB", "1 MiB"])
def test_fetch(benchmark, parts, size, batch_bytes, checks_memory):
    data = batch_of(batch_bytes)
    for _ in range((4 << 20) // len(data)):
        parts[0].append(data)
    body = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, isolation_level=1, topics=[FetchTopic(
        topic_id=TOPIC_ID, partitions=[FetchPartition(partition=0, fetch_offset=10, partition_max_bytes=size)],
    )]).encode(16)
    cold_reader = ColdReader() if checks_memory else None
    handler = FetchHandler(parts[1], SessionCache(), cold_reader)
    measure(benchmark, 1, 16, lambda reply: handler.handle_bytes(reply, body), 200)
    if cold_reader is not None:
        cold_reader.close()
