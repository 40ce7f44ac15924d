"""Freeing a long message in steps and at once, and finding what a suspended generator owns, which each slice does."""

from collections import deque

import pytest

from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft_native.base.freeing import containers_of, free_steps

PARTITIONS = 10_000


def message():
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[
        ListOffsetsPartition(partition_index=index) for index in range(PARTITIONS)])])


def free_in_steps(held):
    deque(free_steps(held), maxlen=0)


@pytest.mark.parametrize("work", [free_in_steps, list.clear], ids=["steps", "at once"])
def test_free(benchmark, work):
    benchmark.pedantic(work, setup=lambda: (([message()],), {}), rounds=20)


def test_find(benchmark):
    def work():
        known = dict.fromkeys(range(PARTITIONS))
        names = [str(number) for number in range(PARTITIONS)]
        yield
        return known, names

    suspended = work()
    next(suspended)
    assert len(benchmark(containers_of, suspended)) == 2
