"""The records in flight of a share partition: against a model with one entry for each offset, and the known bugs of
Kafka's."""

from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.share.window import ShareWindow
from tests.oracle.share import ACCEPT, CODES, GAP, INVALID_RECORD_STATE, REJECT, RELEASE, RENEW, ShareModel

DELIVERIES_MAX = 3
LOCK_MS = 100
MEMBERS = st.sampled_from([b"a", b"b", b"c"])
SERVER_ERROR = -1
UNKNOWN = -2


def expanded(window: ShareWindow) -> dict[int, tuple[str, int, int]]:
    """Return state, delivery count and end of the lock by offset; of what is finished only that it is."""
    found = {}
    for first, last, state, deliveries, deadline_ms in window.states():
        for offset in range(first, last + 1):
            is_finished = state in ("ACKNOWLEDGED", "ARCHIVED")
            found[offset] = ("", 0, 0) if is_finished else (state, deliveries, deadline_ms)
    return found


class Histories(RuleBasedStateMachine):
    """Random histories of one share partition whose log has batches, gaps, and batches that nobody gets."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.log_start = 0
        self.batches: list[tuple[int, int, bool]] = []
        self.window = ShareWindow()
        self.model = ShareModel(DELIVERIES_MAX)

    @property
    def log_end(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else 0

    @rule(sizes=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6), st.booleans()), max_size=4))
    def append(self, sizes: list[tuple[int, int, bool]]) -> None:
        for gap, size, skipped in sizes:
            first = self.log_end + gap
            self.batches.append((first, first + size - 1, skipped and size % 2 == 0))

    @rule(member=MEMBERS, records_max=st.integers(0, 12), locks_max=st.integers(1, 20), strict=st.booleans(),
          count=st.integers(1, 6))
    def acquire(self, member: bytes, records_max: int, locks_max: int, strict: bool, count: int) -> None:
        offset = self.window.next_fetch_offset
        extents = [each for each in self.batches if each[1] >= offset][:count]
        deadline_ms = self.now_ms + LOCK_MS
        found = self.window.acquire_from(member, extents, deadline_ms, records_max=records_max, locks_max=locks_max,
                                         strict=strict, records_per_entry=4)
        offsets = [offset for first, last, _ in found for offset in range(first, last + 1)]
        assert offsets == self.model.acquire(member, extents, deadline_ms, records_max, locks_max, strict)
        for first, last, deliveries in found:
            assert all(self.model.records[offset].deliveries == deliveries for offset in range(first, last + 1))

    @rule(member=MEMBERS, kinds=st.lists(st.sampled_from([GAP, ACCEPT, RELEASE, REJECT, RENEW]), min_size=1,
                                         max_size=4), skip=st.integers(0, 3), own=st.booleans())
    def acknowledge(self, member: bytes, kinds: list[int], skip: int, own: bool) -> None:
        """Acknowledge some of a member's own records, or any."""
        candidates = [offset for offset in range(self.model.start, self.model.end)
                      if not own or (self.model.records[offset].state == "ACQUIRED"
                                     and self.model.records[offset].member == member)][skip:]
        changes: list[tuple[int, int, int]] = []
        for place, offset in enumerate(candidates):
            kind = kinds[place % len(kinds)]
            if changes and changes[-1][1] == offset - 1 and changes[-1][2] == kind:
                changes[-1] = (changes[-1][0], offset, kind)
            else:
                changes.append((offset, offset, kind))
        renewed_ms = self.now_ms + LOCK_MS
        error, write_id = self.window.acknowledge(member, changes, deliveries_max=DELIVERIES_MAX,
                                                  renewed_until_ms=renewed_ms)
        assert error == self.model.acknowledge(member, changes, renewed_ms)
        is_written = error == 0 and any(kind != RENEW for *_, kind in changes)
        assert write_id == (self.model.open_write if is_written else 0)

    @rule(member=MEMBERS)
    def leave(self, member: bytes) -> None:
        self.window.leave(member)
        self.model.leave(member)

    @rule(passed_ms=st.integers(1, LOCK_MS))
    def expire(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.window.expire(self.now_ms, DELIVERIES_MAX)
        self.model.expire(self.now_ms)

    @rule(count=st.integers(0, 8))
    def delete(self, count: int) -> None:
        self.log_start = min(self.log_start + count, self.log_end)
        self.window.follow(self.log_start, self.log_end)
        self.model.follow(self.log_start, self.log_end)

    @precondition(lambda self: not self.model.in_flight)
    @rule()
    def begin_write(self) -> None:
        unwritten = self.window.unwritten
        taken = self.window.take_write()
        assert (taken is not None) == unwritten
        if taken is None:
            assert not any(record.write_id for record in self.model.records.values())
            return
        start, finished, batches = taken
        assert start == self.model.start
        wanted = self.model.take_write()
        assert {offset: (state, count) for first, last, state, count in batches
                for offset in range(first, last + 1)} == wanted
        for (_, last, *kind), (first, _, *next_kind) in pairwise(batches):
            assert last + 1 < first or kind != next_kind, "batches are not joined"
        assert finished == len(self.model.in_state("ACKNOWLEDGED", "ARCHIVED", "ACCEPTING", "REJECTING"))

    @precondition(lambda self: self.model.in_flight)
    @rule(is_ok=st.booleans())
    def end_write(self, is_ok: bool) -> None:
        write_id = self.model.in_flight
        assert self.window.outcome(write_id) == UNKNOWN
        self.window.written(0 if is_ok else SERVER_ERROR)
        self.model.written(is_ok)
        assert self.window.outcome(write_id) == (0 if is_ok else SERVER_ERROR)

    @invariant()
    def is_as_the_model(self) -> None:
        model = {offset: (record.state, record.deliveries, record.deadline_ms)
                 if record.state not in ("ACKNOWLEDGED", "ARCHIVED") else ("", 0, 0)
                 for offset, record in sorted(self.model.records.items())}
        assert expanded(self.window) == model
        assert (self.window.start, self.window.end) == (self.model.start, self.model.end)
        assert self.window.next_fetch_offset == self.model.next_offset
        assert self.window.deadline_ms == self.model.deadline_ms
        assert self.window.available_count == len(self.model.in_state("AVAILABLE"))
        runs = self.window.states()
        assert all(before[1] + 1 == after[0] for before, after in pairwise(runs))

    @invariant()
    def memory_follows_the_records_in_flight(self) -> None:
        unwritten = sum(bool(record.write_id) for record in self.model.records.values())
        assert len(self.window) <= 2 * (self.window.acquired_count + self.window.available_count + unwritten) + 1


TestHistories = Histories.TestCase


def acquired(count: int, member: bytes = b"a", deadline_ms: int = LOCK_MS) -> ShareWindow:
    window = ShareWindow()
    window.acquire_from(member, [(0, count - 1, False)], deadline_ms)
    return window


def test_a_batch_that_is_acknowledged_as_a_whole_is_one_run() -> None:
    window = acquired(1_000_000)
    assert len(window) == 1
    assert window.acknowledge(b"a", [(0, 999_999, ACCEPT)])[0] == 0
    assert window.take_write() == (0, 1_000_000, [(0, 999_999, CODES["ACKNOWLEDGED"], 1)])
    window.written(0)
    assert (len(window), window.start, window.end) == (0, 1_000_000, 1_000_000)


def test_a_failed_write_returns_the_record_with_its_lock_and_its_delivery_count() -> None:
    """KAFKA-19476, PR 20310: the count rose, and the record could be acquired without a lock."""
    for kind in (ACCEPT, RELEASE, REJECT):
        window = acquired(1)
        window.acknowledge(b"a", [(0, 0, kind)])
        window.take_write()
        window.written(SERVER_ERROR)
        assert window.states() == [(0, 0, "ACQUIRED", 1, LOCK_MS)]
        assert window.deadline_ms == LOCK_MS
        assert window.expire(LOCK_MS, DELIVERIES_MAX)
        assert window.states() == [(0, 0, "AVAILABLE", 1, 0)]


def test_a_lock_that_ends_during_a_write_does_not_undo_the_acknowledgement() -> None:
    """KAFKA-18084: the timer of a record fired while its state was rolled back."""
    window = acquired(1)
    window.acknowledge(b"a", [(0, 0, ACCEPT)])
    window.take_write()
    assert not window.expire(LOCK_MS + 1, DELIVERIES_MAX)
    window.written(0)
    assert window.start == 1
    window = acquired(1)
    window.acknowledge(b"a", [(0, 0, ACCEPT)])
    window.take_write()
    assert not window.expire(LOCK_MS + 1, DELIVERIES_MAX)
    window.written(SERVER_ERROR)
    assert window.deadline_ms == LOCK_MS, "its lock is over, and ends at the next look"
    assert window.expire(LOCK_MS + 1, DELIVERIES_MAX)


def test_a_record_that_was_deleted_during_a_write_stays_deleted() -> None:
    """KAFKA-19476, PR 20286: the outcome of a pending write replaced the state of an archived record."""
    for error in (0, SERVER_ERROR):
        window = acquired(4)
        window.acknowledge(b"a", [(0, 3, RELEASE)])
        window.take_write()
        window.follow(2, 10)
        window.written(error)
        assert window.start == 2
        assert [run[:2] for run in window.states()] == [(2, 3)]
        assert window.acknowledge(b"a", [(0, 1, ACCEPT)]) == (0, 0), "of deleted records there is nothing to decide"


def test_the_limit_of_records_in_flight_holds_under_load() -> None:
    """KAFKA-17210: concurrent fetches went beyond the limit. Here by one batch at most, in strict mode by nothing."""
    extents = [(at, at + 9, False) for at in range(0, 1000, 10)]
    window = ShareWindow()
    for number in range(50):
        window.acquire_from(b"%d" % number, [each for each in extents if each[1] >= window.end], LOCK_MS,
                            records_max=15, locks_max=55)
    assert window.acquired_count == 60
    window = ShareWindow()
    for number in range(50):
        window.acquire_from(b"%d" % number, [each for each in extents if each[1] >= window.end], LOCK_MS,
                            records_max=7, locks_max=55, strict=True)
    assert window.acquired_count == 55


def test_a_strict_limit_cuts_batches() -> None:
    """KAFKA-19020: a member that wants one record gets one record."""
    window = ShareWindow()
    assert window.acquire_from(b"a", [(0, 99, False)], LOCK_MS, records_max=1, strict=True) == [(0, 0, 1)]
    assert window.acquire_from(b"b", [(0, 99, False)], LOCK_MS, records_max=2, strict=True) == [(1, 2, 1)]
    assert window.acquire_from(b"b", [(0, 99, False)], LOCK_MS, records_max=2) == [(3, 99, 1)]


def test_a_record_is_archived_once_it_was_delivered_as_often_as_is_allowed() -> None:
    window = ShareWindow()
    for delivery in range(1, DELIVERIES_MAX + 1):
        assert window.acquire_from(b"a", [(0, 0, False)], delivery * LOCK_MS) == [(0, 0, delivery)]
        window.expire(delivery * LOCK_MS, DELIVERIES_MAX)
    assert (window.start, window.end) == (1, 1)
    start, _, batches = window.take_write() or (0, 0, [])
    assert (start, batches) == (1, []), "the start is written, for no batch says it"


def test_only_the_member_that_has_a_record_may_acknowledge_it() -> None:
    window = acquired(10)
    for member, changes in ((b"b", [(0, 9, ACCEPT)]), (b"a", [(5, 10, ACCEPT)]), (b"a", [(10, 10, ACCEPT)])):
        assert window.acknowledge(member, changes)[0] == INVALID_RECORD_STATE
    assert window.acknowledge(b"a", [(3, 4, ACCEPT)])[0] == 0
    assert window.acknowledge(b"a", [(0, 9, ACCEPT)])[0] == INVALID_RECORD_STATE, "all of it, or nothing"
    assert [run[:3] for run in window.states()] == [(0, 2, "ACQUIRED"), (3, 4, "ACCEPTING"), (5, 9, "ACQUIRED")]


def test_a_stored_state_is_loaded() -> None:
    window = ShareWindow()
    window.load(5, [(0, 6, 2, 1), (9, 9, 4, 5), (10, 12, 0, 2)])
    assert window.states() == [(7, 8, "AVAILABLE", 0, 0), (9, 9, "ARCHIVED", 5, 0), (10, 12, "AVAILABLE", 2, 0)]
    assert (window.start, window.end, window.next_fetch_offset) == (7, 13, 7)
    for batches in ([(5, 6, 1, 1)], [(5, 6, 0, 1), (6, 7, 0, 1)], [(5, 6, 3, 1)]):
        with pytest.raises(InvalidArgumentError):
            ShareWindow().load(5, batches)  # type: ignore[arg-type]


def test_many_single_acknowledgements_of_one_request() -> None:
    """Each second record of a large batch: one pass over the runs, not one for each."""
    window = acquired(20_000)
    changes = [(offset, offset, ACCEPT if offset % 2 else REJECT) for offset in range(20_000)]
    assert window.acknowledge(b"a", changes)[0] == 0
    assert len(window) == 20_000
    window.take_write()
    window.written(0)
    assert (len(window), window.start) == (0, 20_000)
