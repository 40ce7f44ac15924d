"""Compaction stopped at every file operation: the log that is opened afterwards has every latest record."""

import errno
import os
import shutil
from pathlib import Path

from kraft_native.base.errors import LogReadOnlyError, StorageError
from kraft_native.batch.control import marker
from kraft_native.facade.log import Log
from kraft_native.file import faults
from kraft_native.log.flusher import Flusher
from tests.native.compact.test_cleaner import START_MS, batch, check_structure, config, values
from tests.oracle import cleaner as oracle


def fill(directory: Path) -> dict[bytes, tuple[int, bytes | None]]:
    """Fill a log that compaction reduces to fewer segments, with an aborted transaction."""
    with Log(directory, config(segment_bytes=900)) as log:
        for number in range(4):
            log.append(batch([(b"k%d" % (number % 2), b"v" * 50), (b"u%d" % number, b"w")]), now_ms=START_MS)
            if number == 1:
                log.roll()
        log.append(batch([(b"k1", b"aborted")], transactional=True, producer=(11, 0, 0)), now_ms=START_MS)
        log.append(marker(commit=False, producer_id=11, producer_epoch=0, coordinator_epoch=0, timestamp_ms=START_MS),
                   origin="coordinator", now_ms=START_MS)
        log.roll()
        return values(log)


def survivors(directory: Path, wanted: dict[bytes, tuple[int, bytes | None]]) -> None:
    """Check that a log that was stopped anywhere opens, has every record, and can be compacted."""
    with Log(directory, config(segment_bytes=900)) as log:
        assert values(log) == wanted
        assert log.aborted_transactions(0, log.log_end_offset) == [(11, 8, 9, 10)]
        check_structure(log)
        log.compact(START_MS, force=True)
        assert values(log) == wanted
        check_structure(log)
        assert not [name for name in os.listdir(directory) if name.endswith((".deleted", ".cleaned", ".swap"))]


def test_failing_operations(tmp_path):
    """Each file operation of a compaction fails once."""
    wanted = fill(tmp_path / "log")
    number = 0
    while True:
        directory = tmp_path / str(number)
        shutil.copytree(tmp_path / "log", directory)
        log = Log(directory, config(segment_bytes=900))
        plan = faults.fail_at(number + 1, error=errno.EIO, under=directory)
        failed = None
        try:
            with plan:
                log.compact(START_MS)
        except (StorageError, LogReadOnlyError) as error:
            failed = error
        fired = plan.fired
        if fired and failed is not None:
            assert log.log_end_offset == 10
            assert values_read(log) == wanted
        try:
            log.close()
        except (StorageError, LogReadOnlyError):
            assert fired
        survivors(directory, wanted)
        shutil.rmtree(directory)
        number += 1
        if not fired:
            break
    assert number > 30


def values_read(log: Log) -> dict[bytes, tuple[int, bytes | None]]:
    """Return `values` through the log's reads, also where a failed swap has left the files under other names."""
    facts = []
    offset = log.log_start_offset
    while len(piece := log.read(offset, isolation="log_end")) > 0:
        facts += oracle.batches(bytes(piece))
        offset = piece.next_offset
    return oracle.committed_values(facts)


def test_stops_between_operations(tmp_path):
    """The process stops after each file operation: from then on every operation fails, and nothing cleans up."""
    wanted = fill(tmp_path / "log")
    number = 0
    fired = 1
    while fired:
        directory = tmp_path / str(number)
        shutil.copytree(tmp_path / "log", directory)
        log = Log(directory, config(segment_bytes=900))
        plan = faults.fail_at(number + 1, error=errno.EIO, under=directory, persistent=True)
        with plan:
            try:
                log.compact(START_MS)
            except (StorageError, LogReadOnlyError):
                assert plan.fired
            stopped = tmp_path / "stopped"
            shutil.copytree(directory, stopped)
        fired = plan.fired
        try:
            log.close()
        except (StorageError, LogReadOnlyError):
            assert fired
        survivors(stopped, wanted)
        shutil.rmtree(stopped)
        shutil.rmtree(directory)
        number += 1
    assert number > 30


def test_a_newer_record_is_durable_before_the_older_is_removed(tmp_path):
    """Page-cache durability: a flush made the first values durable, but not the ones that replace them."""
    directory = tmp_path / "log"
    # The flusher works only while a caller waits.
    with Flusher(linger_us=None, bytes_trigger=1 << 62) as flusher, Log(directory, config(), flusher=flusher) as log:
        log.append(batch([(b"a", b"old"), (b"b", b"old")]), now_ms=START_MS)
        log.flush()
        log.append(batch([(b"a", b"new")]), now_ms=START_MS)
        end = log.log_end_offset
        log.roll()
        trace = faults.Trace(directory)
        with trace:
            log.compact(START_MS, force=True)
        events = trace.events()
        swap = next(at for at, event in enumerate(events)
                    if event.kind == "rename" and event.target.endswith(".log.swap"))
        flushed = [at for at, event in enumerate(events) if event.kind in ("sync", "datasync") and not event.begun
                   and event.path.endswith(f"{0:020d}.log")]
        assert flushed
        assert flushed[0] < swap
        assert log.durable_end_offset >= end
