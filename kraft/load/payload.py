"""Content of the batches that a load sends: keys by a distribution, values of a size or from a file.

A connection has a pool of batches that it sends round and round. Everything is drawn before the load begins, from the
seed alone.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, cycle
from pathlib import Path
from typing import Final, NamedTuple

from kraft.load.errors import InvalidWorkloadError
from kraft_native.base.murmur import murmur2_partitions
from kraft_native.batch.batch import HEADER_BYTES
from kraft_native.batch.records import BatchBuilder

STAMP_BYTES: Final = 8
RECORD_OVERHEAD_BYTES: Final = 12
VALUE_BYTES_MAX: Final = 64 << 20
FILE_BYTES_MAX: Final = 64 << 20
POOL_BYTES_MAX: Final = 64 << 20
POOL_BATCHES_MAX: Final = 10_000
KEYS_MAX: Final = 1_000_000
ZIPF_EXPONENT: Final = 0.99
STAMP_MARK: Final = bytes(range(0xA0, 0xA8))
_KEY_FORMS: Final = "none, fixed, cycle:N, random:N, zipf:N or zipf:N:EXPONENT"


class Keys(NamedTuple):
    """A distribution of keys: `number` keys, of which number i (from 1) has the weight i ** -exponent. Number 0 is
    no key."""

    number: int
    exponent: float

    def name(self, number: int) -> bytes:
        return b"key-%08d" % number


class Batch(NamedTuple):
    """One batch of a pool. `stamp` is the position of the first value when that has room for a stamp, else -1."""

    data: bytes
    records: int
    stamp: int


def parse_keys(text: str) -> Keys:
    """Return the distribution that a text names. Raises `InvalidWorkloadError`."""
    form, *numbers = text.split(":")
    try:
        if form == "none" and not numbers:
            return Keys(0, 0.0)
        if form == "fixed" and not numbers:
            return Keys(1, 0.0)
        if form in ("cycle", "random") and len(numbers) == 1:
            return _limited(text, Keys(int(numbers[0]), 0.0))
        if form == "zipf" and len(numbers) in (1, 2):
            return _limited(text, Keys(int(numbers[0]), float(numbers[1]) if len(numbers) > 1 else ZIPF_EXPONENT))
    except ValueError as error:
        if isinstance(error, InvalidWorkloadError):
            raise
    raise InvalidWorkloadError(f"keys: {text!r} is not {_KEY_FORMS}")


def _limited(text: str, keys: Keys) -> Keys:
    if not 1 <= keys.number <= KEYS_MAX:
        raise InvalidWorkloadError(f"keys: {text!r} has {keys.number} keys, which is not in 1 to {KEYS_MAX:,}")
    if not 0 <= keys.exponent <= 10:
        raise InvalidWorkloadError(f"keys: {text!r} has the exponent {keys.exponent:g}, which is not in 0 to 10")
    return keys


@lru_cache(maxsize=4)
def _numbers_by_partition(keys: Keys, partitions: int) -> list[array[int]]:
    """Numbers of the keys that Kafka's default partitioner puts in each partition."""
    size = len(keys.name(0))
    offsets = array("i", range(0, size * (keys.number + 1), size))
    out = array("i", bytes(4 * keys.number))
    murmur2_partitions(offsets, b"".join(map(keys.name, range(keys.number))), partitions, out)
    found = [array("i") for _ in range(partitions)]
    for number, partition in enumerate(out):
        found[partition].append(number)
    return found


def keys_of(text: str, partition: int, partitions: int, seed: int) -> Iterator[bytes | None]:
    """Yield keys of one partition without end, each with the weight of the distribution among those of the partition.
    `fixed` is one key in each partition. Raises `InvalidWorkloadError` for a partition that has none of the keys."""
    keys = parse_keys(text)
    if not keys.number:
        return cycle((None,))
    if text == "fixed":
        # Enough keys that a partition without one is impossible in practice.
        keys = Keys(min(KEYS_MAX, 64 * partitions), 0.0)
    numbers = _numbers_by_partition(keys, partitions)[partition]
    if not numbers:
        raise InvalidWorkloadError(f"keys: none of {text} belongs to partition {partition} of {partitions}; "
                                   "more keys are needed")
    if text == "fixed":
        return cycle((keys.name(numbers[0]),))
    if text.startswith("cycle"):
        return cycle(map(keys.name, numbers))
    weights = list(accumulate((number + 1) ** -keys.exponent for number in numbers))
    return _drawn(keys, numbers, weights, random.Random(f"{seed} {partition}"))


def _drawn(keys: Keys, numbers: array[int], weights: list[float], chance: random.Random) -> Iterator[bytes]:
    while True:
        yield from map(keys.name, chance.choices(numbers, cum_weights=weights, k=1024))


def values_of(record_bytes: int, random_share: float, payload_file: str, payload_lengths: str, seed: int, *,
              whole_file: bool = False) -> Iterator[bytes]:
    """Yield values without end: the lines of a file or its whole content, or values of the lengths in the lines of
    another, or values of one size. The first part of those is random, and the rest is zero bytes."""
    if payload_file:
        return cycle([read_file("payload_file", payload_file)] if whole_file
                     else read_lines("payload_file", payload_file))
    chance = random.Random(seed)
    if payload_lengths:
        return (_random_value(chance, length, random_share) for length in cycle(read_lengths(payload_lengths)))
    return (_random_value(chance, record_bytes, random_share) for _ in cycle((None,)))


def _random_value(chance: random.Random, size: int, random_share: float) -> bytes:
    return chance.randbytes(round(size * random_share)).ljust(size, b"\0")


@lru_cache(maxsize=2)
def read_lines(name: str, path: str) -> list[bytes]:
    """Lines of a file without their ends. Raises what `read_file` does."""
    return read_file(name, path).removesuffix(b"\n").split(b"\n")


def read_file(name: str, path: str) -> bytes:
    """Content of a file. Raises `InvalidWorkloadError` for one that is empty, too large or cannot be read."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidWorkloadError(f"{name}: {path!r} cannot be read: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise InvalidWorkloadError(f"{name}: {path!r} is larger than {FILE_BYTES_MAX:,} bytes")
    if not data:
        raise InvalidWorkloadError(f"{name}: {path!r} is empty; it needs one value per line")
    return data


def read_lengths(path: str) -> list[int]:
    """Lengths in the lines of a file. Raises `InvalidWorkloadError`, which names the line."""
    found = []
    for number, line in enumerate(read_lines("payload_lengths", path), 1):
        text = line.strip().decode("ascii", "backslashreplace")
        if not text.isdecimal() or int(text) > VALUE_BYTES_MAX:
            raise InvalidWorkloadError(f"payload_lengths: line {number} of {path!r} is {text!r}, which is no length of "
                                       f"0 to {VALUE_BYTES_MAX}")
        found.append(int(text))
    return found


def batches(values: Iterator[bytes], keys: Iterator[bytes | None], codec: str, batch_bytes: int, *, records: int,
            count: int, bytes_max: int, stamped: bool) -> list[Batch]:
    """Build a pool of `count` batches; fewer, but at least one, when they are together larger than `bytes_max`.
    `records` is the number of records of each, 0 for as many as fit `batch_bytes`. With `stamped` the first value of
    each has room for a stamp."""
    found: list[Batch] = []
    builder = BatchBuilder(codec)
    left = bytes_max
    while len(found) < count and (not found or left > 0):
        size = HEADER_BYTES
        while True:
            value, key = next(values), next(keys)
            if stamped and not len(builder):
                value = STAMP_MARK + value[STAMP_BYTES:]
            size += len(value) + len(key or b"") + RECORD_OVERHEAD_BYTES
            builder.append(value, key, -1)
            if len(builder) == records if records else size + len(value) > batch_bytes:
                break
        number, data = len(builder), builder.build()
        found.append(Batch(data, number, data.index(STAMP_MARK) if stamped else -1))
        builder.clear()
        left -= len(data)
    return found
