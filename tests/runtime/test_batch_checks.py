"""Costly batches on a real node: they are answered, and it was the helper's thread that checked them."""

import asyncio
import threading

from kraft.load.measure import create_topic
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.runtime.batch_checks import BatchChecks
from tests.native.test_costly_batches import COSTLY
from tests.runtime.nodes import config, with_node


def test_a_costly_batch_is_answered(tmp_path):
    def work(cluster, node):
        create_topic(cluster, "events", partitions=1)
        request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(
            name="events", partition_data=[PartitionProduceData(index=0, records=COSTLY["lz4"])])])
        answers = [cluster.leader("events", 0).send(request, ProduceResponse, version=9) for _ in range(2)]
        return [each.responses[0].partition_responses[0] for each in answers], node.batch_checks.total

    answers, checked = with_node(config(tmp_path), work)
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 400)]
    assert checked == 2


def test_work_runs_beside_the_loop_and_a_fault_after_it_is_told():
    threads, failures = [], []

    async def main():
        checks, ended = BatchChecks(failures.append), asyncio.Event()

        def done():
            threads.append(threading.current_thread())
            ended.set()
            raise ValueError("a fault")

        checks.offload(lambda: threads.append(threading.current_thread()), done)
        await ended.wait()
        await asyncio.sleep(0)
        checks.close()
        checks.close()

    asyncio.run(main())
    assert threads[0].name.startswith("kraft-batch-checks")
    assert threads[1] is threading.main_thread()
    assert [type(each) for each in failures] == [ValueError]


def test_what_ends_after_the_close_is_dropped():
    done = []

    async def main():
        checks, begun, go = BatchChecks(done.append), threading.Event(), threading.Event()

        def work():
            begun.set()
            go.wait(10)

        checks.offload(work, lambda: done.append("first"))
        checks.offload(lambda: None, lambda: done.append("second"))
        begun.wait(10)
        threading.Timer(0, go.set).start()
        checks.close()
        await asyncio.sleep(0)

    asyncio.run(main())
    assert done == []
