"""Throttled replicas of a broker, by the setting of a topic."""

import pytest

from kraft.broker.throttles import throttled_partitions


@pytest.mark.parametrize(("texts", "here"), [
    ([], []), (["*"], [0, 1, 2, 3]), (["0:1", "2:1", "3:2"], [0, 2]), (["0:2"], []),
])
def test_pairs_of_partition_and_broker(texts: list[str], here: list[int]) -> None:
    found = throttled_partitions(texts, 1)
    assert [index for index in range(4) if index in found] == here
