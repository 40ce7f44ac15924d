"""The position of a reader in a file: kept over processes and crashes, and never silently wrong."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kraft import Cursor, Log, LogReader, errors
from kraft_native.file import faults
from tools.tree import ROOT


def read(cursor: Cursor, log: Log | LogReader, count: int | None = None) -> list[int]:
    found = []
    for record in cursor.records(log):
        found.append(record.offset)
        if len(found) == count:
            break
    return found


@pytest.fixture
def log(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Log]:
    with Log(tmp_path / "log") as made:
        for number in range(0, 30, 3):
            made.append_records([b"%d" % each for each in range(number, number + 3)])
        yield made
    del request.node.funcargs["log"]      # a closed log still has its buffers


def test_reading_continues_behind_what_was_committed(log: Log, tmp_path: Path) -> None:
    with Cursor(tmp_path / "c") as cursor:
        assert cursor.commit() is None
        assert read(cursor, log, 4) == [0, 1, 2, 3]
        assert cursor.commit() == 4
        assert read(cursor, log, 3) == [4, 5, 6]
    with Cursor(tmp_path / "c", start=20) as cursor, LogReader(tmp_path / "log") as reader:
        assert cursor.offset == 4
        assert read(cursor, reader) == list(range(4, 30))
        assert read(cursor, reader) == []
        log.append_record(b"more")
        assert [record.offset for record in cursor.follow(reader, timeout=0)] == [30]
        cursor.commit()
        cursor.move_to(28)
    with Cursor(tmp_path / "c") as cursor:
        assert read(cursor, log) == [28, 29, 30]
    with Cursor(tmp_path / "new", start=29) as cursor:
        assert read(cursor, log) == [29, 30]


def test_another_process_continues(log: Log, tmp_path: Path) -> None:
    """The process is killed in the middle: only what was committed counts."""
    program = ("import os, sys\nfrom kraft import Cursor, LogReader\n"
               "with LogReader(sys.argv[1]) as reader, Cursor(sys.argv[2]) as cursor:\n"
               "    for record in cursor.records(reader):\n"
               "        if record.offset == 7: cursor.commit()\n"
               "        if record.offset == 9: os.kill(os.getpid(), 9)\n")
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "log"), str(tmp_path / "c")], cwd=ROOT,
                           check=False)
    assert ended.returncode == -9
    with Cursor(tmp_path / "c") as cursor:
        assert cursor.offset == 8
        with pytest.raises(errors.LogLockedError, match="another process or cursor"):
            Cursor(tmp_path / "c")
        assert read(cursor, log, 1) == [8]


@pytest.mark.parametrize("again", [False, True])
def test_a_truncation_below_the_place_is_noticed(log: Log, tmp_path: Path, again: bool) -> None:
    """This holds also when the log has grown past the position again."""
    with Cursor(tmp_path / "c") as cursor:
        read(cursor, log, 20)
        cursor.commit()
    log.truncate_to(15)
    if again:
        for number in range(30):
            log.append_record(b"other %d" % number)
    with Cursor(tmp_path / "c") as cursor:
        with pytest.raises(errors.OffsetOutOfRangeError):
            list(cursor.records(log))
        cursor.move_to(15)
        assert read(cursor, log) == (list(range(15, 45)) if again else [])


def test_retention_that_overtook_it_is_noticed(log: Log, tmp_path: Path) -> None:
    with Cursor(tmp_path / "c") as cursor:
        read(cursor, log, 2)
        log.delete_records(9)
        with pytest.raises(errors.OffsetOutOfRangeError):
            read(cursor, log)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xff\n\n",
                                     b'{"version": 1, "offset": 3, "last": null}\n00000000\n'])
def test_a_damaged_file_is_refused_and_left(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c").write_bytes(content)
    for _ in range(2):
        with pytest.raises(errors.CorruptFileError, match="no cursor"):
            Cursor(tmp_path / "c")
    assert (tmp_path / "c").read_bytes() == content


def test_a_failed_commit_keeps_the_old_place(log: Log, tmp_path: Path) -> None:
    with Cursor(tmp_path / "c") as cursor:
        read(cursor, log, 1)
        cursor.commit()
        read(cursor, log, 1)
        with faults.fail_at(1, error=5, kinds=["write"]), pytest.raises(errors.StorageError):
            cursor.commit()
    with pytest.raises(errors.LogClosedError):
        cursor.commit()
    with Cursor(tmp_path / "c") as cursor:
        assert cursor.offset == 1


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="start: -1"):
        Cursor(tmp_path / "c", start=-1)
    with Cursor(tmp_path / "c") as cursor, pytest.raises(errors.InvalidArgumentError, match="offset: -1"):
        cursor.move_to(-1)
