"""Commits of a quorum whose messages arrive at once: the work of the consensus cores without disk and network."""

import pytest

from tests.raft.world import World


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_commit(benchmark, voters):
    """Measure one proposal of one record: every resulting message is delivered, until a majority has the record."""
    world = World(tuple(range(1, voters + 1)))
    world.elect(1)
    leader = world.raft(1)

    def commit():
        leader.propose(("record",), world.now_ms)
        world.settle(1)
        world.deliver()

    benchmark.pedantic(commit, rounds=2000, warmup_rounds=50)
    assert leader.replica.high_watermark == leader.replica.log.end.offset


@pytest.mark.parametrize("records", [1, 100])
def test_propose_many(benchmark, records):
    """Measure one batch of `records` records for each commit of three voters."""
    world = World((1, 2, 3))
    world.elect(1)
    leader = world.raft(1)
    batch = tuple(f"record {number}" for number in range(records))

    def commit():
        leader.propose(batch, world.now_ms)
        world.settle(1)
        world.deliver()

    benchmark.pedantic(commit, rounds=1000, warmup_rounds=50)
    assert leader.replica.high_watermark == leader.replica.log.end.offset
