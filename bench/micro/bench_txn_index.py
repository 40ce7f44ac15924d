"""The transaction index: the aborted transactions that a read_committed Fetch receives, of ten thousand."""

import itertools

import pytest

from kraft_native.segment.txn_index import TransactionIndex

ABORTED = 10_000
SPAN = 100


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    made = TransactionIndex(tmp_path_factory.mktemp("txnindex") / "0.txnindex", 0)
    for number in range(ABORTED):
        made.add(number, number * SPAN, number * SPAN + 50, number * SPAN)
    return made


@pytest.mark.parametrize("where", [0, ABORTED // 2, ABORTED - 20], ids=["front", "middle", "tail"])
def test_collect(benchmark, index, where):
    def collect():
        found = []
        index.collect(where * SPAN, (where + 10) * SPAN, found)
        return found

    assert 9 <= len(benchmark(collect)) <= 11


def test_add(benchmark, tmp_path):
    index = TransactionIndex(tmp_path / "0.txnindex", 0)
    numbers = itertools.count()

    def add():
        number = next(numbers)
        index.add(number, number * SPAN, number * SPAN + 50, number * SPAN)

    benchmark(add)
