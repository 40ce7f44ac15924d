"""The flusher thread: the promises of the durable mark, the times of flushes, failures, fork, shutdown."""

import errno
import gc
import os
import re
import select
import signal
import threading
import time
from pathlib import Path

import pytest

from kraft_native.base import errors
from kraft_native.log.flusher import Flusher, FlushHandle, counters
from tests.native.gate import DATASYNC, SYNC_DIRECTORY, Gate

SOON = 20.0  # seconds; a bound for things that happen at once, never waited for in full


@pytest.fixture(autouse=True)
def no_threads_left():
    before = counters(), threads()
    yield
    gc.collect()  # a caught exception holds its frames in a cycle
    # The kernel lists a thread for a moment after it was joined: at this end, and at the end of the test before.
    deadline = time.monotonic() + SOON
    while threads() > before[1] and time.monotonic() < deadline:
        os.sched_yield()
    assert counters() == before[0]
    assert threads() <= before[1]


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.fixture
def files(tmp_path):
    opened = [os.open(tmp_path / f"{n}.log", os.O_RDWR | os.O_CREAT) for n in range(3)]
    yield opened
    for fd in opened:
        os.close(fd)


@pytest.fixture
def gate():
    with Gate(DATASYNC, SYNC_DIRECTORY) as standing:
        yield standing


def handles_of(linger_us: int = 0, count: int = 1, **options: int) -> tuple[Flusher, list[FlushHandle]]:
    thread = Flusher(linger_us=linger_us, **options)
    return thread, [thread.register("/logs/t-0") for _ in range(count)]


def test_a_submission_becomes_durable_without_a_request(files):
    with Flusher() as thread:
        handle = thread.register("/logs/t-0", 5)
        assert (handle.durable, handle.submitted, handle.error) == (5, 5, 0)
        ready = handle.eventfd
        os.write(files[0], b"x" * 100)
        handle.submit(files[0], 7, 100)
        assert select.select([ready], [], [], SOON)[0]
        assert (handle.durable, handle.submitted) == (7, 7)
        assert handle.wait(7, 0)
        assert int.from_bytes(os.read(ready, 8), "little") == 1
        totals = thread.statistics()
        assert (totals["submissions"], totals["flushes"], totals["syncs"], totals["bytes"]) == (1, 1, 1, 100)
        assert totals["busy_ns"] > 0


def test_a_late_descriptor_reports_earlier_events(files):
    with Flusher() as thread:
        moved, idle = thread.register("/logs/t-0"), thread.register("/logs/t-1")
        moved.submit(files[0], 1, 1)
        assert moved.wait(1, SOON)
        assert select.select([idle.eventfd], [], [], 0)[0] == []
        for late in (moved.eventfd, thread.eventfd):
            assert select.select([late], [], [], 0)[0]
            assert os.eventfd_read(late) == 1


def test_one_descriptor_reports_every_log(files):
    with Flusher() as thread:
        ready = thread.eventfd
        assert ready == thread.eventfd
        for n in range(3):
            handle = thread.register(f"/logs/t-{n}")
            handle.submit(files[n], 1, 1)
            assert select.select([ready], [], [], SOON)[0]
            os.eventfd_read(ready)
            assert handle.durable == 1
        with pytest.raises(BlockingIOError):
            os.eventfd_read(ready)
        failing = thread.register("/logs/t-3")
        failing.submit(-1, 1, 1)
        assert select.select([ready], [], [], SOON)[0]
        assert failing.error == errno.EBADF


def test_a_request_during_a_flush_joins_the_next_one(files, gate):
    with Flusher() as thread:
        handle = thread.register("/logs/t-0")
        handle.submit(files[0], 1, 10)
        assert gate.arrived() == files[0]
        for end in range(2, 100):
            handle.submit(files[0], end, 10)
        assert handle.durable == 0
        gate.let_go()
        assert gate.arrived() == files[0]
        assert handle.durable == 1  # and not 99: the second flush is still under way
        gate.let_go()
        assert handle.wait(99, SOON)
        assert thread.statistics()["flushes"] == 2


def test_after_a_slow_flush_the_next_one_is_held_for_a_moment_only(files, gate):
    with Flusher() as thread:
        handle = thread.register("/logs/t-0")
        handle.submit(files[0], 1, 100)
        gate.arrived()
        handle.submit(files[0], 2, 10)
        assert not handle.wait(2, 0.005)  # a flush of this length indicates a slow disk
        gate.let_go()
        gate.arrived()  # nothing more is submitted, so the held flush comes by itself
        handle.submit(files[0], 3, 10)
        assert not handle.wait(3, 0.005)
        gate.let_go()
        handle.submit(files[0], 4, 100)  # as many bytes as the last flush: no reason to hold any longer
        gate.arrived()
        gate.let_go()
        assert handle.wait(3, SOON)
        gate.let_go()
        assert handle.wait(4, SOON)


def test_a_hold_does_not_delay_a_requested_flush(files, gate):
    with Flusher(linger_us=60_000_000) as thread:
        handle = thread.register("/logs/t-0")
        handle.submit(files[0], 1, 100)
        handle.request(1)
        gate.arrived()
        handle.submit(files[0], 2, 10)   # gathers for a minute
        assert not handle.wait(1, 0.05)  # a flush of this length indicates a slow disk
        gate.let_go()
        assert handle.wait(1, SOON)
        handle.request(2)
        gate.arrived()
        gate.let_go()
        assert handle.wait(2, SOON)


def test_without_a_linger_time_nothing_is_flushed_until_somebody_waits(files, gate):
    with Flusher(linger_us=None) as thread:
        assert thread.linger_us is None
        handle = thread.register("/logs/t-0")
        waiter = threading.Thread(target=handle.wait, args=(1, SOON))
        handle.submit(files[0], 1, 1000)
        handle.submit_directory("/tmp")
        assert not gate.calls.qsize()
        waiter.start()
        assert gate.arrived() == files[0]
        gate.let_go()
        assert gate.arrived() == b"/tmp"
        assert handle.durable == 1
        assert waiter.is_alive()  # not before the whole round is done
        gate.let_go()
        waiter.join(SOON)
        assert not waiter.is_alive()
        handle.submit(files[1], 2, 1000)
        gate.let_go()
    assert handle.durable == 2  # the end flushes the rest


def test_after_a_roll_everything_is_flushed_in_order_and_the_mark_follows(files, gate):
    with Flusher(linger_us=60_000_000) as thread:
        handle = thread.register("/logs/t-0")
        handle.submit(files[0], 10, 1)
        handle.submit_directory("/")
        handle.submit(files[1], 20, 1)
        handle.submit(files[0], 25, 1)  # the old file again: it must not move the mark past the new file's bytes
        handle.submit_directory("/")
        handle.request(1)
        seen = []
        for _ in range(3):
            seen.append((gate.arrived(), handle.durable))
            gate.let_go()
        assert handle.wait(25, SOON)
        assert seen == [(files[0], 0), (b"/", 10), (files[1], 10)]


def test_the_first_failure_is_final(files, gate):
    with Flusher() as thread:
        handle, other = thread.register("/logs/t-0"), thread.register("/logs/t-1")
        handle.submit(files[0], 10, 1)
        gate.arrived()
        handle.submit(files[1], 20, 1)
        failures = []

        def waiter() -> None:
            with pytest.raises(errors.StorageError, match=f"/logs/t-0.*Input/output error.*{errno.EIO}") as caught:
                handle.wait(10, SOON)
            failures.append(caught.value.errno)

        waiting = threading.Thread(target=waiter)
        waiting.start()
        gate.let_go(-errno.EIO)
        waiting.join(SOON)
        assert failures == [errno.EIO]
        assert (handle.durable, handle.error, handle.failed_fd) == (0, errno.EIO, files[0])
        with pytest.raises(errors.StorageError):
            handle.submit(files[1], 30, 1)
        with pytest.raises(errors.StorageError):
            handle.wait(20, 0)
        # Another log on the same thread continues, and the failed one is never flushed again.
        other.submit(files[2], 1, 1)
        assert gate.arrived() == files[2]
        gate.let_go()
        assert other.wait(1, SOON)
        assert (handle.durable, other.error) == (0, 0)
    assert gate.calls.empty()


def test_a_failed_directory_stops_what_comes_behind_it(files, gate):
    with Flusher(linger_us=60_000_000) as thread:
        handle = thread.register("/logs/t-0")
        ready = handle.eventfd
        handle.submit(files[0], 10, 1)
        handle.submit_directory("/logs/t-0")
        handle.submit(files[1], 20, 1)
        handle.request(20)
        assert gate.arrived() == files[0]
        gate.let_go()
        assert gate.arrived() == b"/logs/t-0"
        os.read(ready, 8)  # for the first file; the failure makes it readable again
        gate.let_go(-errno.ENOSPC)
        assert select.select([ready], [], [], SOON)[0]
        assert (handle.durable, handle.error, handle.failed_fd) == (10, errno.ENOSPC, -1)
        with pytest.raises(errors.StorageError, match="flushing the directory"):
            handle.wait(20, SOON)
        assert handle.wait(10, 0)
    assert gate.calls.empty()


def test_a_real_failure_of_the_system_is_reported():
    with Flusher() as thread:
        handle = thread.register(b"/logs/t-0")
        read_end, write_end = os.pipe()
        handle.submit(write_end, 1, 1)  # a pipe cannot be flushed
        with pytest.raises(errors.StorageError) as caught:
            handle.wait(1, SOON)
        assert (caught.value.errno, caught.value.path) == (errno.EINVAL, "/logs/t-0")
        os.close(read_end)
        os.close(write_end)


def test_lingering_ends_with_enough_bytes(files, gate):
    with Flusher(linger_us=60_000_000, bytes_trigger=100) as thread:
        handle = thread.register("/logs/t-0")
        handle.submit(files[0], 1, 99)
        assert not handle.durable
        assert gate.calls.empty()
        handle.submit(files[0], 2, 1)
        gate.arrived()
        handle.submit(files[0], 3, 99)
        gate.let_go()
        while handle.durable < 2:
            os.sched_yield()
        assert gate.calls.empty()
        gate.let_go()
        assert handle.wait(3, SOON)


def test_lingering_ends_with_time(files):
    with Flusher(linger_us=1000) as thread:
        handles = [thread.register(f"/logs/t-{n}") for n in range(3)]
        for handle, fd in zip(handles, files, strict=True):
            ready = handle.eventfd
            handle.submit(fd, 1, 1)
        assert select.select([ready], [], [], SOON)[0]
        assert all(handle.wait(1, SOON) for handle in handles)


def slices_ns(name: str) -> list[int]:
    """Return the scheduler slices of this process's threads with the name. Skips where the system does not report
    them or does not have them."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == name:
            text = (task / "sched").read_text() if (task / "sched").exists() else ""
            found_slice = re.search(r"^se\.slice\s*:\s*(\d+)$", text, re.MULTILINE)
            if found_slice is None or tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 12):
                pytest.skip("slices of single threads are not visible, or not available, here")
            found.append(int(found_slice[1]))
    return found


def test_the_thread_goes_before_its_owner(files):
    with Flusher() as thread:
        handle = thread.register("/logs/t-0")
        handle.submit(files[0], 1)
        assert handle.wait(1, SOON)    # it runs
        assert 100_000 in slices_ns("kraft-flusher")


def test_a_log_that_gathers_until_a_request_has_no_age(files):
    """Later submissions of another log grow old and are flushed; those of the gathering log wait for a request."""
    with Flusher(linger_us=1000) as thread:
        patient, other = thread.register("/logs/t-0"), thread.register("/logs/t-1")
        patient.gather_until_requested()
        patient.submit(files[0], 1, 1)
        ready = other.eventfd
        for end_offset in (1, 2):
            other.submit(files[1], end_offset, 1)
            assert select.select([ready], [], [], SOON)[0]
            os.eventfd_read(ready)
        assert (patient.durable, other.durable) == (0, 2)
        descriptor = patient.eventfd
        patient.request(1)
        assert select.select([descriptor], [], [], SOON)[0]
        assert patient.durable == 1
        patient.submit(files[0], 2, 1)
        assert patient.wait(2, SOON)


def test_a_log_that_gathers_until_a_request_is_flushed_at_the_trigger_and_at_the_end(files):
    with Flusher(linger_us=0, bytes_trigger=100) as thread:
        handle = thread.register("/logs/t-0")
        handle.gather_until_requested()
        descriptor = handle.eventfd
        handle.submit(files[0], 1, 99)
        assert handle.durable == 0
        handle.submit(files[0], 2, 1)
        assert select.select([descriptor], [], [], SOON)[0]
        assert handle.durable == 2
        handle.submit(files[0], 3, 1)
        thread.close()
        assert handle.durable == 3
    with pytest.raises(errors.LogClosedError):
        handle.gather_until_requested()


def test_a_waiter_ends_lingering_also_for_what_is_submitted_later(files):
    with Flusher(linger_us=60_000_000) as thread:
        handle = thread.register("/logs/t-0")
        done = []
        waiting = threading.Thread(target=lambda: done.append(handle.wait(2, SOON)))
        handle.submit(files[0], 1, 1)
        waiting.start()
        handle.request(2)
        handle.submit(files[0], 2, 1)
        waiting.join(SOON)
        assert done == [True]


def test_wait_gives_up_after_its_timeout_and_nothing_is_lost(files, gate):
    with Flusher() as thread:
        handle = thread.register("/logs/t-0")
        handle.submit(files[0], 1, 1)
        gate.arrived()
        assert handle.wait(1, 0) is False
        assert handle.wait(1, 0.25) is False
        gate.let_go()
        assert handle.wait(1, SOON) is True


def test_wait_lets_signals_through(files, gate):
    class RungError(Exception):
        pass

    def ring(*_: object) -> None:
        raise RungError

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with Flusher() as thread:
            handle = thread.register("/logs/t-0")
            handle.submit(files[0], 1, 1)
            gate.arrived()
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            with pytest.raises(RungError):
                handle.wait(1)
            gate.let_go()
    finally:
        signal.signal(signal.SIGALRM, before)


def test_reset_takes_the_mark_and_a_running_flush_back(files, gate):
    with Flusher() as thread:
        handle = thread.register("/logs/t-0", 50)
        handle.submit(files[0], 100, 1)
        gate.arrived()
        handle.submit(files[0], 200, 1)
        handle.reset(40)
        assert (handle.durable, handle.submitted) == (40, 40)
        gate.let_go()
        gate.arrived()
        assert handle.durable == 40  # the flush in progress covered bytes that are removed
        handle.submit(files[0], 60, 1)
        gate.let_go()
        gate.arrived()
        assert handle.durable == 40
        gate.let_go()
        assert handle.wait(60, SOON)


def test_reset_wakes_waiters_for_truncated_offsets(files, gate):
    with Flusher() as thread:
        handle = thread.register("/logs/t-0")
        handle.submit(files[0], 100, 1)
        gate.arrived()
        caught = []

        def waiter(end: int) -> None:
            try:
                caught.append((end, handle.wait(end, SOON)))
            except errors.OperationError as error:
                caught.append((end, str(error)))

        waiting = [threading.Thread(target=waiter, args=(end,)) for end in (10, 100)]
        for each in waiting:
            each.start()
        while waiting[1].is_alive():  # it may not have begun to wait at the first reset
            handle.reset(10)
            waiting[1].join(0.01)
        gate.let_go()
        waiting[0].join(SOON)
        assert caught == [(100, "/logs/t-0: what was waited for was truncated away"), (10, True)]


def test_forget_waits_for_a_running_flush_of_the_file_only(files, gate):
    with Flusher(linger_us=60_000_000) as thread:
        handle = thread.register("/logs/t-0")
        handle.submit(files[0], 10, 1)
        handle.submit(files[1], 20, 1)
        handle.submit(files[2], 30, 1)
        handle.request(30)
        assert gate.arrived() == files[0]
        handle.forget(files[1])  # not running: returns at once, and its step is dropped
        forgotten = threading.Thread(target=handle.forget, args=(files[0],))
        forgotten.start()
        gate.let_go()
        assert gate.arrived() == files[2]
        assert handle.durable == 20  # a forgotten file's end is passed when its step comes
        gate.let_go()
        forgotten.join(SOON)
        assert handle.wait(30, SOON)
        # No dirty file is left when the only one of a log is forgotten, and the mark passes it too.
        handle.submit(files[0], 40, 1)
        handle.forget(files[0])
        assert handle.wait(40, SOON)
    assert gate.calls.empty()


def test_logs_take_turns(files, gate):
    with Flusher() as thread:
        first, second, third = (thread.register(f"/logs/t-{n}") for n in range(3))
        first.submit(files[0], 1, 1)
        assert gate.arrived() == files[0]
        first.submit(files[0], 2, 1)
        second.submit(files[1], 1, 1)
        third.submit(files[2], 1, 1)
        order = []
        for _ in range(3):
            gate.let_go()
            order.append(gate.arrived())
        gate.let_go()
        assert sorted(order) == files  # the first one may be held, but no longer than this
        assert order.index(files[1]) < order.index(files[2])
        assert first.wait(2, SOON)


def test_close_flushes_what_is_pending_and_refuses_the_rest(files):
    thread, handles = handles_of(linger_us=60_000_000, count=2)
    for handle, fd in zip(handles, files, strict=False):
        handle.submit(fd, 9, 1)
    thread.close()
    thread.close()
    assert [handle.durable for handle in handles] == [9, 9]
    for refused in (lambda: handles[0].submit(files[0], 10), lambda: handles[0].wait(10),
                    lambda: handles[0].submit_directory("/"), lambda: handles[0].request(10),
                    lambda: handles[0].reset(1)):
        with pytest.raises(errors.LogClosedError):
            refused()
    assert handles[0].wait(9, 0)


def test_close_wakes_waiters_for_more_than_was_submitted(files):
    thread, (handle,) = handles_of()
    caught = []

    def waiter() -> None:
        with pytest.raises(errors.LogClosedError):
            handle.wait(1)
        caught.append(True)

    waiting = threading.Thread(target=waiter)
    waiting.start()
    thread.close()
    waiting.join(SOON)
    assert caught == [True]


def test_closing_a_handle_drops_what_is_pending_and_waits_for_what_runs(files, gate):
    with Flusher() as thread:
        handle = thread.register("/logs/t-0")
        ready = handle.eventfd
        handle.submit(files[0], 1, 1)
        gate.arrived()
        handle.submit(files[1], 2, 1)
        closing = threading.Thread(target=handle.close)
        closing.start()
        gate.let_go()
        closing.join(SOON)
        assert (handle.durable, handle.failed_fd) == (1, -1)
        with pytest.raises(OSError):
            os.fstat(ready)
        with pytest.raises(errors.LogClosedError):
            handle.submit(files[0], 3)
        with pytest.raises(errors.LogClosedError):
            _ = handle.eventfd
        handle.close()
    assert gate.calls.empty()


def test_dropping_the_objects_ends_the_thread(files):
    before = counters()["flushers"]
    handle = Flusher().register("/logs/t-0")
    assert counters()["flushers"] == before + 1
    handle.submit(files[0], 1, 1)
    assert handle.wait(1, SOON)  # the handle keeps its flusher alive
    del handle
    assert counters()["flushers"] == before  # `no_threads_left` waits for the end of the thread


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_is_refused_for_it_has_no_thread(files, gate):
    with Flusher() as thread:
        handle = thread.register("/logs/t-0", 3)
        _ = handle.eventfd
        handle.submit(files[0], 4, 1)
        gate.arrived()  # the thread is in the middle of a flush at the fork
        child = os.fork()
        if child == 0:
            refused = 0
            for call in (lambda: handle.submit(files[0], 5), lambda: handle.wait(3), lambda: handle.request(3),
                         lambda: handle.forget(files[0]), lambda: handle.reset(3), lambda: handle.submitted,
                         lambda: thread.register("/logs/t-1"), thread.close, thread.statistics,
                         lambda: handle.submit_directory("/"), lambda: handle.eventfd):
                try:
                    call()
                except errors.OperationError as error:
                    refused += "another process" in str(error)
            del handle
            del thread
            fresh = Flusher()  # a fork may have a flusher of its own
            fresh.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 11
        gate.let_go()
        assert handle.wait(4, SOON)


@pytest.mark.parametrize(("options", "message"), [
    ({"bytes_trigger": 0}, "bytes_trigger is 0"),
    ({"linger_us": -1}, "linger_us is -1"),
    ({"linger_us": 60_000_001}, "linger_us is 60000001"),
])
def test_bad_options_are_named(options, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        Flusher(**options)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), 1e10])
def test_bad_timeouts_are_named(timeout):
    with Flusher() as thread, pytest.raises(errors.InvalidArgumentError, match="timeout is"):
        thread.register("/logs/t-0").wait(1, timeout)


def test_many_threads_wait_on_many_logs(files):
    with Flusher() as thread:
        handles = [thread.register(f"/logs/t-{n}") for n in range(3)]
        reached: list[int] = []

        def waiter(handle: FlushHandle) -> None:
            for end in range(1, 101):
                handle.wait(end, SOON)
            reached.append(handle.durable)

        waiting = [threading.Thread(target=waiter, args=(handle,)) for handle in handles for _ in range(2)]
        for each in waiting:
            each.start()
        for end in range(1, 101):
            for handle, fd in zip(handles, files, strict=True):
                handle.submit(fd, end, 1)
        for each in waiting:
            each.join(SOON)
        assert reached == [100] * 6
