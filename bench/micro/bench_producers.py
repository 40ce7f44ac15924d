"""Producer state, per call from Python: check and update of a header with one and with 100,000 producers; snapshots."""

import itertools
import struct

import pytest

from kraft_native.segment.producers import ProducerStates

HEADER = struct.Struct(">qiibIhiqqqhii")


def header(pid: int, sequence: int, offset: int) -> bytes:
    return HEADER.pack(offset, 49, 0, 2, 0, 0, 0, 1000, 1000, pid, 0, sequence, 1)


@pytest.fixture(params=[1, 100_000], ids=["one-producer", "100k-producers"])
def states(request):
    states = ProducerStates()
    for pid in range(request.param):
        states.update_header(header(pid, 0, pid))
    return states


def test_update(benchmark, states):
    headers = itertools.cycle([header((i * 7919) % len(states), 0, i) for i in range(10_000)])
    benchmark(lambda: states.update_header(next(headers)))


def test_verify_duplicate(benchmark, states):
    headers = itertools.cycle([header((i * 7919) % len(states), 0, i) for i in range(10_000)])
    benchmark(lambda: states.verify_header(next(headers)))


def test_snapshot_of_100k_producers(benchmark, tmp_path):
    states = ProducerStates()
    for pid in range(100_000):
        states.update_header(header(pid, 0, pid))
    offsets = itertools.count(states.map_end_offset + 1)
    benchmark.pedantic(lambda: states.write_snapshot(tmp_path, next(offsets), durable=False), rounds=5)
