"""Compaction of segments so large that threads help: one reads ahead, one closes the replaced segments."""

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from kraft_native.base.errors import CorruptLogError, StorageError
from kraft_native.batch.batch import LEADER_EPOCH_AT, LENGTH_AT, OVERHEAD_BYTES
from kraft_native.batch.records import records as records_of
from kraft_native.facade.log import Log
from kraft_native.file import faults
from kraft_native.file.file_io import open_descriptors
from tests.native.compact.test_cleaner import START_MS, batch, config

SETTINGS = config(segment_bytes=18 << 20, max_message_bytes=8 << 20)
BATCHES = 300
PER_BATCH = 8
KEYS = 900
HUGE = 150
"""Number of the batch that is larger than one read."""


def fill(directory: Path) -> None:
    """Fill three sealed segments, the first two above 16 MiB."""
    with Log(directory, SETTINGS) as log:
        for number in range(BATCHES):
            log.append(batch([(b"key %d" % ((number * PER_BATCH + k) * 7 % KEYS), bytes([number % 251]) * 14_000)
                              for k in range(PER_BATCH)]))
            if number == HUGE:
                log.append(batch([(b"huge", bytes(3 << 20))]))
        log.roll()


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("ahead") / "log"
    fill(directory)
    return directory


@pytest.fixture
def directory(filled, tmp_path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "log"))


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for segment in log.segments
            for record in records_of(Path(os.fsdecode(segment.path)).read_bytes()[:segment.size])]


def latest(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return the last record of each key, in order."""
    return sorted({key: (offset, key, value) for offset, key, value in contents(log)}.values())


def test_the_latest_of_each_key_stays(directory):
    """No thread or descriptor of the helpers is left when the log is closed."""
    descriptors, threads = open_descriptors(), threading.active_count()
    with Log(directory, SETTINGS) as log:
        assert log.segments[0].size > 16 << 20
        wanted = latest(log)
        stats = log.compact(START_MS, force=True)
        assert stats.segments_rewritten >= 2
        assert contents(log) == wanted
        assert stats.records_read == BATCHES * PER_BATCH + 1
        assert sum(path.stat().st_size for path in directory.glob("*.log")) == stats.bytes_after
        assert not list(directory.glob("*.deleted"))
        log.compact(START_MS, force=True)
        assert contents(log) == wanted
    assert (open_descriptors(), threading.active_count()) == (descriptors, threads)


def test_a_look_that_ends_soon_starts_no_thread(directory, monkeypatch):
    """The initial check ends at the first change in a large segment: one thread per walk, and none for that check."""
    started = []
    start = threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        started.append(thread.name)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    with Log(directory, SETTINGS) as log:
        log.compact(START_MS, force=True)
    assert started.count("kraft-compaction-read") == 2 * 2      # two large segments, two walks each


@pytest.mark.parametrize("number", [1, 5, 14, 15, 30, 40])
def test_a_read_that_fails(directory, number):
    """A failed read ahead, in either walk, is reported with the file, and nothing is lost."""
    descriptors, threads = open_descriptors(), threading.active_count()
    with Log(directory, SETTINGS) as log:
        wanted = latest(log)
        with faults.fail_at(number, error=errno.EIO, kinds={"read"}, under=directory, suffix=".log") as plan:
            with pytest.raises(StorageError) as raised:
                log.compact(START_MS, force=True)
            assert plan.fired == 1
        assert raised.value.errno == errno.EIO
        assert raised.value.path.endswith(".log")
        assert log.failure is None
        assert latest(log) == wanted
        log.compact(START_MS, force=True)
        assert contents(log) == wanted
    assert (open_descriptors(), threading.active_count()) == (descriptors, threads)


@pytest.mark.parametrize("share", [0.01, 0.4, 0.7, 0.99])
def test_damage_ends_it(directory, share):
    """The position is that of the damaged batch, however far ahead the thread is."""
    with Log(directory, SETTINGS) as log:
        path = Path(os.fsdecode(log.segments[0].path))
        data = bytearray(path.read_bytes())
        at = int(log.segments[0].size * share)
        position = 0
        while (end := position + OVERHEAD_BYTES + int.from_bytes(
                data[position + LENGTH_AT:position + LEADER_EPOCH_AT], "big")) <= at:
            position = end
        data[at] ^= 1
        path.write_bytes(data)
        with pytest.raises(CorruptLogError) as raised:
            log.compact(START_MS, force=True)
        assert (raised.value.path, raised.value.position) == (str(path), position)
        assert log.failure is None
        assert not list(directory.glob("*.cleaned"))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EOPNOTSUPP])
def test_space_that_cannot_be_reserved(directory, error):
    """Plain writes take the place of reserved space."""
    with Log(directory, SETTINGS) as log:
        wanted = latest(log)
        with faults.fail_at(1, error=error, kinds={"allocate"}, under=directory, persistent=True) as plan:
            log.compact(START_MS, force=True)
        assert plan.fired > 0
        assert contents(log) == wanted


@pytest.mark.parametrize("kind", ["allocate", "truncate"])
def test_reserving_fails(directory, kind):
    """The failure comes before the swap of that segment: nothing is lost, and the log can be compacted later."""
    with Log(directory, SETTINGS) as log:
        wanted = latest(log)
        plan = faults.fail_at(1, error=errno.EIO, kinds={kind}, under=directory, suffix=".cleaned")
        with plan, pytest.raises(StorageError):
            log.compact(START_MS, force=True)
        assert log.failure is None
        assert latest(log) == wanted
        assert not list(directory.glob("*.cleaned"))
        log.compact(START_MS, force=True)
        assert contents(log) == wanted


def test_stopped_by_progress(directory):
    """An exception from the owner's side ends the thread."""
    threads = threading.active_count()

    def stop(*_: int) -> None:
        raise RuntimeError("enough")

    with Log(directory, SETTINGS) as log:
        wanted = latest(log)
        with pytest.raises(RuntimeError, match="enough"):
            log.compact(START_MS, force=True, progress=stop)
        assert threading.active_count() == threads
        assert latest(log) == wanted
