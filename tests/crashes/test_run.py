"""Crash tests of an embedder's code: a promise that is kept passes, and each that is not is found."""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from kraft import Cursor, Log, errors
from kraft.crashes import (
    FAILED_CALL,
    KILLED,
    POWER_LOST,
    BrokenInvariantError,
    Crash,
    crash_test,
    failure_test,
)
from kraft_native.file.file_io import write_atomic

COUNT = 6


def appends(durability: str, *, flush: bool = False) -> Callable[..., None]:
    """Append records and note each as acknowledged."""
    def work(directory: Path, note: Callable[[object], None]) -> None:
        with Log.open(directory / "orders", durability=durability, segment_bytes=400) as log:  # type: ignore[arg-type]
            for number in range(COUNT):
                log.append_record(b"%d" % number * 20)
                if flush:
                    log.flush()
                note(number)

    return work


def acknowledged_are_there(directory: Path, crash: Crash) -> None:
    with Log.open(directory / "orders") as log:
        found = [int(record.value[:1]) for record in log.records()]
    assert found == list(range(len(found)))
    assert len(found) >= len(crash.notes), f"{len(crash.notes)} were acknowledged, {len(found)} exist"


def test_what_is_durable_survives() -> None:
    report = crash_test(appends("per-append"), acknowledged_are_there, states_max=1_000)
    assert report.tried[KILLED] > 20
    assert report.tried[POWER_LOST] > 50
    assert report.operations > COUNT
    assert crash_test(appends("page-cache", flush=True), acknowledged_are_there, states_max=300).bounded


def test_what_is_only_in_the_page_cache_is_found_lost() -> None:
    with pytest.raises(BrokenInvariantError, match=r"power lost after .* were acknowledged, \d exist") as caught:
        crash_test(appends("page-cache"), acknowledged_are_there)
    [broken] = caught.value.broken
    assert broken.crash.kind == POWER_LOST
    assert isinstance(broken.error, AssertionError)


def test_a_kill_alone_loses_nothing_of_the_page_cache() -> None:
    def check(directory: Path, crash: Crash) -> None:
        if crash.kind == KILLED:
            acknowledged_are_there(directory, crash)

    crash_test(appends("page-cache"), check, states_max=1_000)


def bill(directory: Path, note: Callable[[object], None], *, cursor_first: bool) -> None:
    """Copy records to a log of bills, with a cursor; in the wrong order some are lost."""
    with Log.open(directory / "orders") as orders, Log.open(directory / "bills", durability="per-append") as bills, \
            Cursor(directory / "place") as cursor:
        for record in cursor.records(orders):
            if cursor_first:
                cursor.commit()
            bills.append_record(record.value)
            cursor.commit()
            note(record.offset)


def orders(directory: Path) -> None:
    with Log.open(directory / "orders") as log:
        log.append_records([b"%d" % number for number in range(3)])


def every_order_is_billed(directory: Path, crash: Crash) -> None:
    """The service starts again and finishes."""
    del crash
    bill(directory, lambda _: None, cursor_first=False)
    with Log.open(directory / "bills") as log:
        assert {record.value for record in log.records()} == {b"0", b"1", b"2"}


def test_an_order_of_steps_that_loses_is_found() -> None:
    crash_test(lambda directory, note: bill(directory, note, cursor_first=False), every_order_is_billed, prepare=orders,
               states_max=400)
    with pytest.raises(BrokenInvariantError):
        crash_test(lambda directory, note: bill(directory, note, cursor_first=True), every_order_is_billed,
                   prepare=orders)


def test_the_same_seed_tries_the_same() -> None:
    def labels() -> list[str]:
        found: list[str] = []
        crash_test(appends("per-append"), lambda _, crash: found.append(crash.label), states_max=200)
        return [label.rpartition(", ")[2] for label in found]

    assert labels() == labels()


def test_files_of_other_writers_are_refused() -> None:
    def work(directory: Path, note: object) -> None:
        (directory / "plain").write_bytes(b"x")

    with pytest.raises(errors.InvalidArgumentError, match="plain was changed by other means"):
        crash_test(work, acknowledged_are_there)


@pytest.mark.parametrize("name", ["every", "states_max", "broken_max"])
def test_numbers_are_checked(name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=f"{name}: 0"):
        crash_test(appends("per-append"), acknowledged_are_there, **{name: 0})


def test_every_failing_call_is_survived() -> None:
    report = failure_test(appends("per-append"), acknowledged_are_there)
    assert report.tried[FAILED_CALL] > 2 * COUNT
    assert not report.bounded


def test_an_error_that_is_swallowed_is_found() -> None:
    def work(directory: Path, note: Callable[[object], None]) -> None:
        for number in range(2):
            with suppress(errors.StorageError):
                write_atomic(directory / "f", b"%d" % number)
            note(number)

    def check(directory: Path, crash: Crash) -> None:
        assert crash.notes == (0, 1)
        assert (directory / "f").read_bytes() == b"1"

    with pytest.raises(BrokenInvariantError) as caught:
        failure_test(work, check, errors=[errno.ENOSPC], broken_max=99)
    assert "fails with ENOSPC" in str(caught.value)
    assert len(caught.value.broken) > 1


def test_other_errors_of_the_work_are_broken() -> None:
    def work(directory: Path, note: object) -> None:
        try:
            write_atomic(directory / "f", b"x")
        except errors.StorageError as error:
            raise KeyError("f") from error

    with pytest.raises(BrokenInvariantError, match="KeyError"):
        failure_test(work, lambda _directory, _crash: None)
    with pytest.raises(ZeroDivisionError):
        failure_test(lambda _directory, _note: 1 / 0, lambda _directory, _crash: None)  # type: ignore[arg-type]
