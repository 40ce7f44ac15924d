"""The leader-epoch cache: the epoch of an offset, the end of an epoch, and the beginning of an epoch."""

import itertools

import pytest

from kraft_native.segment.epochs import LeaderEpochCache

EPOCHS = 1_000


@pytest.fixture
def cache(tmp_path):
    made = LeaderEpochCache(tmp_path)
    made.rebuild((epoch, epoch * 1_000) for epoch in range(EPOCHS))
    return made


def test_epoch_at(benchmark, cache):
    offsets = itertools.cycle([(i * 7_919) % (EPOCHS * 1_000) for i in range(10_000)])
    benchmark(lambda: cache.epoch_at(next(offsets)))


def test_end_offset_for(benchmark, cache):
    epochs = itertools.cycle([(i * 7_919) % EPOCHS for i in range(10_000)])
    benchmark(lambda: cache.end_offset_for(next(epochs), EPOCHS * 1_000))


def test_assign_durable(benchmark, tmp_path):
    """Measure the assignment with its file, as by a new leader."""
    cache = LeaderEpochCache(tmp_path)
    epochs = itertools.count()

    def assign():
        epoch = next(epochs)
        cache.assign(epoch, epoch * 10)
        cache.flush()

    benchmark.pedantic(assign, rounds=50)
