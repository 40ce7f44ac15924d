"""A log against its oracle, through random histories: appends of every kind, rolls, cuts from both ends, reopening."""

import shutil

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kraft_native.base.errors import OffsetOutOfRangeError, OutOfOrderSequenceError
from kraft_native.batch.batch import walk
from kraft_native.batch.control import marker
from kraft_native.batch.records import records
from kraft_native.facade.log import Log
from tests.native.logs import START_MS, batch, flushed_directory, read_all, small
from tests.oracle.log import OracleBatch, OracleLog

PRODUCERS = st.integers(1, 3)
COUNTS = st.integers(1, 4)
ISOLATIONS = ("log_end", "high_watermark", "read_committed")


class LogMachine(RuleBasedStateMachine):
    """The oracle receives every append and checks every answer after every step."""

    @initialize(compact=st.booleans(), manual=st.booleans(), durability=st.sampled_from(["page-cache", "group-commit"]))
    def open(self, compact: bool, manual: bool, durability: str) -> None:
        self.directory = flushed_directory()
        self.compact = compact
        self.manual = manual
        self.config = small(segment_bytes=900, segment_index_bytes=64, durability=durability,
                            producer_id_expiration_ms=1 << 60,
                            cleanup_policy="compact" if compact else "delete",
                            high_watermark="manual" if manual else "auto")
        self.log = Log(self.directory, self.config)
        self.oracle = OracleLog()
        self.sequences: dict[int, int] = {}
        self.clock = START_MS
        self.epoch = 0

    def took(self, first: int, *, producer: int = -1, transactional: bool = False, mark: str = "") -> None:
        """Pass the batches that the log has appended to the oracle, as stored."""
        for seen in walk(bytes(self.log.read(first, 1 << 20, "log_end"))):
            self.oracle.append(OracleBatch(seen.base_offset, seen.last_offset, bytes(seen), seen.max_timestamp_ms,
                                           producer, transactional, mark))
        self.settle()

    def settle(self) -> None:
        if not self.manual:
            if self.log.config.durability == "group-commit":
                self.log.flush()
            self.oracle.high_watermark = self.oracle.end

    @rule(counts=st.lists(COUNTS, min_size=1, max_size=3), value=st.integers(0, 300), back=st.integers(-5, 5),
          codec=st.sampled_from(["none", "none", "lz4"]))
    def append(self, counts: list[int], value: int, back: int, codec: str) -> None:
        self.clock += 10
        data = b"".join(batch(count, value=b"v" * value, timestamp_ms=self.clock - 10 * back, codec=codec)
                        for count in counts)
        if len(data) > 900:
            return
        info = self.log.append(data, leader_epoch=self.epoch)
        assert info.first_offset == self.oracle.end
        assert info.last_offset == self.oracle.end + sum(counts) - 1
        self.took(info.first_offset)

    @rule(value=st.integers(0, 300))
    def append_record(self, value: int) -> None:
        self.clock += 10
        offset = self.log.append_record(b"v" * value, b"k", self.clock, leader_epoch=self.epoch)
        assert offset == self.oracle.end
        self.took(offset)

    @rule(producer=PRODUCERS, count=COUNTS)
    def append_in_transaction(self, producer: int, count: int) -> None:
        sequence = self.sequences.get(producer, 0)
        data = batch(count, timestamp_ms=self.clock, producer_id=producer, producer_epoch=0, base_sequence=sequence,
                     transactional=True)
        info = self.log.append(data, leader_epoch=self.epoch)
        self.sequences[producer] = sequence + count
        self.took(info.first_offset, producer=producer, transactional=True)
        again = self.log.append(data, leader_epoch=self.epoch)
        assert again.duplicate
        assert (again.first_offset, again.last_offset) == (info.first_offset, info.last_offset)

    @rule(producer=PRODUCERS, commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        data = marker(commit=commit, producer_id=producer, producer_epoch=0, coordinator_epoch=0,
                      timestamp_ms=self.clock)
        info = self.log.append(data, leader_epoch=self.epoch, origin="coordinator")
        if info.duplicate:             # of a transaction that had ended
            assert all(ended >= 0 for of, _, ended, _ in self.oracle.transactions() if of == producer)
            assert self.log.log_end_offset == self.oracle.end
            return
        self.took(info.first_offset, producer=producer, transactional=True, mark="commit" if commit else "abort")

    @rule(producer=PRODUCERS, gap=st.integers(1, 3))
    def refuse_a_gap_in_the_sequence(self, producer: int, gap: int) -> None:
        if producer not in self.sequences:
            return
        data = batch(producer_id=producer, producer_epoch=0, base_sequence=self.sequences[producer] + gap,
                     timestamp_ms=self.clock, transactional=True)
        try:
            self.log.append(data, leader_epoch=self.epoch)
        except OutOfOrderSequenceError:
            return
        raise AssertionError("a gap in a producer's sequence was accepted")

    @rule(counts=st.lists(COUNTS, min_size=1, max_size=4), gaps=st.lists(st.integers(0, 5), min_size=4, max_size=4),
          step=st.integers(0, 1))
    def append_as_follower(self, counts: list[int], gaps: list[int], step: int) -> None:
        self.epoch += step
        parts = []
        offset = self.oracle.end
        first = -1
        for count, gap in zip(counts, gaps, strict=False):
            offset += gap if self.compact else 0
            first = offset if first < 0 else first
            parts.append(batch(count, timestamp_ms=self.clock, base_offset=offset, leader_epoch=self.epoch))
            offset += count
        for part, seen in zip(parts, walk(b"".join(parts)), strict=True):
            self.oracle.append(OracleBatch(seen.base_offset, seen.last_offset, part, seen.max_timestamp_ms))
        self.log.append_as_follower(b"".join(parts))
        self.settle()

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @precondition(lambda self: self.manual)
    @rule(share=st.floats(0, 1))
    def set_high_watermark(self, share: float) -> None:
        ends = [batch.last + 1 for batch in self.oracle.batches] or [self.oracle.end]
        offset = max(ends[int(share * (len(ends) - 1))], self.oracle.start)
        self.oracle.high_watermark = max(self.oracle.high_watermark, offset)
        assert self.log.set_high_watermark(offset) == self.oracle.high_watermark

    @rule(share=st.floats(0, 1.2))
    def truncate(self, share: float) -> None:
        first = self.log.segments[0].base_offset
        offset = int(self.oracle.end * share)
        pinned = [self.log.read(at, 500, "log_end") for at in {self.oracle.start, self.oracle.end}]
        kept = [bytes(piece) for piece in pinned]
        self.log.truncate_to(offset)
        if offset < first and offset < self.oracle.end:
            self.oracle.truncate_fully(offset)
        else:
            self.oracle.truncate_to(offset)
        assert [bytes(piece) for piece in pinned] == kept
        self.forget_producers()
        self.settle()

    def forget_producers(self) -> None:
        """Derive each producer's next sequence from its batches that are left in the log."""
        self.sequences = {}
        for seen in self.oracle.batches:
            if seen.producer_id >= 0 and not seen.marker:
                last = next(iter(walk(seen.data))).last_sequence
                self.sequences[seen.producer_id] = last + 1

    @rule(ahead=st.integers(0, 50))
    def truncate_fully(self, ahead: int) -> None:
        self.oracle.truncate_fully(self.oracle.end + ahead)
        self.log.truncate_fully_and_start_at(self.oracle.end)
        self.sequences = {}

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        if self.oracle.transactions():     # the producers of deleted batches are kept; the oracle has none
            return
        offset = int(self.oracle.high_watermark * share)
        self.log.delete_records(offset)
        self.oracle.move_start(offset)

    @rule(keep=st.integers(0, 2000))
    def retain_by_size(self, keep: int) -> None:
        if self.compact or self.oracle.transactions():
            return
        segments = [(segment.base_offset, segment.size) for segment in self.log.segments]
        total = sum(size for _, size in segments)
        self.log.reconfigure(self.config.replace(retention_bytes=keep, retention_ms=-1))
        self.log.apply_retention(self.clock)
        self.log.reconfigure(self.config)
        ends = [base for base, _ in segments[1:]] + [self.oracle.end]
        for (_, size), end in zip(segments, ends, strict=True):
            if end > self.oracle.start and (total - size < keep or end > self.oracle.high_watermark or size == 0):
                break
            total -= size
            self.oracle.move_start(end if end < self.oracle.end or size > 0 else self.oracle.start)

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = Log(self.directory, self.config)
        assert self.log.recovery.ignored == []
        if self.manual:                # a close after which nothing was written does not record it again
            assert self.log.high_watermark <= self.oracle.high_watermark
            self.oracle.high_watermark = self.log.high_watermark
        self.settle()

    @invariant()
    def same_offsets(self) -> None:
        assert self.log.log_start_offset == self.oracle.start
        assert self.log.log_end_offset == self.oracle.end
        assert self.log.high_watermark == self.oracle.high_watermark
        assert self.log.last_stable_offset == self.oracle.last_stable()

    @invariant()
    def same_bytes(self) -> None:
        for isolation in ISOLATIONS:
            expected = self.oracle.read_all(self.oracle.start, isolation)
            assert read_all(self.log, isolation=isolation) == expected
            assert read_all(self.log, isolation=isolation, max_bytes=1) == expected

    @invariant()
    def reads_from_any_offset(self) -> None:
        for offset in range(self.oracle.start, self.oracle.end + 1, max(1, (self.oracle.end - self.oracle.start) // 7)):
            assert read_all(self.log, offset) == self.oracle.read_all(offset, "log_end")
        for offset in (self.oracle.start - 1, self.oracle.end + 1):
            try:
                self.log.read(offset)
            except OffsetOutOfRangeError:
                continue
            raise AssertionError(f"offset {offset} was read from {self.oracle.start} to {self.oracle.end}")

    @invariant()
    def same_aborted_transactions(self) -> None:
        start, end = self.oracle.start, self.oracle.last_stable()
        for low, high in ((start, end), (start + (end - start) // 3, start + 2 * (end - start) // 3)):
            found = [entry[:3] for entry in self.log.aborted_transactions(low, high)]
            assert found == self.oracle.aborted(low, high)

    @invariant()
    def same_times(self) -> None:
        stored = read_all(self.log)
        times = [(record.offset, record.timestamp_ms) for record in records(stored, control=True)
                 if record.offset >= self.oracle.start]
        for timestamp in {START_MS, self.clock - 25, self.clock}:
            expected = next((found for found in times if found[1] >= timestamp), None)
            answer = self.log.offset_for_time(timestamp, "log_end")
            assert (answer and answer[:2]) == expected

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            del self.log
            shutil.rmtree(self.directory)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=30, stateful_step_count=20, derandomize=True, deadline=None,
                                   suppress_health_check=list(HealthCheck))
