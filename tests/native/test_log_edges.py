"""A log's promises where several things meet: forks, slices that outlive their log, damage, failures half-way."""

import contextlib
import errno
import os
import select
import shutil
import traceback
from pathlib import Path

import pytest

from kraft_native.batch import walk
from kraft_native.config import LogConfig
from kraft_native.errors import KraftError, LogClosedError, LogReadOnlyError, OperationError, StorageError
from kraft_native.faults import MUTATIONS, fail_at
from kraft_native.flusher import Flusher
from kraft_native.log import Log
from kraft_native.reader import LogReader
from kraft_native.records import records
from tests.native.logs import START_MS, batch, read_all, small


def in_a_fork(work) -> int:
    """Exit status of a forked child that does `work`: what it returns, or 100 when it raises."""
    child = os.fork()
    if child == 0:
        try:
            status = work()
        except BaseException:  # noqa: BLE001 - the child must not run on into the tests
            traceback.print_exc()
            status = 100
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# --- forks ------------------------------------------------------------------------------------------------------------

@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("durability", ["page-cache", "group-commit", "per-append"])
def test_a_fork_cannot_touch_its_parents_log(tmp_path, durability):
    with Log(tmp_path / "log", LogConfig(durability=durability)) as log:
        log.append(batch(value=b"parent"))
        log.flush()
        log.checkpoint()
        state = (tmp_path / "log" / "kraft-log-state").read_bytes()

        def child() -> int:
            refused = 0
            for call in (lambda: log.append(batch(value=b"child")), lambda: log.append_record(b"child"),
                         lambda: log.truncate_to(0), lambda: log.flush(), lambda: log.roll(), lambda: log.read(0)):
                try:
                    call()
                except OperationError:
                    refused += 1
            log.__exit__(None, None, None)
            return refused

        assert in_a_fork(child) == 6
        assert (tmp_path / "log" / "kraft-log-state").read_bytes() == state
        # Had the child cut the file to size, this store into the parent's window would be a SIGBUS.
        for _ in range(100):
            log.append(batch(value=b"parent"))
        log.flush()
        assert read_all(log).count(b"parent") == 101


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_may_open_a_log_of_its_own(tmp_path):
    def fill(name: str) -> int:
        with Log(tmp_path / name, small()) as log:
            for _ in range(40):
                log.append(batch(value=bytes(100)))
            log.flush()
            return len(log.segments)

    parent = fill("parent")  # the shared flusher's thread runs from here on
    assert parent > 1
    assert in_a_fork(lambda: fill("child")) == parent


# --- pinned slices ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("closed", [True, False])
def test_a_slice_outlives_its_log_and_what_the_next_one_cuts(tmp_path, closed):
    def child() -> int:
        log = Log(tmp_path / "log")
        for _ in range(40):
            log.append(batch(value=bytes(1000)))
        piece = log.read(0)
        before = bytes(piece)
        if closed:
            log.close()
        del log
        with Log(tmp_path / "log") as again:
            again.truncate_to(1)
            again.append(batch(value=b"other"))
            assert len(bytes(piece)) == 40 * len(again.read(0, 1))
        assert bytes(piece) == before
        return 0

    assert in_a_fork(child) == 0
