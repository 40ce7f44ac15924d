"""Transaction index: against Kafka's files and answers, a plain model, damaged files and failing operations."""

import errno
import struct
import tempfile
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kraft_native.base.errors import CorruptFileError, InvalidArgumentError, LogReadOnlyError, StorageError
from kraft_native.file.faults import Trace, count_operations, fail_at
from kraft_native.segment.index import OffsetIndex
from kraft_native.segment.txn_index import TransactionIndex
from tests.golden import GoldenPartition, needs_golden, partitions

Entry = tuple[int, int, int, int]


def encode(entries: list[Entry], version: int = 0) -> bytes:
    return b"".join(struct.pack(">hqqqq", version, *entry) for entry in entries)


def collect_slowly(entries: list[Entry], fetch_offset: int, upper_bound: int) -> tuple[list[Entry], bool]:
    """Apply Kafka's rule by its documentation: overlap with the range, and an end at the first entry whose last
    stable offset reaches the upper bound."""
    found = []
    for entry in entries:
        _, first_offset, last_offset, last_stable_offset = entry
        if last_offset >= fetch_offset and first_offset < upper_bound:
            found.append(entry)
        if last_stable_offset >= upper_bound:
            return found, True
    return found, False


@needs_golden
@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_kafka_indexes_decode_as_kafka_dumps_them_and_encode_to_the_same_bytes(
    partition: GoldenPartition, tmp_path: Path
) -> None:
    for name, facts in partition.files.items():
        if not name.endswith(".txnindex"):
            continue
        expected = [
            (entry["producerId"], entry["firstOffset"], entry["lastOffset"], entry["lastStableOffset"])
            for entry in facts["entries"]
        ]
        index = TransactionIndex(partition.directory / name, int(name.split(".")[0]))
        assert list(index) == expected
        index.check()
        copy = TransactionIndex(tmp_path / name, index.base_offset)
        for entry in expected:
            copy.add(*entry)
        assert (tmp_path / name).read_bytes() == (partition.directory / name).read_bytes()


def aborted_in_fetch(partition: GoldenPartition, fetch: dict[str, Any]) -> list[Entry]:
    """Return the aborted transactions that a read_committed fetch must carry by Kafka's computation.

    A fetch ends in the segment in which it began. Its upper bound is an offset that its bytes do not reach: from the
    offset index, else the next segment's base or the log end.
    """
    logs = sorted(name for name in partition.files if name.endswith(".log"))
    bases = [int(name.split(".")[0]) for name in logs]
    first = bisect_right(bases, fetch["fetch_offset"]) - 1
    positions = [
        batch["position"] for batch in partition.files[logs[first]]["batches"]
        if batch["lastOffset"] >= fetch["fetch_offset"]
    ]
    while not positions:
        first += 1
        positions = [batch["position"] for batch in partition.files[logs[first]]["batches"]]
    offset_index = OffsetIndex.open_sealed((partition.directory / logs[first]).with_suffix(".index"), bases[first])
    upper_bound = offset_index.find_upper_bound(positions[0] + fetch["records_bytes"])
    if upper_bound < 0:
        upper_bound = bases[first + 1] if first + 1 < len(bases) else fetch["high_watermark"]
    found: list[Entry] = []
    for name, base_offset in zip(logs[first:], bases[first:], strict=True):
        path = (partition.directory / name).with_suffix(".txnindex")
        if TransactionIndex(path, base_offset).collect(fetch["fetch_offset"], upper_bound, found):
            break
    return found


@needs_golden
def test_fetches_find_exactly_the_aborted_transactions_that_kafka_answered() -> None:
    seen = 0
    for partition in partitions():
        for fetch in partition.expected["fetch_trace_read_committed"]:
            if fetch["error"] == 0 and fetch["records_bytes"] > 0:
                answered = [(aborted["producerId"], aborted["firstOffset"]) for aborted in fetch["aborted"]]
                assert [entry[:2] for entry in aborted_in_fetch(partition, fetch)] == answered, (str(partition), fetch)
                seen += len(answered)
    assert seen > 10


class TransactionIndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "0.txnindex"
        self.entries: list[Entry] = []

    def teardown(self) -> None:
        self.directory.cleanup()

    @initialize(base_offset=st.sampled_from([0, 500]))
    def create(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.index = TransactionIndex(self.path, base_offset)

    @rule(length=st.integers(0, 30), gap=st.integers(-2, 20), stable=st.integers(-20, 20))
    def add(self, length: int, gap: int, stable: int) -> None:
        last_before = self.entries[-1][2] if self.entries else self.base_offset - 1
        last_offset = last_before + gap
        entry = (7, last_offset - length, last_offset, last_offset + stable)
        if gap < 1 or last_offset < length:
            with pytest.raises(InvalidArgumentError):
                self.index.add(*entry)
        else:
            self.index.add(*entry)
            self.entries.append(entry)

    @rule(pick=st.integers(0, 1000), delta=st.integers(-1, 1))
    def truncate(self, pick: int, delta: int) -> None:
        offset = (self.entries[pick % len(self.entries)][2] if self.entries else 0) + delta
        kept = [entry for entry in self.entries if entry[2] < offset]
        assert self.index.truncate_to(offset) == len(self.entries) - len(kept)
        self.entries = kept

    @rule(tail=st.integers(0, 33))
    def open_again(self, tail: int) -> None:
        if self.entries or self.path.exists():
            with open(self.path, "ab") as file:
                file.write(b"\xff" * tail)
        else:
            tail = 0
        self.index = TransactionIndex(self.path, self.base_offset)
        if tail:
            with pytest.raises(CorruptFileError, match=f"{tail} bytes of an incomplete entry"):
                self.index.check()
            assert self.index.repair() == tail
        self.index.check()

    @rule()
    def reset(self) -> None:
        self.index.reset()
        self.entries = []

    @rule()
    def flush(self) -> None:
        self.index.flush()

    @rule(fetch_offset=st.integers(0, 900), size=st.integers(0, 300))
    def collect(self, fetch_offset: int, size: int) -> None:
        found: list[Entry] = []
        ended = self.index.collect(fetch_offset, fetch_offset + size, found)
        assert (found, ended) == collect_slowly(self.entries, fetch_offset, fetch_offset + size)

    @invariant()
    def same_entries_here_and_in_the_file(self) -> None:
        assert list(self.index) == self.entries
        assert len(self.index) == len(self.entries)
        assert (self.path.read_bytes() if self.path.exists() else b"") == encode(self.entries)


TestTransactionIndexMachine = TransactionIndexMachine.TestCase


def test_an_absent_file_is_an_empty_index_and_a_query_does_not_create_it(tmp_path: Path) -> None:
    index = TransactionIndex(tmp_path / "0.txnindex", 0)
    found: list[Entry] = []
    assert index.collect(0, 100, found) is False
    index.check()
    index.flush()
    assert index.truncate_to(0) == index.reset() == index.repair() == len(index) == 0
    assert not found
    assert not list(tmp_path.iterdir())


def test_an_append_goes_over_an_incomplete_entry(tmp_path: Path) -> None:
    path = tmp_path / "0.txnindex"
    path.write_bytes(encode([(1, 2, 3, 4)]) + b"\xff" * 33)
    TransactionIndex(path, 0).add(1, 5, 6, 7)
    assert path.read_bytes() == encode([(1, 2, 3, 4), (1, 5, 6, 7)])


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (encode([(1, 2, 30, 4)], version=1), "entry 0 at byte 0: version 1, known: 0"),
        (encode([(1, 12, 30, 4), (1, 12, 30, 4)]), "entry 1 at byte 34: last offset 30 does not follow on 30"),
        (encode([(1, 2, 9, 4)]), "entry 0 at byte 0: last offset 9 lies below the base offset"),
        (encode([(1, 31, 30, 4)]), "first offset 31 is outside 0 to the last offset 30"),
        (encode([(1, -1, 30, 4)]), "first offset -1 is outside 0 to the last offset 30"),
    ],
)
def test_every_question_to_a_damaged_file_names_what_is_wrong(data: bytes, what: str, tmp_path: Path) -> None:
    path = tmp_path / "10.txnindex"
    path.write_bytes(data)
    index = TransactionIndex(path, 10)
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=what) as caught:
            index.collect(0, 100, [])
        assert str(path) in str(caught.value)
    with pytest.raises(CorruptFileError):
        index.add(1, 40, 41, 42)
    assert path.read_bytes() == data
    index.reset()
    index.add(1, 40, 41, 42)
    assert path.read_bytes() == encode([(1, 40, 41, 42)])


def test_a_new_files_name_is_made_durable_with_its_first_flush_only(tmp_path: Path) -> None:
    """A file that vanishes after a power loss would turn aborted transactions into committed ones."""
    index = TransactionIndex(tmp_path / "0.txnindex", 0)
    with Trace(tmp_path) as trace:
        index.add(1, 2, 3, 4)
        index.flush()
        index.flush()
        index.add(1, 5, 6, 7)
        index.flush()
    wanted = ("write", "datasync", "sync_directory")
    kinds = [event.kind for event in trace.events() if not event.begun and event.kind in wanted]
    assert kinds == ["write", "datasync", "sync_directory", "write", "datasync"]


def test_any_failing_operation_leaves_the_old_entries_and_stops_the_writing(tmp_path: Path) -> None:
    def work(index: TransactionIndex) -> None:
        index.add(1, 2, 3, 4)
        index.add(1, 5, 6, 7)
        index.flush()
        index.truncate_to(5)

    index = TransactionIndex(tmp_path / "count.txnindex", 0)
    assert len(index) == 0
    with count_operations(under=tmp_path) as count:
        work(index)
    assert count.seen > 8
    for k in range(1, count.seen + 1):
        index = TransactionIndex(tmp_path / f"{k}.txnindex", 0)
        assert len(index) == 0
        with fail_at(k, error=errno.ENOSPC, under=tmp_path), pytest.raises(StorageError):
            work(index)
        before = list(index)
        refused: list[Callable[[], object]] = [lambda: index.add(1, 90, 91, 92), index.flush, index.reset]  # noqa: B023
        for again in refused:
            with pytest.raises(LogReadOnlyError, match="No space left"):
                again()
        assert list(index) == before


def test_misuse_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="base_offset: -1"):
        TransactionIndex(tmp_path / "0.txnindex", -1)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Not a directory"):
        list(TransactionIndex(tmp_path / "file" / "0.txnindex", 0))
