"""One request through its handler: Produce of one record, Fetch of 64 KiB and 1 MiB, with and without transactions.

`extra_info` has microseconds per request in the median round. The reply object and a sink in Python are included;
"reply alone" shows their share.
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
TIME_MS = 1_700_000_000_000


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
    builder.append(b"x" * 100, timestamp_ms=TIME_MS)
    body = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(
        name="t" if version < 13 else "", topic_id=TOPIC_ID,
        partition_data=[PartitionProduceData(index=0, records=builder.build())])]).encode(version)
    handler = ProduceHandler(parts[1])
    measure(benchmark, 0, version, lambda reply: handler.handle_bytes(reply, body))


@pytest.mark.parametrize("acks", [1, -1])
def test_produce_into_an_open_transaction(benchmark, parts, acks):
    """Compare with `test_produce_one_record`: the price of a producer's state and of its open transaction."""
    parts[0].append(transactional(0, 0))
    bodies = iter([ProduceRequest(transactional_id="x", acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(
        name="t", partition_data=[PartitionProduceData(index=0, records=transactional(0, number))])]).encode(12)
        for number in range(1, 17 * REQUESTS_PER_ROUND + 1)])
    handler = ProduceHandler(parts[1])
    measure(benchmark, 0, 12, lambda reply: handler.handle_bytes(reply, next(bodies)))
    assert parts[0].log.log_end_offset == 17 * REQUESTS_PER_ROUND + 1


def transactional(epoch, sequence):
    builder = BatchBuilder(transactional=True)
    builder.append(b"x" * 100, timestamp_ms=TIME_MS)
    return builder.build(producer_id=7, producer_epoch=epoch, base_sequence=sequence)


@pytest.mark.parametrize("isolation_level", [0, 1], ids=["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("per_transaction", [1, 100])
@pytest.mark.parametrize("size", [64 << 10, 1 << 20], ids=["64 KiB", "1 MiB"])
def test_fetch_of_transactions(benchmark, parts, size, per_transaction, isolation_level):
    """Every tenth transaction is aborted. A read of committed records may take 5 % more than one of all."""
    epoch = number = 0
    while parts[0].log.size_bytes < 4 << 20:
        for sequence in range(per_transaction):
            parts[0].append(transactional(epoch, sequence))
        epoch, number = (epoch + 1) % 30_000, number + 1
        parts[0].append_marker(7, epoch, 0, number % 10 != 0, transaction_version=2, now_ms=TIME_MS)
    body = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, isolation_level=isolation_level, topics=[
        FetchTopic(topic_id=TOPIC_ID, partitions=[FetchPartition(partition=0, fetch_offset=10,
                                                                 partition_max_bytes=size)])]).encode(16)
    handler = FetchHandler(parts[1], SessionCache())
    measure(benchmark, 1, 16, lambda reply: handler.handle_bytes(reply, body), 200)


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
