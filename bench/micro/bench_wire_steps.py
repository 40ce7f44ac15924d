"""Decoding and encoding a long message in steps and at once: the difference is the cost of yielding."""

from collections import deque

import pytest

from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

VERSION = 11
PARTITIONS = 10_000
REQUEST = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[
    ListOffsetsPartition(partition_index=index) for index in range(PARTITIONS)])])
DATA = REQUEST.encode(VERSION)


def decode_in_steps():
    deque(ListOffsetsRequest.decode_steps(DATA, VERSION, PARTITIONS + 1), maxlen=0)


def encode_in_steps():
    deque(REQUEST.encode_steps(VERSION), maxlen=0)


@pytest.mark.parametrize("work", [decode_in_steps, lambda: ListOffsetsRequest.decode(DATA, VERSION)],
                         ids=["steps", "at once"])
def test_decode(benchmark, work):
    benchmark(work)


@pytest.mark.parametrize("work", [encode_in_steps, lambda: REQUEST.encode(VERSION)], ids=["steps", "at once"])
def test_encode(benchmark, work):
    benchmark(work)
