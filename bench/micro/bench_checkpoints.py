"""Checkpoint files of a broker with many partitions, and of one log; written with and without crash safety."""

import uuid

import pytest

from kraft_native.segment import checkpoints

PARTITIONS = 10_000


@pytest.fixture(scope="module")
def offsets():
    return {(f"topic-{number // 10}", number % 10): number * 1_000 for number in range(PARTITIONS)}


def test_write_offsets(benchmark, offsets, tmp_path):
    benchmark.pedantic(checkpoints.write_offsets, (tmp_path / "high-watermarks", offsets), rounds=20)


def test_read_offsets(benchmark, offsets, tmp_path):
    checkpoints.write_offsets(tmp_path / "high-watermarks", offsets)
    assert benchmark(checkpoints.read_offsets, tmp_path / "high-watermarks") == offsets


def test_read_leader_epochs(benchmark, tmp_path):
    entries = [(epoch, epoch * 1_000) for epoch in range(1_000)]
    checkpoints.write_leader_epochs(tmp_path / "epochs", entries)
    assert benchmark(checkpoints.read_leader_epochs, tmp_path / "epochs") == entries


def test_read_partition_metadata(benchmark, tmp_path):
    topic_id = uuid.uuid4()
    checkpoints.write_partition_metadata(tmp_path, topic_id)
    assert benchmark(checkpoints.read_partition_metadata, tmp_path) == topic_id
