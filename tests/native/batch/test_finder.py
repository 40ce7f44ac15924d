"""Single records by their offsets: the same as a walk finds, whatever was searched before."""

from __future__ import annotations

import random

import pytest

from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError
from kraft_native.batch.batch import first_batch
from kraft_native.batch.control import marker
from kraft_native.batch.finder import RecordFinder
from kraft_native.batch.records import BatchBuilder, Record, records
from tests.oracle import legacy

START_MS = 1_700_000_000_000


def built(values: list[bytes], codec: str = "none", base: int = 0) -> bytes:
    builder = BatchBuilder(codec)
    for number, value in enumerate(values):
        builder.append(value, b"key %d" % number if number % 3 else None, START_MS + number, [("h", b"x")][:number % 2])
    return builder.build(base)


def values(count: int, seed: int = 1) -> list[bytes]:
    source = random.Random(seed)
    return [source.randbytes(source.randrange(200)) for _ in range(count)]


def plain(record: Record | None) -> object:
    return record and (record.offset, record.timestamp_ms, record.key, record.value, record.headers)


def expected(data: bytes) -> dict[int, object]:
    return {record.offset: plain(record) for record in records(data)}


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4", "zstd"])
@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 18, 500])
def test_each_record_of_a_batch(codec: str, count: int) -> None:
    data = built(values(count), codec, 1_000)
    wanted, finder = expected(data), RecordFinder()
    offsets = [*range(998, 1_002 + count), *random.Random(2).sample(range(1_000, 1_000 + count), count)]
    assert [plain(finder.find(data, offset)) for offset in offsets] == [wanted.get(offset) for offset in offsets]


def test_batches_one_after_the_other() -> None:
    """A buffer of several, with a gap between them and a marker; the finder keeps each of them."""
    parts = [built(values(40, 1), "lz4"), built(values(30, 2), base=50), built(values(3, 3), base=80),
             marker(commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=START_MS,
                    base_offset=83), built(values(20, 4), "gzip", 84)]
    data = b"".join(parts)
    wanted, finder = expected(data), RecordFinder()
    for _ in range(2):
        for offset in random.Random(3).sample(range(-1, 110), 111):
            assert plain(finder.find(data, offset)) == wanted.get(offset)
    assert 83 not in wanted and 45 not in wanted
    assert finder.find(b"", 0) is None


def test_records_that_compaction_left() -> None:
    """Offsets in a batch have gaps."""
    source, kept = random.Random(5), sorted(random.Random(6).sample(range(300), 100))
    for codec in ("none", "lz4"):
        builder = BatchBuilder(codec)
        for delta in kept:
            builder.append(source.randbytes(20), None, START_MS, offset_delta=delta)
        data = builder.build(7)
        wanted, finder = expected(data), RecordFinder()
        assert sorted(wanted) == [7 + delta for delta in kept]
        assert [plain(finder.find(data, offset)) for offset in range(310)] == [wanted.get(at) for at in range(310)]


def test_another_batch_at_the_same_offset() -> None:
    """The places that are kept belong to the bytes, which a truncation may have replaced."""
    finder = RecordFinder()
    for seed in (1, 2, 1):
        data = built(values(100, seed))
        assert [plain(finder.find(data, offset)) for offset in range(100)] == list(expected(data).values())


def test_what_is_kept_is_bounded() -> None:
    parts = [built(values(200, seed), "lz4" if seed % 2 else "none", seed * 200) for seed in range(40)]
    finder = RecordFinder(bytes_max=100_000)
    for seed in random.Random(1).choices(range(40), k=300):
        data = parts[seed]
        assert plain(finder.find(data, seed * 200 + 77)) == expected(data)[seed * 200 + 77]
        assert finder.held_bytes <= 100_000
    assert finder.held_bytes > 50_000
    nothing = RecordFinder(bytes_max=0)
    assert plain(nothing.find(parts[1], 203)) == expected(parts[1])[203]
    assert nothing.held_bytes == 0
    with pytest.raises(InvalidArgumentError, match="bytes_max -1"):
        RecordFinder(bytes_max=-1)


def test_the_batches_used_last_are_kept() -> None:
    def size_of(number: int) -> int:
        alone = RecordFinder()
        alone.find(parts[number], number * 1_000)
        return alone.held_bytes

    # Below 128 KiB: a larger block may be an idle one of another size.
    parts = [built(values(200 + 200 * number, number), "snappy", number * 1_000) for number in range(3)]
    finder = RecordFinder(bytes_max=sum(map(size_of, range(3))) - 1)
    for number in (0, 1, 0, 2):
        finder.find(parts[number], number * 1_000)
    assert finder.held_bytes == size_of(0) + size_of(2)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_damage_is_an_error(codec: str) -> None:
    """Lengths are never trusted, with or without what an earlier search has kept."""
    data = built(values(60), codec)
    finder = RecordFinder()
    finder.find(data, 0)
    broken = bytearray(data)
    for at in range(61, len(broken)):
        broken[at] ^= 0xFF
    for each in (finder, RecordFinder()):
        for offset in range(60):
            try:
                found = each.find(bytes(broken), offset)
            except CorruptRecordError:
                continue
            assert found is None or found.offset == offset
    with pytest.raises(CorruptRecordError):
        RecordFinder().find(bytes(broken), 59)
    with pytest.raises(CorruptRecordError):
        finder.find(data[:-1], 0)


def test_messages_of_older_formats() -> None:
    data = legacy.sample(random.Random(1), 5, 40)
    wanted, finder = expected(data), RecordFinder()
    for _ in range(2):
        assert [plain(finder.find(data, offset)) for offset in range(max(wanted) + 2)] == [
            wanted.get(offset) for offset in range(max(wanted) + 2)]


def test_a_batch_object() -> None:
    data = built(values(30), base=10)
    assert plain(RecordFinder().find(first_batch(data), 20)) == expected(data)[20]
