"""The leader-epoch cache: against an oracle, against Kafka's answers, and its file."""

import tempfile

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kraft_native.base.errors import CorruptFileError, InvalidArgumentError
from kraft_native.segment.epochs import LeaderEpochCache
from tests.golden import needs_golden, partitions
from tests.oracle.epochs import Epochs

CHECKPOINT = "leader-epoch-checkpoint"


@needs_golden
def test_golden_data_is_there():
    assert len(partitions()) > 30


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_answers_as_kafka_did(partition):
    cache = LeaderEpochCache(partition.directory)
    assert cache.entries(), "every golden partition has an epoch"
    for query in partition.expected["offset_for_leader_epoch"]:
        answer = cache.end_offset_for(query["query_epoch"], partition.expected["latest"])
        assert answer == (query["leader_epoch"], query["end_offset"]), query
    assert cache.latest_epoch == cache.entries()[-1][0]


@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_writes_kafkas_bytes(partition, tmp_path):
    cache = LeaderEpochCache(tmp_path)
    for epoch, start in LeaderEpochCache(partition.directory).entries():
        cache.assign(epoch, start)
    assert (tmp_path / CHECKPOINT).read_bytes() == (partition.directory / CHECKPOINT).read_bytes()


def test_empty(tmp_path):
    cache = LeaderEpochCache(tmp_path)
    assert (cache.latest_epoch, len(cache), cache.entries()) == (-1, 0, [])
    assert cache.end_offset_for(0, 7) == (-1, -1)
    assert cache.end_offset_for(-1, 7) == (-1, -1)
    assert cache.epoch_at(0) == -1
    assert cache.truncate_from_end(0) == 0
    assert cache.truncate_from_start(9) == 0
    assert not (tmp_path / CHECKPOINT).exists()


def test_epoch_below_the_first_ends_where_the_first_starts(tmp_path):
    cache = LeaderEpochCache(tmp_path)
    cache.assign(4, 30)
    assert cache.end_offset_for(2, 99) == (2, 30)
    assert cache.end_offset_for(4, 99) == (4, 99)
    assert cache.end_offset_for(5, 99) == (-1, -1)


def test_negative_numbers_are_refused(tmp_path):
    cache = LeaderEpochCache(tmp_path)
    for epoch, start in [(-1, 0), (0, -1)]:
        with pytest.raises(InvalidArgumentError, match="negative"):
            cache.assign(epoch, start)
    assert cache.entries() == []


@pytest.mark.parametrize("text", [
    "1\n0\n", "0\n2\n0 0\n", "0\n1\n0 0\n1 1\n", "0\n1\nx 0\n", "0\n1\n0\n", "0\n1\n0 0 0\n", "0\n2\n1 0\n0 5\n",
    "0\n2\n0 5\n1 5\n", "0\n1\n-1 0\n", "0\n1\n0 -1\n", "0\n1\n2147483648 0\n", "garbage", "\0\0\0\0", "0\n",
    "0\n1\n0 9223372036854775808\n", "\ufffd\n",
])
def test_unreadable_file(tmp_path, text):
    (tmp_path / CHECKPOINT).write_text(text)
    with pytest.raises(CorruptFileError, match=CHECKPOINT):
        LeaderEpochCache(tmp_path)
    cache = LeaderEpochCache(tmp_path, load=False)
    cache.rebuild([(-1, 0), (0, 3), (0, 8), (2, 9), (1, 11), (2, 12), (5, 20)])
    assert cache.entries() == LeaderEpochCache(tmp_path).entries() == [(0, 3), (2, 9), (5, 20)]


def test_empty_file_is_an_empty_cache(tmp_path):
    (tmp_path / CHECKPOINT).touch()
    assert LeaderEpochCache(tmp_path).entries() == []


def test_rebuild_that_fails_leaves_the_file(tmp_path):
    cache = LeaderEpochCache(tmp_path)
    cache.assign(3, 1)
    with pytest.raises(TypeError):
        cache.rebuild([(0, 0), ("x", 1)])
    assert cache.entries() == []
    assert LeaderEpochCache(tmp_path).entries() == [(3, 1)]


def test_truncate_from_start_is_written_with_the_next_change_or_flush(tmp_path):
    cache = LeaderEpochCache(tmp_path)
    for epoch, start in [(0, 0), (1, 10), (2, 20)]:
        cache.assign(epoch, start)
    assert cache.truncate_from_start(15) == 1
    assert cache.dirty
    assert len(LeaderEpochCache(tmp_path)) == 3
    stale = LeaderEpochCache(tmp_path)
    stale.truncate_from_start(15)
    assert stale.entries() == cache.entries() == [(1, 10), (2, 20)]
    cache.flush()
    assert not cache.dirty
    assert LeaderEpochCache(tmp_path).entries() == [(1, 10), (2, 20)]


def test_an_epoch_that_began_below_the_log_start_keeps_its_start(tmp_path):
    """Records of epoch 0 up to 12, where the log starts, are not those of the epoch that was current there."""
    cache = LeaderEpochCache(tmp_path)
    for epoch, start in [(0, 0), (1, 10)]:
        cache.assign(epoch, start)
    cache.truncate_from_start(12)
    assert cache.entries() == [(1, 10)]
    assert cache.end_offset_for(0, 99) == (0, 10)


def test_an_epoch_that_ended_at_the_log_start_keeps_its_start(tmp_path):
    """Records of epoch 0 up to 20, where epoch 2 and the log begin, are not the deleted records of epoch 1."""
    cache = LeaderEpochCache(tmp_path)
    for epoch, start in [(0, 0), (1, 10), (2, 20)]:
        cache.assign(epoch, start)
    cache.truncate_from_start(20)
    assert cache.entries() == [(1, 10), (2, 20)]
    assert cache.end_offset_for(0, 99) == (0, 10)
    assert cache.end_offset_for(1, 99) == (1, 20)
    assert cache.epoch_at(20) == 2


def test_an_epoch_goes_on_behind_a_later_one_that_had_no_batch(tmp_path):
    """A leader of epoch 3 that has appended nothing follows another replica, which has more records of epoch 2."""
    cache = LeaderEpochCache(tmp_path)
    for epoch, start in [(1, 83), (2, 89)]:
        cache.assign(epoch, start)
    cache.begin(3, 136)
    assert cache.assign(2, 136) == 1
    assert cache.latest_epoch == 2
    assert cache.entries() == LeaderEpochCache(tmp_path).entries() == [(1, 83), (2, 89)]


def test_what_an_opening_drops_leaves_the_file_before_the_next_batch(tmp_path):
    cache = LeaderEpochCache(tmp_path)
    for epoch, start in [(1, 83), (2, 89)]:
        cache.assign(epoch, start)
    assert cache.forget_from_end(90) == 0
    assert not cache.pending
    assert cache.forget_from_end(89) == 1
    assert cache.entries() == [(1, 83)]
    assert LeaderEpochCache(tmp_path).entries() == [(1, 83), (2, 89)]
    assert cache.pending, "an append flushes it first"
    cache.flush()
    assert LeaderEpochCache(tmp_path).entries() == [(1, 83)]


class EpochMachine(RuleBasedStateMachine):
    """Random changes; after each, answers and the file (after the repair that opening a log does) equal the oracle."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.cache = LeaderEpochCache(self.directory.name)
        self.oracle = Epochs()
        self.log_start = 0
        self.log_end = 0

    def teardown(self) -> None:
        self.directory.cleanup()

    @rule(epoch=st.integers(0, 12), start=st.integers(0, 40))
    def assign(self, epoch, start):
        before = list(self.oracle.entries)
        self.oracle.assign(epoch, start)
        assert self.cache.assign(epoch, start) == (before != self.oracle.entries)
        self.log_start = min(self.log_start, start)
        self.log_end = max(self.log_end, start + 1)

    @rule(end=st.integers(0, 40))
    def truncate_from_end(self, end):
        before = list(self.oracle.entries)
        self.oracle.truncate_from_end(end)
        assert self.cache.truncate_from_end(end) == (before != self.oracle.entries)

    @rule(start=st.integers(0, 40))
    def truncate_from_start(self, start):
        before = list(self.oracle.entries)
        self.oracle.truncate_from_start(start)
        assert self.cache.truncate_from_start(start) == (before != self.oracle.entries)
        if before != self.oracle.entries:
            self.log_start = start

    @rule()
    def reopen(self):
        self.cache.flush()
        self.cache = LeaderEpochCache(self.directory.name)

    @invariant()
    def same(self):
        entries = self.cache.entries()
        assert entries == self.oracle.entries
        assert self.cache.latest_epoch == (entries[-1][0] if entries else -1)
        for epoch in range(-1, 14):
            assert self.cache.end_offset_for(epoch, 50) == self.oracle.end_offset_for(epoch, 50)
        for offset in range(0, 42, 3):
            assert self.cache.epoch_at(offset) == self.oracle.epoch_at(offset)
        stored = LeaderEpochCache(self.directory.name)
        if self.cache.dirty:
            stored.truncate_from_start(self.log_start)
        assert stored.entries() == entries


TestEpochMachine = EpochMachine.TestCase
TestEpochMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None, derandomize=True)
