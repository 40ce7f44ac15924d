"""Partitions of keys that clients choose, and how many of them are kept."""

from kraft.broker.coordinator import hashing
from kraft.broker.coordinator.hashing import KEY_CHARACTERS_MAX, KEYS_KEPT, partition_of


def test_the_partition_of_a_long_key_is_that_of_its_hash() -> None:
    for length in (0, 1, KEY_CHARACTERS_MAX, KEY_CHARACTERS_MAX + 1, 1_000):
        key = "é" * length
        assert partition_of(key, 50) == abs(hashing.java_hash(key)) % 50


def test_few_and_short_keys_are_kept() -> None:
    hashing._kept.cache_clear()
    for number in range(2 * KEYS_KEPT):
        partition_of(f"group-{number}", 50)
    assert hashing._kept.cache_info().currsize == KEYS_KEPT <= 4096
    hashing._kept.cache_clear()
    partition_of("g" * (KEY_CHARACTERS_MAX + 1), 50)
    assert hashing._kept.cache_info().currsize == 0
    assert partition_of("g", 50) == partition_of("g", 50)
    assert hashing._kept.cache_info().hits == 1
