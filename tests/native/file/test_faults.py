"""`kraft_native.file.faults`: traces are complete and in order, and faults hit exactly the named operations."""

import errno
import os
import threading
import time

import pytest

from kraft_native.base.errors import InvalidArgumentError, StorageError
from kraft_native.file import faults, file_io
from kraft_native.file.faults import Trace, count_operations, delay, fail_at


def kinds(trace):
    return [(event.kind, os.path.basename(event.path)) for event in trace.events()]


def test_trace_of_an_atomic_write(tmp_path):
    target = str(tmp_path / "checkpoint")
    with Trace(tmp_path) as trace:
        file_io.write_atomic(target, b"hello")
        trace.mark({"acknowledged": 1})
    assert kinds(trace) == [
        ("open", "checkpoint.tmp"), ("write", "checkpoint.tmp"), ("sync", "checkpoint.tmp"),
        ("sync", "checkpoint.tmp"), ("close", "checkpoint.tmp"), ("rename", "checkpoint.tmp"),
        ("sync_directory", tmp_path.name), ("sync_directory", tmp_path.name), ("mark", ""),
    ]
    opened, write, begun, done, closed, rename = trace.events()[:6]
    assert opened.created
    assert opened.flags & os.O_TRUNC
    assert write.data == b"hello"
    assert write.offset == 0
    assert write.fd == opened.fd == closed.fd
    assert begun.begun
    assert not done.begun
    assert rename.target == target
    assert trace.events()[-1].mark == {"acknowledged": 1}
    assert all(event.error == 0 and event.thread == threading.get_native_id() for event in trace.events())


def test_trace_records_only_under_its_directory_and_only_while_active(tmp_path):
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    with Trace(tmp_path / "in") as trace:
        file_io.write_atomic(tmp_path / "out" / "file", b"x")
        file_io.make_directory(tmp_path / "in" / "sub")
        file_io.unlink(tmp_path / "in" / "nothing", missing_ok=True)
    file_io.make_directory(tmp_path / "in" / "later")
    assert [(event.kind, event.error) for event in trace.events()] == [("mkdir", 0), ("unlink", errno.ENOENT)]
    assert len(trace) == 2


def test_reopened_file_is_reported_as_not_created(tmp_path):
    file_io.write_atomic(tmp_path / "f.tmp", b"x")
    (tmp_path / "f.tmp").rename(tmp_path / "g.tmp")
    with Trace(tmp_path) as trace:
        file_io.write_atomic(tmp_path / "g", b"y", durable=False)
    assert [event.created for event in trace.events() if event.kind == "open"] == [False]


def test_one_trace_at_a_time_and_order_of_use(tmp_path):
    with Trace() as trace:
        with pytest.raises(InvalidArgumentError):
            Trace().start()
        with pytest.raises(InvalidArgumentError):
            trace.events()
    with pytest.raises(InvalidArgumentError):
        trace.mark("too late")


def test_trace_of_many_threads_keeps_each_threads_order(tmp_path):
    def work(number):
        for step in range(50):
            file_io.write_atomic(tmp_path / f"{number}", b"%d" % step, durable=False)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    with Trace(tmp_path) as trace:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    events = trace.events()
    assert len(events) == 4 * 50 * 4
    for number in range(4):
        mine = [event for event in events if event.path == str(tmp_path / f"{number}.tmp")]
        assert [event.kind for event in mine] == ["open", "write", "close", "rename"] * 50
        assert [event.data for event in mine if event.kind == "write"] == [b"%d" % step for step in range(50)]


def test_every_operation_of_a_workload_can_fail(tmp_path):
    with count_operations(under=tmp_path) as count:
        file_io.write_atomic(tmp_path / "f", b"old")
    assert count.seen == 5
    assert count.fired == 0
    before = file_io.open_descriptors()
    for k in range(1, count.seen + 1):
        with fail_at(k, error=errno.EDQUOT, under=tmp_path) as plan, pytest.raises(StorageError) as raised:
            file_io.write_atomic(tmp_path / "f", b"new")
        assert raised.value.errno == errno.EDQUOT
        assert plan.fired == 1
        assert plan.seen == k
        assert file_io.read_file(tmp_path / "f") == (b"old" if k < 5 else b"new")
    with fail_at(count.seen + 1, under=tmp_path) as plan:
        file_io.write_atomic(tmp_path / "f", b"newer")
    assert plan.fired == 0
    assert file_io.open_descriptors() == before


def test_kinds_and_suffix_choose(tmp_path):
    with fail_at(2, kinds={"write"}, suffix="b.tmp") as plan:
        file_io.write_atomic(tmp_path / "a", b"1")
        file_io.write_atomic(tmp_path / "b", b"2")
        file_io.write_atomic(tmp_path / "a", b"3")
        with pytest.raises(StorageError):
            file_io.write_atomic(tmp_path / "b", b"4")
    assert plan.seen == 2
    assert file_io.read_file(tmp_path / "b") == b"2"


def test_rename_matches_either_path(tmp_path):
    with fail_at(1, kinds={"rename"}, suffix="/final"), pytest.raises(StorageError):
        file_io.write_atomic(tmp_path / "final", b"x")


def test_reads_can_fail(tmp_path):
    file_io.write_atomic(tmp_path / "f", b"x")
    with fail_at(1, kinds={"read"}, suffix="f"), pytest.raises(StorageError):
        file_io.read_file(tmp_path / "f")
    assert file_io.read_file(tmp_path / "f") == b"x"


@pytest.mark.parametrize("taken", [1, 4, 9, 10, 11])
def test_short_write_is_finished(tmp_path, taken):
    with Trace(tmp_path) as trace, fail_at(1, error=0, kinds={"write"}, short_bytes=taken) as plan:
        file_io.write_atomic(tmp_path / "f", b"0123456789")
    assert file_io.read_file(tmp_path / "f") == b"0123456789"
    writes = [(event.offset, event.data) for event in trace.events() if event.kind == "write"]
    assert plan.fired == 1
    assert writes == [(0, b"0123456789"[:taken])] + ([(taken, b"0123456789"[taken:])] if taken < 10 else [])


def test_short_write_then_full_disk(tmp_path):
    plan = fail_at(1, error=errno.ENOSPC, kinds={"write"}, short_bytes=3)
    with Trace(tmp_path) as trace, plan, pytest.raises(StorageError) as raised:
        file_io.write_atomic(tmp_path / "f", b"0123456789")
    assert raised.value.errno == errno.ENOSPC
    assert plan.fired == 2
    assert [(e.data, e.error) for e in trace.events() if e.kind == "write"] == [(b"012", 0), (b"", errno.ENOSPC)]


def test_dead_disk(tmp_path):
    with fail_at(2, persistent=True) as plan:
        for _ in range(3):
            with pytest.raises(StorageError):
                file_io.write_atomic(tmp_path / "f", b"x")
    assert plan.fired == 3
    assert plan.seen == 4
    file_io.write_atomic(tmp_path / "f", b"alive again")


def test_failed_flush_is_in_the_trace_as_failed(tmp_path):
    with Trace(tmp_path) as trace, fail_at(1, kinds={"sync"}), pytest.raises(StorageError):
        file_io.write_atomic(tmp_path / "f", b"x")
    assert [(e.begun, e.error) for e in trace.events() if e.kind == "sync"] == [(False, errno.EIO)]


def test_plans_add_up_and_end(tmp_path):
    with count_operations(kinds={"write"}) as writes, count_operations(kinds={"rename"}) as renames:
        file_io.write_atomic(tmp_path / "f", b"x")
    file_io.write_atomic(tmp_path / "f", b"x")
    assert (writes.seen, renames.seen) == (1, 1)
    with pytest.raises(InvalidArgumentError), writes, writes:
        pass
    plans = [count_operations() for _ in range(17)]
    for plan in plans[:16]:
        plan.__enter__()
    with pytest.raises(InvalidArgumentError):
        plans[16].__enter__()
    for plan in plans:
        plan.__exit__(None, None, None)


@pytest.mark.parametrize("arguments", [
    {"k": 0}, {"k": 1, "error": -5}, {"k": 1, "error": 0}, {"k": 1, "kinds": {"chmod"}}, {"k": 1, "short_bytes": -1},
    {"k": 1, "error": 0, "short_bytes": 1, "persistent": True},
])
def test_bad_arguments(arguments):
    with pytest.raises(InvalidArgumentError):
        fail_at(**arguments)


def test_repr_reads_well(tmp_path):
    with Trace(tmp_path) as trace, fail_at(1, kinds={"rename"}), pytest.raises(StorageError):
        file_io.write_atomic(tmp_path / "f", b"x")
    assert repr(trace.events()[1]) == f"<write {tmp_path}/f.tmp @0 +1>"
    assert repr(trace.events()[-1]).endswith("f EIO>")
    assert faults.MUTATIONS < faults.KINDS


def test_a_slow_disk_makes_the_caller_wait(tmp_path):
    (tmp_path / "slow").mkdir()
    with delay(20, under=tmp_path / "slow") as plan:
        began = time.monotonic()
        file_io.write_atomic(tmp_path / "file", b"x")
        assert plan.fired == 0
        file_io.write_atomic(tmp_path / "slow" / "file", b"x")
        assert time.monotonic() - began >= 0.06  # write, sync, sync_directory
    assert plan.fired == 3
    assert (tmp_path / "slow" / "file").read_bytes() == b"x"
    with pytest.raises(InvalidArgumentError, match="delay_ms"):
        delay(0)
