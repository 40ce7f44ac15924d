"""A log's promises where several things meet: forks, slices that outlive their log, damage, failures half-way."""

import os

import pytest

from kraft_native.config import LogConfig
from kraft_native.errors import OperationError
from kraft_native.log import Log
from tests.native.logs import batch, read_all, small


def in_a_fork(work) -> int:
    """Exit status of a forked child that does `work`: what it returns, or 100 when it raises."""
    child = os.fork()
    if child == 0:
        try:
            status = work()
        except BaseException:  # noqa: BLE001 - the child must not run on into the tests
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
