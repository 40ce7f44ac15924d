"""Offset index and time index: against their oracles, against Kafka's files, and against damaged files."""

import errno
import os
import random
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kraft_native.base.errors import CorruptFileError, InvalidArgumentError, LogReadOnlyError, StorageError
from kraft_native.file.faults import MUTATIONS, count_operations, fail_at
from kraft_native.segment.index import OffsetIndex, TimeIndex
from tests.golden import GoldenPartition, golden, needs_golden, partitions
from tests.oracle.index import OffsetIndexOracle, RefusedError, TimeIndexOracle

INT32_MAX = 2**31 - 1
# A failed opening may be one for reading, after which the index stays usable.
WRITES = MUTATIONS - {"open"}



@needs_golden
@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_kafka_indexes_decode_as_kafka_dumps_them_and_encode_to_the_same_bytes(
    partition: GoldenPartition, tmp_path: Path
) -> None:
    for name, facts in partition.files.items():
        source = partition.directory / name
        base_offset = int(name.split(".")[0]) if name[0].isdigit() else 0
        copy = tmp_path / name
        if name.endswith(".index"):
            expected = [(entry["offset"], entry["position"]) for entry in facts["entries"]]
            offset_index = OffsetIndex.open_sealed(source, base_offset)
            assert list(offset_index) == expected
            offset_index.check(source.with_suffix(".log").stat().st_size)
            written = OffsetIndex.create(copy, base_offset, 1 << 20)
            for offset, position in expected:
                written.append(offset, position)
            written.seal()
        elif name.endswith(".timeindex"):
            expected = [(entry["timestamp"], entry["offset"]) for entry in facts["entries"]]
            time_index = TimeIndex.open_sealed(source, base_offset)
            assert list(time_index) == expected
            time_index.check()
            times = TimeIndex.create(copy, base_offset, 1 << 20)
            for timestamp, offset in expected:
                assert times.maybe_append(timestamp, offset) == 1
            times.seal()
        else:
            continue
        assert copy.read_bytes() == source.read_bytes()


@needs_golden
def test_zero_tails_of_a_killed_kafka_are_left_out() -> None:
    """A killed broker leaves its indexes preallocated; our reading agrees with a scan for the first entry of zeros."""
    seen = 0
    for source in sorted(golden("unclean", "killed", "data").glob("*/*index")):
        if source.suffix not in (".index", ".timeindex"):
            continue
        base_offset, size = int(source.stem), 8 if source.suffix == ".index" else 12
        data = source.read_bytes()
        entries = [data[at : at + size] for at in range(0, len(data) // size * size, size)]
        used = next((slot for slot, entry in enumerate(entries) if not any(entry)), len(entries))
        if any(any(entry) for entry in entries[used:]):
            continue  # garbage was written into this one
        opener: Callable[[Path, int], OffsetIndex | TimeIndex]
        opener = OffsetIndex.open_sealed if size == 8 else TimeIndex.open_sealed
        assert len(opener(source, base_offset)) == used, source
        seen += used < len(entries)
    assert seen > 20


class IndexMachine(RuleBasedStateMachine):
    """Operations of both machines on an index file: write it, seal it, open it again."""

    index: OffsetIndex | TimeIndex
    oracle: OffsetIndexOracle | TimeIndexOracle
    reopen: Callable[[Path, int, int, int], OffsetIndex | TimeIndex]

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "0.index"

    def teardown(self) -> None:
        self.directory.cleanup()

    @rule(durable=st.booleans())
    def flush(self, durable: bool) -> None:
        self.index.flush(durable)
        assert self.path.read_bytes() == self.oracle.encode()

    @rule()
    def seal_and_grow(self) -> None:
        assert self.index.seal() == len(self.oracle.entries)
        assert self.index.is_sealed
        assert self.index.is_full
        assert self.path.read_bytes() == self.oracle.encode()
        assert list(self.index) == self.oracle.entries
        self.index.grow(self.oracle.max_bytes)

    @rule()
    def truncate_sealed(self) -> None:
        offset = self.oracle.entries[len(self.oracle.entries) // 2][self.offset_field] if self.oracle.entries else 0
        self.index.seal()
        before = len(self.oracle.entries)
        self.oracle.truncate_to(offset)
        assert self.index.truncate_to(offset) == before - len(self.oracle.entries)
        assert list(self.index) == self.oracle.entries
        self.index.grow(self.oracle.max_bytes)

    @rule(zeros=st.integers(0, 40), keep=st.integers(0, 100))
    def open_again(self, zeros: int, keep: int) -> None:
        """Reopen the file as Kafka may leave it: whole or cut, with any preallocated tail."""
        self.index.flush(False)
        with open(self.path, "ab") as file:
            file.write(bytes(zeros))
        keep = min(keep, len(self.oracle.entries))
        self.oracle.entries = self.oracle.entries[:keep]
        self.index = type(self).reopen(self.path, self.oracle.base_offset, keep, self.oracle.max_bytes)
        assert self.path.read_bytes() == self.oracle.encode()

    @rule(back=st.integers(-2, 12))
    def truncate(self, back: int) -> None:
        offsets = [self.oracle.base_offset, *(entry[self.offset_field] for entry in self.oracle.entries)]
        offset = max(0, offsets[-min(max(back, 1), len(offsets))] + min(back, 0))
        before = len(self.oracle.entries)
        self.oracle.truncate_to(offset)
        assert self.index.truncate_to(offset) == before - len(self.oracle.entries)

    offset_field = 0

    @invariant()
    def same_entries(self) -> None:
        assert len(self.index) == len(self.oracle.entries)
        assert self.index.is_full == self.oracle.is_full
        if self.oracle.entries:
            assert self.index[-1] == self.index[len(self.oracle.entries) - 1] == self.oracle.entries[-1]


class OffsetIndexMachine(IndexMachine):
    index: OffsetIndex
    oracle: OffsetIndexOracle
    reopen = staticmethod(OffsetIndex.open_growing)

    @initialize(base_offset=st.sampled_from([0, 1, 2**40]), max_bytes=st.sampled_from([8, 100, 1 << 20]))
    def create(self, base_offset: int, max_bytes: int) -> None:
        self.index = OffsetIndex.create(self.path, base_offset, max_bytes)
        self.oracle = OffsetIndexOracle(base_offset, max_bytes)

    @rule(count=st.integers(1, 200), step=st.sampled_from([1, 3, 1000]), by=st.integers(1, 5000))
    def append_many(self, count: int, step: int, by: int) -> None:
        for _ in range(count):
            offset, position = self.oracle.entries[-1] if self.oracle.entries else (self.oracle.base_offset, 0)
            self.append(offset + step, position + by)

    @rule(offset=st.integers(-2, 50) | st.sampled_from([INT32_MAX, INT32_MAX + 1]), position=st.integers(-1, 2**31))
    def append_any(self, offset: int, position: int) -> None:
        self.append(self.oracle.base_offset + offset, position)

    def append(self, offset: int, position: int) -> None:
        try:
            self.oracle.append(offset, position)
        except RefusedError:
            with pytest.raises(InvalidArgumentError):
                self.index.append(offset, position)
        else:
            assert self.index.append(offset, position) == 1

    @rule(delta=st.integers(-3, 3), pick=st.integers(0, 1 << 30))
    def find(self, delta: int, pick: int) -> None:
        known = self.oracle.entries or [(self.oracle.base_offset, 0)]
        offset, position = known[pick % len(known)]
        assert self.index.find(offset + delta) == self.oracle.find(offset + delta)
        assert self.index.find_upper_bound(position + delta) == self.oracle.find_upper_bound(position + delta)
        assert self.index.find(2**62) == self.oracle.find(2**62)


class TimeIndexMachine(IndexMachine):
    index: TimeIndex
    oracle: TimeIndexOracle
    reopen = staticmethod(TimeIndex.open_growing)
    offset_field = 1

    @initialize(base_offset=st.sampled_from([0, 1, 2**40]), max_bytes=st.sampled_from([12, 24, 150, 1 << 20]))
    def create(self, base_offset: int, max_bytes: int) -> None:
        self.index = TimeIndex.create(self.path, base_offset, max_bytes)
        self.oracle = TimeIndexOracle(base_offset, max_bytes)

    @rule(
        steps=st.lists(st.tuples(st.integers(-1, 5), st.integers(-1, 5)), min_size=1, max_size=60),
        skip_full_check=st.booleans(),
    )
    def append_some(self, steps: list[tuple[int, int]], skip_full_check: bool) -> None:
        for later, further in steps:
            timestamp, offset = self.oracle.entries[-1] if self.oracle.entries else (-1, self.oracle.base_offset)
            self.append(timestamp + later, offset + further, skip_full_check)

    @rule(timestamp=st.sampled_from([-1, 0, 2**62]), offset=st.sampled_from([-1, INT32_MAX, INT32_MAX + 1]))
    def append_edge(self, timestamp: int, offset: int) -> None:
        self.append(timestamp, self.oracle.base_offset + offset, False)

    def append(self, timestamp: int, offset: int, skip_full_check: bool) -> None:
        try:
            added = self.oracle.maybe_append(timestamp, offset, skip_full_check)
        except RefusedError:
            with pytest.raises(InvalidArgumentError):
                self.index.maybe_append(timestamp, offset, skip_full_check)
        else:
            assert self.index.maybe_append(timestamp, offset, skip_full_check) == added

    @rule(delta=st.integers(-3, 3), pick=st.integers(0, 1 << 30))
    def find(self, delta: int, pick: int) -> None:
        known = self.oracle.entries or [(-1, self.oracle.base_offset)]
        timestamp = known[pick % len(known)][0] + delta
        assert self.index.find(timestamp) == self.oracle.find(timestamp)
        offsets = np.zeros(1, np.int64)
        self.index.find_many(np.array([timestamp]), offsets)
        assert offsets[0] == self.oracle.find(timestamp)[1]


TestOffsetIndexMachine = OffsetIndexMachine.TestCase
TestTimeIndexMachine = TimeIndexMachine.TestCase


def spacing(kind: str, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return offsets of `count` entries: even, random, or so uneven that interpolation among blocks (skewed) or
    within one (bursts) always misses."""
    generator = np.random.default_rng(7)
    if kind == "even":
        steps = np.full(count, 50)
    elif kind == "random":
        steps = generator.integers(1, 200, count)
    elif kind == "bursts":
        steps = np.where(np.arange(count) % 37 == 0, 10_000, 1)
    else:
        steps = np.where(np.arange(count) < count // 2, 1, 1 + np.arange(count) % 7 * 2000)
    return np.cumsum(steps).astype(np.int64)


@pytest.mark.parametrize("kind", ["even", "random", "bursts", "skewed"])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 127, 128, 129, 256, 8192, 8193, 100_000])
def test_many_look_ups_agree_with_a_sorted_search(kind: str, count: int, tmp_path: Path) -> None:
    offsets = spacing(kind, count)
    positions = np.arange(1, count + 1, dtype=np.int64) * 4100
    path = tmp_path / "0.index"
    path.write_bytes(np.stack([offsets, positions], axis=1).astype(">i4").tobytes())
    index = OffsetIndex.open_sealed(path, 1000)
    edges = np.concatenate([offsets[:200], offsets[-200:], np.random.default_rng(3).integers(0, offsets[-1] + 9, 2000)])
    targets = np.concatenate([edges - 1, edges, edges + 1]) + 1000
    found = np.empty_like(targets)
    index.find_many(targets, found)
    slots = np.searchsorted(offsets + 1000, targets, side="right") - 1
    np.testing.assert_array_equal(found, np.where(slots >= 0, positions[slots], 0))
    grown = OffsetIndex.open_growing(path, 1000, -1, 1 << 30)
    grown.find_many(targets, found)
    np.testing.assert_array_equal(found, np.where(slots >= 0, positions[slots], 0))
    entries = np.zeros(count, np.dtype([("timestamp", ">i8"), ("offset", ">i4")]))
    entries["timestamp"], entries["offset"] = offsets + 1000, np.arange(1, count + 1)
    (tmp_path / "0.timeindex").write_bytes(entries.tobytes())
    TimeIndex.open_sealed(tmp_path / "0.timeindex", 0).find_many(targets, found)
    np.testing.assert_array_equal(found, slots + 1)


@pytest.mark.parametrize(
    ("first", "step", "count"), [(2**63 - 600, 1, 192), (2**63 - 600, 3, 192), (-2**63, 2**57, 128)]
)
def test_times_that_doubles_cannot_distinguish_or_int64_cannot_subtract(
    first: int, step: int, count: int, tmp_path: Path
) -> None:
    entries = np.zeros(count, np.dtype([("timestamp", ">i8"), ("offset", ">i4")]))
    entries["timestamp"], entries["offset"] = first + step * np.arange(count), np.arange(count)
    (tmp_path / "0.timeindex").write_bytes(entries.tobytes())
    found = np.zeros(count, np.int64)
    TimeIndex.open_sealed(tmp_path / "0.timeindex", 0).find_many(entries["timestamp"].astype(np.int64), found)
    np.testing.assert_array_equal(found, np.arange(count))


def test_find_many_refuses_buffers_that_do_not_fit(tmp_path: Path) -> None:
    index = OffsetIndex.create(tmp_path / "0.index", 0, 80)
    with pytest.raises(InvalidArgumentError, match="positions: 2 items for 3 offsets"):
        index.find_many(np.zeros(3, np.int64), np.zeros(2, np.int64))
    with pytest.raises(ValueError, match="dtype mismatch"):
        index.find_many(np.zeros(3, np.int32), np.zeros(3, np.int64))


def test_look_ups_in_garbage_answer_something_from_the_file(tmp_path: Path) -> None:
    generator = random.Random(11)
    path = tmp_path / "0.index"
    for size in (8, 8 * 64, 8 * 65, 8 * 20_000 + 5):
        data = generator.randbytes(size)
        path.write_bytes(data)
        positions = {position for _, position in struct.iter_unpack(">ii", data[: size // 8 * 8])} | {0}
        index = OffsetIndex.open_sealed(path, 0)
        for _ in range(300):
            assert index.find(generator.randrange(2**33))[1] in positions
        times = TimeIndex.open_sealed(path, 0)
        for _ in range(300):
            times.find(generator.randrange(2**63))


@pytest.mark.parametrize(
    ("entries", "tail", "what"),
    [
        ([(5, 100), (5, 200)], b"", "entry 1 at byte 8: its offset does not follow"),
        ([(5, 100), (4, 200)], b"", "entry 1 at byte 8: its offset does not follow"),
        ([(5, 100), (6, 100)], b"", "entry 1 at byte 8: its position or timestamp is not above"),
        ([(-1, 100)], b"", "entry 0 at byte 0: its offset lies below the base offset"),
        ([(5, -1)], b"", "entry 0 at byte 0: its position or timestamp is negative"),
        ([(5, 100), (6, 1000)], b"", "entry 1 at byte 8: its position lies past the end of the log file"),
        ([(5, 100), (50, 200)], b"", "entry 1 at byte 8: its offset lies past the segment's end"),
        ([(5, 100), (6, 200)], bytes(16), "entry 2 at byte 16: only zeros from here"),
        ([], bytes(16), "entry 0 at byte 0: only zeros from here"),
        ([(5, 100)], b"\0\0\0", "11 bytes are not a multiple of 8"),
    ],
)
def test_check_names_what_is_wrong_with_an_offset_index(
    entries: list[tuple[int, int]], tail: bytes, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "7.index"
    path.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries) + tail)
    with pytest.raises(CorruptFileError, match=what) as caught:
        OffsetIndex.open_sealed(path, 7).check(1000, 57)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "tail", "what"),
    [
        ([(10, 5), (10, 6)], b"", "entry 1 at byte 12: its position or timestamp is not above"),
        ([(10, 5), (11, 4)], b"", "entry 1 at byte 12: its offset does not follow"),
        ([(10, -3)], b"", "entry 0 at byte 0: its offset lies below the base offset"),
        ([(-10, 3)], b"", "entry 0 at byte 0: its position or timestamp is negative"),
        ([(10, 3), (11, 50)], b"", "entry 1 at byte 12: its offset lies past the segment's end"),
        ([(10, 3)], bytes(24), "entry 1 at byte 12: only zeros from here"),
        ([(10, 3)], bytes(1), "13 bytes are not a multiple of 12"),
    ],
)
def test_check_names_what_is_wrong_with_a_time_index(
    entries: list[tuple[int, int]], tail: bytes, what: str, tmp_path: Path
) -> None:
    path = tmp_path / "7.timeindex"
    path.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries) + tail)
    with pytest.raises(CorruptFileError, match=what):
        TimeIndex.open_sealed(path, 7).check(57)


def test_check_of_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match="the file is missing"):
        OffsetIndex.open_sealed(tmp_path / "0.index", 0).check(10)
    with pytest.raises(StorageError):
        OffsetIndex.open_sealed(tmp_path / "0.index", 0).find(3)


def test_the_first_entry_may_be_zeros(tmp_path: Path) -> None:
    """A record with timestamp 0 at the base offset is an entry of twelve zero bytes, not a preallocated tail."""
    times = TimeIndex.create(tmp_path / "0.timeindex", 0, 120)
    assert times.maybe_append(0, 0) == 1
    times.seal()
    times.check(1)
    assert list(times) == [(0, 0)]


def test_a_truncation_leaves_the_old_file_to_its_open_readers(tmp_path: Path) -> None:
    """An index file is never cut in place: a mapping in another process would fault on the removed pages."""
    path = tmp_path / "0.index"
    index = OffsetIndex.create(path, 0, 1 << 20)
    for i in range(1, 2000):
        index.append(i, i * 10)
    index.flush(False)
    with open(path, "rb") as reader:
        whole = path.read_bytes()
        index.truncate_to(5)
        assert path.read_bytes() == whole[:32]
        assert reader.read() == whole
    index.seal()
    with open(path, "rb") as reader:
        index.truncate_to(2)
        assert len(reader.read()) == 32
    assert list(index) == [(1, 10)]


def test_entries_not_yet_written_are_dropped_without_touching_the_file(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    index = OffsetIndex.create(path, 0, 1 << 20)
    index.append(10, 100)
    assert index.flush(False) == 8
    inode = path.stat().st_ino
    index.append(20, 200)
    assert index.truncate_to(15) == 1
    assert index.flush(True) == 0
    assert path.stat().st_ino == inode
    assert path.stat().st_size == 8


@pytest.mark.parametrize("durable", [False, True])
def test_after_a_failed_write_the_index_answers_but_is_not_written_again(durable: bool, tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    index = OffsetIndex.create(path, 0, 1 << 20)
    index.append(10, 100)
    path.unlink()
    os.symlink("/dev/full", path)
    with pytest.raises(StorageError, match="No space left"):
        index.flush(durable)
    path.unlink()
    path.touch()
    refused: list[Callable[[], int]] = [
        lambda: index.flush(False), lambda: index.append(20, 200), index.seal, lambda: index.truncate_to(0)
    ]
    for again in refused:
        with pytest.raises(LogReadOnlyError, match="No space left") as caught:
            again()
        assert isinstance(caught.value.cause, StorageError)
    assert path.stat().st_size == 0
    assert index.find(15) == (10, 100)


def test_any_failing_operation_leaves_the_entries_and_stops_the_writing(tmp_path: Path) -> None:
    def work(index: OffsetIndex) -> None:
        for i in range(1, 9):
            index.append(i, i * 10)
            if i % 4 == 0:
                index.flush(i == 8)
        index.truncate_to(6)
        index.seal()
        index.truncate_to(4)

    index = OffsetIndex.create(tmp_path / "count.index", 0, 800)
    with count_operations(under=tmp_path, kinds=WRITES) as count:
        work(index)
    assert count.seen > 8
    for k in range(1, count.seen + 1):
        index = OffsetIndex.create(tmp_path / f"{k}.index", 0, 800)
        with fail_at(k, error=errno.EIO, under=tmp_path, kinds=WRITES), pytest.raises(StorageError):
            work(index)
        assert list(index) == [(i, i * 10) for i in range(1, len(index) + 1)]
        with pytest.raises(LogReadOnlyError, match="Input/output error"):
            index.flush(True)


def test_misuse_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    with pytest.raises(TypeError):
        OffsetIndex()
    with pytest.raises(InvalidArgumentError, match="base_offset: -1"):
        OffsetIndex.open_sealed(path, -1)
    with pytest.raises(InvalidArgumentError, match="max_bytes: 7"):
        OffsetIndex.create(path, 0, 7)
    assert not path.exists()
    index = OffsetIndex.create(path, 0, 16)
    with pytest.raises(AssertionError):
        index.grow(16)
    with pytest.raises(IndexError):
        index[0]
    index.seal()
    with pytest.raises(AssertionError):
        index.append(1, 1)
    with pytest.raises(CorruptFileError, match="3 entries expected, 0 found"):
        OffsetIndex.open_growing(path, 0, 3, 16)


def test_create_replaces_what_had_the_name(tmp_path: Path) -> None:
    path = tmp_path / "0.index"
    path.write_bytes(b"x" * 100)
    index = OffsetIndex.create(path, 0, 800)
    assert len(index) == 0
    assert path.stat().st_size == 0
