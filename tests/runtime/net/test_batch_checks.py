"""Costly batches on a real node: they are answered, and the helper's thread checked them."""

import asyncio
import threading

from kraft.client.producer import produce_request
from kraft.client.topics import create_topic
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft.runtime.net.batch_checks import BatchChecks
from kraft.runtime.net.host_shares import HostShares
from tests.native.log.test_costly_batches import COSTLY
from tests.runtime.nodes import config, with_node


def test_a_costly_batch_is_answered(tmp_path, monkeypatch):
    hosts = []
    add = HostShares.add
    monkeypatch.setattr(HostShares, "add", lambda self, work: (hosts.append(work.peer_host), add(self, work)))

    def work(cluster, node):
        create_topic(cluster, "events", partitions=1)
        request = produce_request({("events", 0): COSTLY["lz4"]}, -1, 5000)
        answers = [cluster.leader("events", 0).send(request, ProduceResponse, version=9) for _ in range(2)]
        return [each.responses[0].partition_responses[0] for each in answers], node.parts.path.batch_checks.total

    answers, checked = with_node(config(tmp_path), work)
    assert [(each.error_code, each.base_offset) for each in answers] == [(ErrorCode.NONE, 0), (ErrorCode.NONE, 400)]
    assert checked == 2
    assert hosts == ["127.0.0.1"] * 2


class Check:
    """Notes the threads in which it was called."""

    def __init__(self, run=lambda: None, resume=lambda: None, peer_host="10.0.0.1"):
        self.peer_host = peer_host
        self.threads = []
        self._run, self._resume = run, resume

    def run(self):
        self.threads.append(threading.current_thread())
        self._run()

    def resume(self):
        self.threads.append(threading.current_thread())
        self._resume()


def test_it_runs_beside_the_loop_and_continues_there():
    async def main():
        checks, ended = BatchChecks(), asyncio.Event()
        check = Check(resume=ended.set)
        checks.offload(check)
        await ended.wait()
        checks.close()
        checks.close()
        return check.threads, checks.total

    [beside, on_the_loop], total = asyncio.run(main())
    assert beside.name == "kraft-batch-checks"
    assert on_the_loop is threading.main_thread()
    assert total == 1


def test_a_host_with_many_costly_batches_does_not_hold_up_another():
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()
    ran = []

    def first():
        begun.set()
        go.wait(10)

    async def main():
        checks = BatchChecks()
        checks.offload(Check(first, peer_host="greedy"))
        begun.wait(10)
        for _ in range(5):
            checks.offload(Check(lambda: ran.append("greedy"), peer_host="greedy"))
        checks.offload(Check(lambda: ran.append("other"), peer_host="other"))
        checks.offload(Check(ended.set, peer_host="last"))
        go.set()
        ended.wait(10)
        checks.close()

    asyncio.run(main())
    assert ran[:2] in (["greedy", "other"], ["other", "greedy"])


def test_a_result_after_the_close_is_dropped():
    begun, go = threading.Event(), threading.Event()

    def run():
        begun.set()
        go.wait(10)

    async def main():
        checks, first, second = BatchChecks(), Check(run), Check()
        checks.offload(first)
        checks.offload(second)
        begun.wait(10)
        join = checks._thread.join

        def let_go_and_join():
            go.set()
            join()

        checks._thread.join = let_go_and_join
        checks.close()
        await asyncio.sleep(0)
        return len(first.threads), len(second.threads)

    assert asyncio.run(main()) == (1, 0)
