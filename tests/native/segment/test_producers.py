"""Producer-id state: rules one by one, a state machine against the oracle, snapshots, and Kafka's snapshots."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kraft_native.base import crc
from kraft_native.base.errors import (
    CorruptFileError,
    InvalidArgumentError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KraftError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from kraft_native.batch.batch import HEADER_BYTES, RECORD_COUNT_AT, walk
from kraft_native.batch.records import records
from kraft_native.segment.producer_snapshots import (
    ProducerState,
    list_snapshots,
    read_snapshot,
    remove_snapshots_after,
    remove_snapshots_before,
    snapshot_path,
)
from kraft_native.segment.producers import ProducerStates
from tests.golden import GoldenPartition, partitions
from tests.oracle.producers import ABORT, COMMIT, INT32_MAX, BatchInfo, Producer, Producers, RefusedError


def data(offset, *, pid=7, epoch=0, sequence=0, count=1, timestamp=100, transactional=False):
    return BatchInfo(offset, count, pid, epoch, sequence, timestamp, transactional)


def marker(offset, *, pid=7, epoch=0, kind=COMMIT, coordinator_epoch=0, timestamp=100):
    return BatchInfo(offset, 1, pid, epoch, -1, timestamp, control_type=kind, coordinator_epoch=coordinator_epoch)


def verify(states: ProducerStates, batch: BatchInfo, *, client=True):
    return states.verify_header(batch.header(), client_origin=client, coordinator_epoch=batch.coordinator_epoch)


def update(states: ProducerStates, batch: BatchInfo):
    return states.update_header(batch.header(), control_type=batch.control_type,
                                coordinator_epoch=batch.coordinator_epoch)


def append(states: ProducerStates, batch: BatchInfo):
    assert verify(states, batch) is None
    return update(states, batch)


# --- idempotence


def test_unknown_producer_may_start_anywhere():
    states = ProducerStates()
    append(states, data(0, epoch=3, sequence=12345))
    assert states.describe() == [ProducerState(7, 3, -1, 12345, 0, 0, 100, -1)]
    assert states.map_end_offset == 1


def test_gap_and_repeat_are_refused():
    states = ProducerStates()
    append(states, data(0, count=3))
    for sequence in (0, 1, 2, 4, INT32_MAX):
        with pytest.raises(OutOfOrderSequenceError, match="does not follow 2"):
            verify(states, data(3, sequence=sequence))
    append(states, data(3, sequence=3))


def test_duplicates_of_the_last_five_batches():
    states = ProducerStates()
    for i in range(7):
        append(states, data(10 * i, sequence=2 * i, count=2, timestamp=1000 + i))
    for i in range(2, 7):
        assert verify(states, data(99, sequence=2 * i, count=2)) == (10 * i, 10 * i + 1, 1000 + i)
    for i in range(2):
        with pytest.raises(OutOfOrderSequenceError):
            verify(states, data(99, sequence=2 * i, count=2))
    with pytest.raises(OutOfOrderSequenceError):  # the same first sequence, but not the same batch
        verify(states, data(99, sequence=12, count=1))


def test_sequences_wrap_between_and_inside_batches():
    states = ProducerStates()
    append(states, data(0, sequence=INT32_MAX - 1, count=2))
    append(states, data(2, sequence=0, count=1))
    states = ProducerStates()
    append(states, data(0, sequence=INT32_MAX - 1, count=4))
    assert states.describe()[0].last_sequence == 1
    assert verify(states, data(9, sequence=INT32_MAX - 1, count=4)) == (0, 3, 100)
    append(states, data(4, sequence=2))


def test_epochs():
    states = ProducerStates()
    append(states, data(0, epoch=5, sequence=0))
    with pytest.raises(InvalidProducerEpochError, match="epoch 4 is older"):
        verify(states, data(1, epoch=4, sequence=1))
    with pytest.raises(InvalidProducerEpochError):
        verify(states, data(1, epoch=4, sequence=1), client=False)
    with pytest.raises(OutOfOrderSequenceError, match="must be 0"):
        verify(states, data(1, epoch=6, sequence=1))
    append(states, data(1, epoch=6, sequence=0))
    assert states.describe()[0].producer_epoch == 6


def test_coordinator_writes_carry_no_sequences():
    states = ProducerStates()
    for offset in range(3):
        assert verify(states, data(offset, sequence=-1, transactional=True), client=False) is None
        update(states, data(offset, sequence=-1, transactional=True))
    assert states.describe() == [ProducerState(7, 0, -1, -1, 2, 0, 100, 0)]


def test_batches_without_producer_id_leave_no_trace():
    states = ProducerStates()
    append(states, data(0, pid=-1, epoch=-1, sequence=-1, count=4))
    assert len(states) == 0
    assert states.map_end_offset == 4


# --- transactions


def test_transaction_holds_readers_back_until_its_marker_is_replicated():
    states = ProducerStates()
    append(states, data(0, sequence=0, count=5, transactional=True))
    append(states, data(5, pid=8, count=5))
    assert states.first_unstable_offset(10) == 0
    assert states.open_transactions == 1
    assert append(states, marker(10)) == (False, 7, 0, 10, 11)
    assert states.open_transactions == 0
    assert states.first_unstable_offset(10) == 0, "the marker itself is not below the high watermark"
    assert states.first_unstable_offset(11) == -1
    assert states.first_unstable_offset(10) == -1, "it does not come back"


def test_last_stable_offset_of_an_aborted_transaction_is_the_next_open_one():
    states = ProducerStates()
    append(states, data(0, pid=1, transactional=True))
    append(states, data(1, pid=2, transactional=True))
    append(states, data(2, pid=3, transactional=True))
    assert append(states, marker(3, pid=2, kind=ABORT)) == (True, 2, 1, 3, 0)
    assert append(states, marker(4, pid=1, kind=ABORT)) == (True, 1, 0, 4, 2)
    assert append(states, marker(5, pid=3, kind=ABORT)) == (True, 3, 2, 5, 6)


def test_write_outside_an_open_transaction():
    states = ProducerStates()
    append(states, data(0, transactional=True))
    with pytest.raises(InvalidTxnStateError, match="open since offset 0"):
        verify(states, data(1, sequence=1))
    append(states, data(1, sequence=1, transactional=True))
    assert states.describe()[0].txn_first_offset == 0


def test_markers_are_fenced():
    states = ProducerStates()
    append(states, data(0, epoch=2, transactional=True))
    append(states, marker(1, epoch=2, coordinator_epoch=5))
    with pytest.raises(TransactionCoordinatorFencedError, match="coordinator epoch 4"):
        verify(states, marker(2, epoch=2, coordinator_epoch=4))
    with pytest.raises(InvalidProducerEpochError, match="marker of epoch 1"):
        verify(states, marker(2, epoch=1, coordinator_epoch=5))
    assert append(states, marker(2, epoch=3, coordinator_epoch=5)) is None, "no transaction was open"
    assert states.describe() == [ProducerState(7, 3, 5, -1, -1, 0, 100, -1)]
    append(states, data(3, epoch=3, sequence=0))


def test_marker_that_compaction_emptied_changes_nothing():
    states = ProducerStates()
    append(states, data(0, transactional=True))
    before = states.describe()
    header = bytearray(marker(1).header())
    header[RECORD_COUNT_AT:HEADER_BYTES] = bytes(4)
    assert states.update_header(header) is None
    assert states.describe() == before
    assert states.map_end_offset == 2


def test_many_transactions_in_any_order():
    states = ProducerStates()
    for pid in range(500):
        append(states, data(pid, pid=pid, transactional=True))
    order = [(pid * 197) % 500 for pid in range(500)]
    for i, pid in enumerate(order):
        oldest = min(order[i + 1:], default=500 + i + 1)
        assert append(states, marker(500 + i, pid=pid, kind=ABORT)) == (True, pid, pid, 500 + i, oldest)
    assert states.first_unstable_offset(500) == 0
    for hw in range(500, 1001, 7):
        assert states.first_unstable_offset(hw) == min(order[hw - 500:], default=-1)


def test_header_must_be_whole():
    with pytest.raises(InvalidArgumentError, match="header of 60 bytes"):
        ProducerStates().verify_header(bytes(60))
    with pytest.raises(InvalidArgumentError, match=r"producer\.id\.expiration\.ms is 0"):
        ProducerStates(expiration_ms=0)


# --- expiry and the table


def test_expiry_spares_open_transactions():
    states = ProducerStates(expiration_ms=10)
    append(states, data(0, pid=1, timestamp=100))
    append(states, data(1, pid=2, timestamp=100, transactional=True))
    append(states, data(2, pid=3, timestamp=101))
    assert states.remove_expired(109) == 0
    assert states.remove_expired(110) == 1
    assert [state.producer_id for state in states.describe()] == [2, 3]
    assert states.remove_expired(1000) == 1
    append(states, data(3, pid=1, sequence=77))


def test_table_of_many_producers():
    states = ProducerStates(expiration_ms=1)
    ids = [(pid * 0x9E3779B97F4A7C15) % 2**63 for pid in range(3000)]
    for offset, pid in enumerate(ids):
        append(states, data(offset, pid=pid, timestamp=offset % 7))
    assert len(states) == 3000
    for now in range(1, 8):
        states.remove_expired(now)
        alive = sorted(pid for offset, pid in enumerate(ids) if offset % 7 >= now)
        assert [state.producer_id for state in states.describe()] == alive
    assert len(states) == 0


# --- snapshots


def test_snapshot_round_trip(tmp_path):
    states = ProducerStates()
    append(states, data(0, pid=9, sequence=INT32_MAX, count=2))
    append(states, data(2, pid=3, epoch=4, transactional=True, timestamp=555))
    append(states, marker(3, pid=5, coordinator_epoch=8))
    assert states.write_snapshot(tmp_path, 4) is True
    assert states.write_snapshot(tmp_path, 4) is False
    path = snapshot_path(tmp_path, 4)
    assert read_snapshot(path) == states.describe()
    assert Path(path).read_bytes()[:2] == b"\0\1"
    assert Path(path).stat().st_size == 10 + 3 * 46

    again = ProducerStates()
    assert again.truncate_and_reload(tmp_path, 0, 4, 0) == []
    assert (again.map_end_offset, again.snapshot_offset, again.open_transactions) == (4, 4, 1)
    assert again.describe() == states.describe()
    assert verify(again, data(9, pid=9, sequence=INT32_MAX, count=2)) == (0, 1, 100)
    assert again.first_unstable_offset(4) == 2
    assert again.write_snapshot(tmp_path, 6) is True, "a segment rolled to a higher base offset"
    assert list_snapshots(tmp_path) == [4, 6]
    with pytest.raises(InvalidArgumentError, match="covers up to 6"):
        again.write_snapshot(tmp_path, 5)


def test_a_snapshot_has_all_batches_that_may_be_repeated(tmp_path):
    """A producer whose leader stopped before the reply repeats all batches in flight, not only the last one."""
    states = ProducerStates()
    for i in range(7):
        append(states, data(10 * i, sequence=2 * i, count=2, timestamp=1000 + i))
    append(states, data(70, pid=3, sequence=0))
    append(states, data(71, pid=8, sequence=5))
    append(states, data(72, pid=8, sequence=6))
    states.write_snapshot(tmp_path, 73)
    path = Path(snapshot_path(tmp_path, 73))
    assert path.stat().st_size == 10 + 3 * 46 + 4 + 5 * 32
    again = ProducerStates()
    again.load(path, 73, 0)
    assert again.describe() == states.describe() == read_snapshot(path)
    for i in range(2, 7):
        assert verify(again, data(99, sequence=2 * i, count=2)) == (10 * i, 10 * i + 1, 1000 + i)
    with pytest.raises(OutOfOrderSequenceError):
        verify(again, data(99, sequence=2, count=2))
    assert verify(again, data(99, pid=8, sequence=5)) == (71, 71, 100)
    append(again, data(73, sequence=14))
    append(again, data(74, pid=3, sequence=1))


def test_a_snapshot_with_half_a_batch_is_corrupt(tmp_path):
    states = ProducerStates()
    append(states, data(0))
    append(states, data(1, sequence=1))
    states.write_snapshot(tmp_path, 2)
    path = Path(snapshot_path(tmp_path, 2))
    body = path.read_bytes()[6:]
    for damaged in (*(body[:-cut] for cut in (1, 4, 31, 32, 35)), body[:-24] + bytes([0, 9]) + body[-22:]):
        path.write_bytes(b"\0\1" + crc.checksum(damaged).to_bytes(4, "big") + damaged)
        with pytest.raises(CorruptFileError, match=r"no earlier batches|not one before its last"):
            states.load(path, 2, 0)
        assert len(states) == 0


def test_corrupt_snapshots_are_removed_and_reported(tmp_path):
    states = ProducerStates()
    for offset in range(3):
        append(states, data(offset, sequence=offset))
        states.write_snapshot(tmp_path, offset + 1)
    Path(snapshot_path(tmp_path, 3)).write_bytes(b"")
    whole = bytearray(Path(snapshot_path(tmp_path, 2)).read_bytes())
    whole[-1] ^= 1
    Path(snapshot_path(tmp_path, 2)).write_bytes(whole)
    again = ProducerStates()
    corrupt = again.truncate_and_reload(tmp_path, 0, 3, 0)
    assert [path for path, _ in corrupt] == [snapshot_path(tmp_path, 3), snapshot_path(tmp_path, 2)]
    assert "CRC" in corrupt[1][1]
    assert again.map_end_offset == 1
    assert list_snapshots(tmp_path) == [1]


@pytest.mark.parametrize("flip", range(56))
def test_every_flipped_byte_and_every_cut_is_noticed(tmp_path, flip):
    states = ProducerStates()
    append(states, data(0))
    states.write_snapshot(tmp_path, 1)
    whole = Path(snapshot_path(tmp_path, 1)).read_bytes()
    path = tmp_path / "damaged"
    damaged = bytearray(whole)
    damaged[flip] ^= 0x40
    for content in (bytes(damaged), whole[:flip], whole + bytes(flip + 1)):
        path.write_bytes(content)
        with pytest.raises(CorruptFileError, match="damaged"):
            read_snapshot(path)
        with pytest.raises(CorruptFileError):
            states.load(path, 1, 0)
        assert len(states) == 0


def test_snapshot_names_and_removal(tmp_path):
    for offset in (0, 5, 9, 40):
        Path(snapshot_path(tmp_path, offset)).touch()
    for name in ("1.snapshot", "00000000000000000007.snapshot.deleted", "00000000000000000007.snapshot.tmp", "x.log"):
        (tmp_path / name).touch()
    assert list_snapshots(tmp_path) == [0, 5, 9, 40]
    assert remove_snapshots_before(tmp_path, 5) == [0]
    assert remove_snapshots_after(tmp_path, 9) == [40]
    assert list_snapshots(os.fsencode(tmp_path)) == [5, 9]


def test_full_truncation(tmp_path):
    states = ProducerStates()
    append(states, data(0, transactional=True))
    states.write_snapshot(tmp_path, 1)
    states.truncate_fully(tmp_path, 500)
    assert (len(states), states.open_transactions, states.map_end_offset) == (0, 0, 500)
    assert states.first_unstable_offset(0) == -1
    assert list_snapshots(tmp_path) == []


# --- against the oracle

PIDS = st.integers(1, 5)


class ProducerMachine(RuleBasedStateMachine):
    """A log as a list of batches; the state follows it through appends, markers, truncation, reload and expiry."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.states = ProducerStates(expiration_ms=50)
        self.oracle = Producers(expiration_ms=50)
        self.log: list[BatchInfo] = []
        self.log_start = self.high_watermark = 0
        self.snapshots: dict[int, dict[int, Producer] | None] = {}
        self.now = 100

    def teardown(self) -> None:
        self.directory.cleanup()

    @property
    def log_end(self) -> int:
        return self.log[-1].last_offset + 1 if self.log else self.log_start

    def write(self, batch: BatchInfo) -> None:
        assert update(self.states, batch) == self.oracle.update(batch)
        self.log.append(batch)

    def offer(self, batch: BatchInfo, client: bool) -> None:
        try:
            kept = self.oracle.verify(batch, client)
        except RefusedError as error:
            refused = error.code
        else:
            refused = 0
        if refused:
            with pytest.raises(KraftError) as raised:
                verify(self.states, batch, client=client)
            assert raised.value.code == refused
            return
        found = verify(self.states, batch, client=client)
        if kept is not None:
            assert found == (kept.base_offset, kept.last_offset, kept.timestamp)
        else:
            assert found is None
            self.write(batch)

    @rule(pid=PIDS, epoch_step=st.sampled_from([0, 0, 0, 0, 1, -1]), step=st.sampled_from([0, 0, 0, 0, 1, -1, -3]),
          count=st.integers(1, 4), transactional=st.booleans(), elapsed=st.integers(0, 9))
    def produce(self, pid, epoch_step, step, count, transactional, elapsed):
        self.now += elapsed
        known = self.oracle.by_id.get(pid)
        epoch, following = (known.epoch, known.last()[0] + 1) if known else (0, INT32_MAX - 5)
        sequence = (0 if epoch_step else following + step) % 2**31
        batch = BatchInfo(self.log_end, count, pid, max(epoch + epoch_step, 0), sequence, self.now, transactional)
        self.offer(batch, client=True)

    @rule(pid=PIDS, kept=st.integers(0, 6))
    def repeat(self, pid, kept):
        mine = [batch for batch in self.log if batch.producer_id == pid and not batch.is_marker]
        if len(mine) > kept:
            again = mine[-1 - kept]
            self.offer(BatchInfo(self.log_end, again.count, pid, again.producer_epoch, again.base_sequence, self.now,
                                 again.transactional), client=True)

    @rule(pid=PIDS, epoch=st.integers(0, 3), count=st.integers(1, 3))
    def coordinator_write(self, pid, epoch, count):
        self.offer(BatchInfo(self.log_end, count, pid, epoch, -1, self.now, True), client=False)

    @rule(pid=PIDS, epoch_step=st.sampled_from([0, 0, 1, -1]), kind=st.sampled_from([ABORT, COMMIT]),
          coordinator_epoch=st.sampled_from([3, 3, 3, 4, 2]))
    def end_transaction(self, pid, epoch_step, kind, coordinator_epoch):
        known = self.oracle.by_id.get(pid)
        epoch = max((known.epoch if known else 0) + epoch_step, 0)
        self.offer(marker(self.log_end, pid=pid, epoch=epoch, kind=kind, coordinator_epoch=coordinator_epoch,
                          timestamp=self.now), client=False)

    @rule(pid=PIDS, epoch=st.integers(0, 3), sequence=st.integers(0, 9), transactional=st.booleans())
    def replicate_anything(self, pid, epoch, sequence, transactional):
        """Replicate as a follower, which accepts whatever the leader wrote."""
        self.write(BatchInfo(self.log_end, 1, pid, epoch, sequence, self.now, transactional))

    @rule(share=st.floats(0, 1))
    def raise_high_watermark(self, share):
        low = max(self.high_watermark, self.log_start)
        self.high_watermark = low + int((self.log_end - low) * share)

    @rule(durable=st.booleans())
    def snapshot(self, durable):
        before = self.states.snapshot_offset
        written = self.states.write_snapshot(self.directory.name, self.log_end, durable)
        assert written == (self.log_end > before)
        if written:
            self.snapshots[self.log_end] = self.oracle.snapshot()
            assert read_snapshot(snapshot_path(self.directory.name, self.log_end)) == self.states.describe()

    @precondition(lambda self: self.snapshots)
    @rule(choice=st.integers(0, 100))
    def damage_snapshot(self, choice):
        offset = sorted(self.snapshots)[choice % len(self.snapshots)]
        path = Path(snapshot_path(self.directory.name, offset))
        path.write_bytes(path.read_bytes()[:-1])
        self.snapshots[offset] = None

    def reload(self, states: ProducerStates) -> None:
        log_end = self.log_end
        self.snapshots = {at: kept for at, kept in self.snapshots.items() if self.log_start < at <= log_end}
        unchanged = states.map_end_offset == log_end
        corrupt = states.truncate_and_reload(self.directory.name, self.log_start, log_end, self.now)
        self.states = states
        if unchanged:
            self.oracle.ended = [txn for txn in self.oracle.ended if txn[1] >= self.log_start]
            return
        for path, _ in corrupt:
            assert self.snapshots.pop(int(Path(path).name[:20])) is None
        usable = max((at for at in self.snapshots), default=self.log_start)
        self.oracle.restore(self.snapshots.get(usable) or {}, usable, self.now)
        assert states.map_end_offset == usable
        for batch in self.log:
            if batch.base_offset >= usable:
                assert update(states, batch) == self.oracle.update(batch)

    @rule(share=st.floats(0, 1))
    def truncate(self, share):
        keep = int(len(self.log) * share)
        self.log = self.log[:keep]
        self.high_watermark = min(self.high_watermark, self.log_end)
        self.reload(self.states)
        assert list_snapshots(self.directory.name) == sorted(self.snapshots)

    @rule()
    def reopen(self):
        self.reload(ProducerStates(expiration_ms=50))

    @rule(share=st.floats(0, 1))
    def delete_records(self, share):
        drop = int(len(self.log) * share)
        if drop and drop < len(self.log):
            self.log_start = self.log[drop].base_offset
            self.log = self.log[drop:]
            self.states.log_start_incremented(self.directory.name, self.log_start)
            self.oracle.ended = [txn for txn in self.oracle.ended if txn[1] >= self.log_start]
            self.high_watermark = max(self.high_watermark, self.log_start)

    @rule(elapsed=st.integers(0, 60))
    def expire(self, elapsed):
        self.now += elapsed
        assert self.states.remove_expired(self.now) == self.oracle.remove_expired(self.now)

    @invariant()
    def same(self):
        assert [tuple(state) for state in self.states.describe()] == self.oracle.describe()
        assert len(self.states) == len(self.oracle.by_id)
        assert self.states.open_transactions == len(self.oracle.open_firsts())
        expected = self.oracle.first_unstable(self.high_watermark)
        assert self.states.first_unstable_offset(self.high_watermark) == expected


TestProducerMachine = ProducerMachine.TestCase
TestProducerMachine.settings = settings(max_examples=80, stateful_step_count=50, deadline=None, derandomize=True)


# --- state that Kafka wrote


def expected_state(entry: dict) -> ProducerState:
    return ProducerState(
        entry["producerId"], entry["producerEpoch"], entry["coordinatorEpoch"], entry.get("lastSequence", -1),
        entry.get("lastOffset", -1), entry.get("offsetDelta", 0), entry["lastTimestamp"],
        -1 if entry["currentTxnFirstOffset"] is None else entry["currentTxnFirstOffset"])


def assert_same_but_expired(states: ProducerStates, entries: list[dict]) -> None:
    """Kafka was restarted in between and forgot producers whose (made-up) timestamps were years old; ours keeps all."""
    ours, kafkas = set(states.describe()), set(map(expected_state, entries))
    assert kafkas <= ours
    assert all(state.txn_first_offset < 0 and state.last_timestamp_ms < 1_710_000_000_000 for state in ours - kafkas)


def with_snapshots() -> list[GoldenPartition]:
    return [found for found in partitions() if any(name.endswith(".snapshot") for name in found.files)]


@pytest.mark.parametrize("partition", with_snapshots(), ids=str)
def test_reads_and_writes_kafkas_snapshots(partition, tmp_path):
    for name, expected in partition.files.items():
        if not name.endswith(".snapshot"):
            continue
        path = partition.directory / name
        entries = read_snapshot(path)
        assert entries == [expected_state(entry) for entry in expected["entries"]]
        offset = int(name[:20])
        states = ProducerStates(expiration_ms=2**62)
        states.load(path, offset, 0)
        states.truncate_fully(tmp_path, 0)
        states.load(path, offset - 1 if offset else 0, 0)
        if states.write_snapshot(tmp_path, offset):
            ours = Path(snapshot_path(tmp_path, offset)).read_bytes()
            assert read_snapshot(snapshot_path(tmp_path, offset)) == sorted(entries)
            if entries == sorted(entries):
                assert ours == path.read_bytes()


@pytest.mark.parametrize("partition", with_snapshots(), ids=str)
def test_replaying_the_log_gives_kafkas_snapshots_and_aborted_transactions(partition):
    """Our state at each snapshot's offset equals the snapshot's, unless a batch was deleted or cleaned away."""
    if partition.name.startswith(("compacted", "delrec", "delall")):
        pytest.skip("batches that made the state were removed")
    states = ProducerStates(expiration_ms=2**62)
    aborted = []
    snapshots = {int(name[:20]): entry["entries"] for name, entry in partition.files.items() if ".snapshot" in name}
    compared = 0
    for log in sorted(partition.directory.glob("*.log")):
        for batch in walk(log.read_bytes()):
            if batch.base_offset in snapshots:
                assert_same_but_expired(states, snapshots.pop(batch.base_offset))
                compared += 1
            control_type = coordinator_epoch = -1
            if batch.is_control:
                record = next(iter(records(batch, control=True)))
                control_type = int.from_bytes(record.key[2:4], "big")
                coordinator_epoch = int.from_bytes(record.value[2:6], "big")
            done = states.update_header(bytes(batch)[:HEADER_BYTES], control_type=control_type,
                                        coordinator_epoch=coordinator_epoch)
            if done is not None and done[0]:
                aborted.append(done[1:])
    assert set(snapshots) <= {states.map_end_offset}
    for entries in snapshots.values():
        assert_same_but_expired(states, entries)
        compared += 1
    assert compared == sum(".snapshot" in name for name in partition.files)
    expected_aborted = [
        (entry["producerId"], entry["firstOffset"], entry["lastOffset"], entry["lastStableOffset"])
        for name in sorted(partition.files) if name.endswith(".txnindex")
        for entry in partition.files[name]["entries"]
    ]
    assert aborted == expected_aborted
    last_stable = states.first_unstable_offset(2**62)
    assert (last_stable if last_stable >= 0 else states.map_end_offset) == partition.expected["last_stable_offset"]
