"""Splitting of ranges into tasks."""

import random

import pytest

from kraft.spark.splits import SMALL_BYTES, Range, balance, cut_to_count, cut_to_records

MB = 1 << 20


def covered(ranges: list[Range]) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """Covered offsets of each partition, with neighbours joined; overlaps and disorder are errors."""
    found: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for each in ranges:
        spans = found.setdefault((each.topic, each.partition), [])
        assert each.start < each.end
        if spans and spans[-1][1] == each.start:
            spans[-1] = (spans[-1][0], each.end)
        else:
            assert not spans or spans[-1][1] < each.start
            spans.append((each.start, each.end))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_tasks_cover_all_and_are_about_equal(seed: int) -> None:
    random_ = random.Random(seed)
    ranges = []
    for partition in range(random_.randint(1, 6)):
        offset = random_.randint(0, 1000)
        for _ in range(random_.randint(1, 8)):
            count = random_.randint(1_000, 1_000_000)
            ranges.append(Range("t", partition, offset, offset + count, random_.randint(1, 300) * MB))
            offset += count
    tasks = balance(ranges, 128 * MB, 2)
    assert covered([each for task in tasks for each in task]) == covered(ranges)
    sizes = [sum(each.size_bytes for each in task) for task in tasks]
    total = sum(each.size_bytes for each in ranges)
    assert abs(sum(sizes) - total) < 100
    assert max(sizes) <= 128 * MB * 9 / 8 + 1
    if total > SMALL_BYTES:
        assert len(tasks) % 2 == 0 or len(tasks) > 8


def test_many_small_ranges_share_a_task() -> None:
    ranges = [Range("t", partition, 0, 10, 100) for partition in range(1_000)]
    assert len(balance(ranges, parallel=2)) == 1
    assert balance([], parallel=2) == []
    assert balance([Range("t", 0, 5, 5, 0)], parallel=2) == []


def test_neighbours_are_one_range() -> None:
    ranges = [Range("t", 0, 0, 10, 100), Range("t", 0, 10, 30, 100), Range("t", 1, 30, 40, 100)]
    assert balance(ranges, parallel=2) == [(Range("t", 0, 0, 30, 200), Range("t", 1, 30, 40, 100))]


def test_cutting_by_records_and_by_count() -> None:
    ranges = [Range("t", 0, 100, 200), Range("t", 1, 0, 10)]
    cut = cut_to_records(ranges, 30)
    assert [each.end - each.start for each in cut] == [25, 25, 25, 25, 10]
    assert covered(cut) == covered(ranges)
    cut = cut_to_count(ranges, 11)
    assert len(cut) >= 11 and covered(cut) == covered(ranges)
    assert cut_to_count(ranges, 2) == ranges
    assert len(cut_to_count([Range("t", 0, 0, 3)], 10)) == 3
