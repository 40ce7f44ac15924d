"""Costly batches are checked by another thread: which thread checks, which order is kept, and what may change
meanwhile."""

import os
import random
import select
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft_native.batch.batch import walk
from kraft_native.segment.config import LogConfig
from kraft_native.serve.produce import DeferredProduce, ProduceHandler
from tests.native.logs import batch, read_all
from tests.native.serve.test_produce_connection import PRODUCE, VERSION, base_offset
from tests.native.serving import Node, produce_response, produced, serving
from tests.native.wires import METADATA, Bench, replies, request

CODECS = ("gzip", "snappy", "lz4", "zstd")
COSTLY = {codec: batch(400, value=bytes(1000), codec=codec) for codec in CODECS}
BOMB = batch(1, value=random.Random(1).randbytes(4096) + bytes(8 << 20), codec="zstd")


class Helper:
    """Run the submitted work in a thread of its own when the test requests it."""

    def __init__(self) -> None:
        self.queue: list[DeferredProduce] = []
        self.threads: list[int] = []
        self.failures: list[BaseException] = []

    def step(self) -> None:
        deferred = self.queue.pop(0)
        thread = threading.Thread(target=deferred.run)
        thread.start()
        thread.join()
        self.threads.append(deferred.check.thread_id)
        deferred.resume()


@pytest.fixture
def helper() -> Helper:
    return Helper()


@pytest.fixture
def node(tmp_path: Path, helper: Helper) -> Iterator[Node]:
    with serving(tmp_path) as made:
        made.produce_handler = ProduceHandler(made.table, helper.queue.append, on_failure=helper.failures.append)
        yield made


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("acks", [1, -1])
def test_it_is_another_thread_that_checks(node: Node, helper: Helper, codec: str, acks: int) -> None:
    partition = node.partition()
    reply = node.produce(COSTLY[codec], acks=acks)
    assert not reply.answered and partition.log.log_end_offset == 0
    helper.step()
    answer = produced(reply)
    assert (answer.error_code, answer.base_offset, partition.log.log_end_offset) == (ErrorCode.NONE, 0, 400)
    assert helper.threads != [threading.get_ident()]
    [stored] = walk(read_all(partition.log))
    assert (stored.codec, stored.record_count) == (codec, 400)


@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_cheap_batches_stay_on_the_loop(node: Node, helper: Helper, codec: str) -> None:
    node.partition()
    assert produced(node.produce(batch(20, value=bytes(1000), codec=codec))).error_code == ErrorCode.NONE
    assert produced(node.produce(batch(400, value=bytes(1000)))).base_offset == 20
    assert helper.queue == []


def test_a_small_batch_that_becomes_large_is_costly(node: Node, helper: Helper) -> None:
    node.partition(max_message_bytes=1 << 20)
    assert len(BOMB) < 64 << 10
    reply = node.produce(BOMB)
    assert not reply.answered
    helper.step()
    assert produced(reply).error_code == ErrorCode.NONE


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_encoding_again_is_costly_sooner(node: Node, helper: Helper, codec: str) -> None:
    partition = node.partition(compression_type="gzip")
    reply = node.produce(batch(100, value=bytes(1000), codec=codec))
    assert not reply.answered
    helper.step()
    assert produced(reply).base_offset == 0
    assert [each.codec for each in walk(read_all(partition.log))] == ["gzip"]
    assert produced(node.produce(batch(10, value=bytes(1000), codec=codec))).base_offset == 100


def test_refusals_are_the_same(node: Node, helper: Helper) -> None:
    partition = node.partition(message_timestamp_after_max_ms=1, message_timestamp_before_max_ms=1)
    broken = bytearray(COSTLY["zstd"])
    broken[-1] ^= 1
    corrupt, untimely = node.produce(bytes(broken)), node.produce(COSTLY["gzip"])
    assert produced(corrupt).error_code == ErrorCode.CORRUPT_MESSAGE     # checksums are cheap: checked at once
    helper.step()
    answer = produced(untimely)
    assert (answer.error_code, len(answer.record_errors)) == (ErrorCode.INVALID_TIMESTAMP, 100)       # the first of 400
    assert partition.log.log_end_offset == 0 and partition.refused_produces == 2


def test_partitions_of_a_request_keep_their_outcomes(node: Node, helper: Helper) -> None:
    for index in range(4):
        node.partition("t", index, durability="group-commit" if index == 1 else "page-cache")
    assert node.flusher is not None and node.flusher.eventfd >= 0
    data = [batch(1), batch(2), COSTLY["lz4"], COSTLY["snappy"]]
    body = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[
        TopicProduceData(name="unknown", partition_data=[PartitionProduceData(index=0, records=batch())]),
        TopicProduceData(name="t", partition_data=[
            PartitionProduceData(index=index, records=records) for index, records in enumerate(data)])]).encode(7)
    reply = node.produce_body(body, 7)
    other = produced(node.produce(batch(5)))
    assert other.base_offset == 1                # another request, meanwhile
    helper.step()
    helper.step()
    select.select([node.flusher.eventfd], [], [], 10)
    os.eventfd_read(node.flusher.eventfd)
    node.purgatory.flush_done()
    unknown, known = produce_response(reply).responses
    assert unknown.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(each.index, each.error_code, each.base_offset) for each in known.partition_responses] == [
        (index, 0, 0) for index in range(4)]


def test_settings_that_changed_meanwhile_count(node: Node, helper: Helper) -> None:
    partition = node.partition()
    reply = node.produce(COSTLY["zstd"])
    partition.reconfigure(LogConfig(compression_type="lz4"))
    helper.step()
    assert not reply.answered                    # checked again, by the new settings
    helper.step()
    assert produced(reply).error_code == ErrorCode.NONE
    assert [each.codec for each in walk(read_all(partition.log))] == ["lz4"]


def test_leaders_and_topics_that_went_meanwhile_are_noticed(node: Node, helper: Helper) -> None:
    partition = node.partition()
    moved = node.produce(COSTLY["zstd"])
    partition.become_follower(1, 7)
    helper.step()
    assert produced(moved).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.become_leader(2, node_id=1)
    deleted = node.produce(COSTLY["zstd"])
    node.table.remove("t", 0)
    helper.step()
    assert produced(deleted).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition.log.close()


def test_a_batch_that_nobody_checked_is_a_fault_of_ours(node: Node, helper: Helper) -> None:
    node.partition()
    node.produce(COSTLY["zstd"])
    helper.queue.pop().resume()
    assert [type(each) for each in helper.failures] == [AssertionError]


def test_a_retry_on_another_connection_is_a_duplicate(node: Node, helper: Helper) -> None:
    partition = node.partition()
    data = batch(400, value=bytes(1000), codec="gzip", producer_id=7, producer_epoch=0, base_sequence=0)
    first, again = node.produce(data), node.produce(data)
    helper.step()
    helper.step()
    assert produced(first).base_offset == produced(again).base_offset == 0
    assert partition.log.log_end_offset == 400


# --- behind a connection


@pytest.fixture
def bench(node: Node) -> Iterator[Bench]:
    node.partition()
    made = Bench()
    made.channel.serve(PRODUCE, 3, 13, 9, node.produce_handler)
    yield made
    assert made.memory.used_bytes == 0
    made.end()
    assert made.failures == []


def produce(correlation_id: int, records: bytes, acks: int = 1) -> bytes:
    body = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[
        TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=records)])])
    return request(PRODUCE, VERSION, correlation_id, body.encode(VERSION))


def test_a_connection_keeps_its_order_and_others_go_on(bench: Bench, node: Node, helper: Helper) -> None:
    wire, other = bench.connect(), bench.connect()
    wire.feed(produce(1, COSTLY["lz4"]) + produce(2, batch(1)) + produce(3, COSTLY["zstd"], acks=0)
              + produce(4, batch(2)) + request(METADATA, 1, 5))
    assert wire.received == b"" and bench.requests == [] and bench.memory.used_bytes > 0
    other.feed(produce(1, batch(10)))
    assert [base_offset(body) for _, body in replies(other.received)] == [0]
    helper.step()
    bench.settle()
    assert [(number, base_offset(body)) for number, body in replies(wire.received)] == [(1, 10), (2, 410)]
    assert bench.requests == []
    helper.step()
    bench.settle()
    assert [(number, base_offset(body)) for number, body in replies(wire.received)] == [(1, 10), (2, 410), (4, 811)]
    assert len(bench.requests) == 1
    bench.requests[0][0].answer(b"", 0)
    bench.settle()


def test_records_arrive_although_their_connection_is_closed(bench: Bench, node: Node, helper: Helper) -> None:
    wire = bench.connect()
    wire.feed(produce(1, COSTLY["lz4"], acks=0))
    wire.close()
    assert bench.memory.used_bytes == 0
    helper.step()
    [partition] = node.table
    assert partition.log.log_end_offset == 400
