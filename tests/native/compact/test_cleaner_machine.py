"""Compaction against an oracle of Kafka's rules, through random histories of a log. Random are the records, their
producers and transactions, the ends of segments, compactions, deletions from the front, and reopening."""

import shutil

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kraft_native.batch.control import marker
from kraft_native.facade.log import Log
from tests.native.compact.test_cleaner import (
    CODECS,
    START_MS,
    batch,
    check_structure,
    config,
    expected,
    offsets,
    stored,
)
from tests.native.logs import flushed_directory
from tests.oracle import cleaner as oracle

RECORDS = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c", b"dd", b"eee", b""]),
                             st.sampled_from([None, b"", b"v", b"w" * 30])), min_size=1, max_size=6)
IDEMPOTENT = st.integers(1, 3)
TRANSACTIONAL = st.integers(11, 13)


class CleanerMachine(RuleBasedStateMachine):
    """The oracle reads the log's files before each compaction and predicts their content afterwards."""

    @initialize()
    def open(self) -> None:
        self.directory = flushed_directory()
        self.log = Log(self.directory, config(segment_bytes=700))
        self.now_ms = START_MS
        self.sequences: dict[int, int] = {}
        self.last: dict[int, bytes] = {}
        self.open_transactions: set[int] = set()
        self.first_dirty = 0

    def send(self, producer_id: int, entries: list[tuple[bytes, bytes | None]], *, transactional: bool) -> None:
        self.now_ms += 100
        sequence = self.sequences.get(producer_id, 0)
        data = batch(entries, timestamp_ms=self.now_ms, transactional=transactional,
                     producer=(producer_id, 0, sequence))
        self.log.append(data, now_ms=self.now_ms)
        self.sequences[producer_id] = sequence + len(entries)
        self.last[producer_id] = data

    @rule(entries=RECORDS, codec=st.sampled_from(CODECS))
    def append(self, entries: list[tuple[bytes, bytes | None]], codec: str) -> None:
        self.now_ms += 100
        self.log.append(batch(entries, codec=codec, timestamp_ms=self.now_ms), now_ms=self.now_ms)

    @rule(producer_id=IDEMPOTENT, entries=RECORDS)
    def append_idempotent(self, producer_id: int, entries: list[tuple[bytes, bytes | None]]) -> None:
        self.send(producer_id, entries, transactional=False)

    @rule(producer_id=TRANSACTIONAL, entries=RECORDS)
    def append_in_transaction(self, producer_id: int, entries: list[tuple[bytes, bytes | None]]) -> None:
        self.send(producer_id, entries, transactional=True)
        self.open_transactions.add(producer_id)

    @precondition(lambda self: self.open_transactions)
    @rule(data=st.data(), commit=st.booleans())
    def end_transaction(self, data: st.DataObject, commit: bool) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.open_transactions)))
        self.open_transactions.discard(producer_id)
        self.now_ms += 100
        self.log.append(marker(commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0,
                               timestamp_ms=self.now_ms), origin="coordinator", now_ms=self.now_ms)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(later_ms=st.integers(0, 1500))
    def compact(self, later_ms: int) -> None:
        self.now_ms += later_ms
        before, end = stored(self.log), self.log.log_end_offset
        wanted = expected(self.log, self.first_dirty, self.now_ms)
        stats = self.log.compact(self.now_ms, force=True)
        self.first_dirty = max(stats.first_dirty_offset, self.first_dirty)
        after = stored(self.log)
        assert after == wanted
        check_structure(self.log)
        assert self.log.log_end_offset == end
        assert latest(after) == latest(before)
        assert set(offsets(after)) <= set(offsets(before))

    @rule()
    def reopen(self) -> None:
        """The log's producer state survives, also when it has to be rebuilt."""
        before = self.log.producers.describe()
        aborted = self.log.aborted_transactions(0, self.log.log_end_offset)
        self.log.close()
        self.log = Log(self.directory, config(segment_bytes=700))
        assert sorted(self.log.producers.describe()) == sorted(before)
        for now, was in zip(self.log.aborted_transactions(0, self.log.log_end_offset), aborted, strict=True):
            # A rebuilt index begins a transaction at the first of its batches that compaction has left. The last stable
            # offset at its end moves up with the transactions that were open then.
            (producer_id, first_offset, last_offset, stable_offset), (*rest, stable_before) = now, was
            assert (producer_id, last_offset) == (rest[0], rest[2])
            assert rest[1] <= first_offset <= last_offset
            assert stable_before <= stable_offset <= last_offset + 1
        for producer_id, data in self.last.items():
            if producer_id < 10 or producer_id in self.open_transactions:
                assert self.log.append(data, now_ms=self.now_ms).duplicate

    def teardown(self) -> None:
        if not hasattr(self, "log"):
            return
        self.log.roll()
        self.compact(500)
        self.reopen()
        self.compact(1000)
        self.log.close()
        shutil.rmtree(self.directory)


def latest(log: list[oracle.Facts]) -> dict[bytes, tuple[int, bytes | None]]:
    """Return the last committed value of each key, without deleted keys."""
    return {key: found for key, found in oracle.committed_values(log).items() if found[1] is not None}


TestCleanerMachine = CleanerMachine.TestCase
TestCleanerMachine.settings = settings(max_examples=60, stateful_step_count=30, derandomize=True, deadline=None,
                                       suppress_health_check=list(HealthCheck))
