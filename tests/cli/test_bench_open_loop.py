"""The independent generator that `make bench-open-loop` runs beside the one of `kraft bench`."""

import signal
import threading

import pytest

from tests.cli.nodes import Started, Tool

RATE, SECONDS, STOP_SECONDS = 100, 0.5, 0.2


def test_a_stop_of_the_node_is_seen_by_every_record_that_was_due(node: Started, tool: Tool) -> None:
    """A fifth of a second is a stop for 20 records: their latencies rise evenly up to its length."""
    pytest.importorskip("confluent_kafka")
    from bench.macro.open_loop_client import latencies

    tool.json("topics", "create", "open-loop", "--partitions", 1)
    assert len(latencies(node.bootstrap, "open-loop", 0, RATE, 0.05, 50, 0.1)) == RATE * 0.05
    node.process.send_signal(signal.SIGSTOP)
    timer = threading.Timer(STOP_SECONDS, node.process.send_signal, (signal.SIGCONT,))
    timer.start()
    try:
        found = latencies(node.bootstrap, "open-loop", 0, RATE, SECONDS, 50, 0.0)
    finally:
        timer.join()
    assert len(found) == RATE * SECONDS
    assert found == sorted(found)
    assert found[0] > 0
    assert found[-1] > 0.5 * STOP_SECONDS * 1e9
    assert sum(each > 0.25 * STOP_SECONDS * 1e9 for each in found) >= 8
