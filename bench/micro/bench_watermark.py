"""High watermarks: of a quorum from its voters' end offsets, and of a partition whose follower fetches."""

import random

import pytest

from kraft_native.partition.watermark import majority_value
from tests.native.logs import batch
from tests.native.serving import Node


@pytest.mark.parametrize("voters", [1, 3, 5, 9])
def test_majority_value(benchmark, voters):
    ends = [random.Random(voters).randrange(1 << 40) for _ in range(voters)]
    assert benchmark(majority_value, ends) == sorted(ends, reverse=True)[voters // 2]


@pytest.mark.parametrize("followers", [1, 2, 4])
def test_partition_commit(benchmark, tmp_path, followers):
    """Measure one commit: the leader appends a record, every in-sync follower fetches, the high watermark covers it."""
    node = Node(tmp_path)
    partition = node.partition(high_watermark="manual", leader=False)
    replicas = list(range(1, followers + 2))
    partition.become_leader(0, node_id=1, replicas=replicas, isr=replicas)
    record = batch()

    def commit():
        end = partition.append(record).last_offset + 1
        for replica in replicas[1:]:
            node.fetch(("t", 0, end), replica_id=replica, version=12)
        return end

    assert benchmark(commit) == partition.high_watermark
    node.close()
