"""`kraft_native.file.file_io`: whole writes or an error, atomic replacement, locks that Java would see."""

import ctypes
import errno
import fcntl
import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kraft_native.base.errors import InvalidArgumentError, StorageError
from kraft_native.file import file_io
from kraft_native.file.faults import Trace, count_operations, fail_at
from tests.capi import function

NUMBER, WORD, POINTER = ctypes.c_int, ctypes.c_int64, ctypes.c_void_p


class Iovec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("size", ctypes.c_size_t))


file_open = function(file_io, "file_open", NUMBER, ctypes.c_char_p, NUMBER, NUMBER)
file_close = function(file_io, "file_close", None, NUMBER)
file_write = function(file_io, "file_write", NUMBER, NUMBER, ctypes.c_char_p, ctypes.c_size_t, WORD)
file_writev = function(file_io, "file_writev", NUMBER, NUMBER, ctypes.POINTER(Iovec), NUMBER, WORD)
file_read = function(file_io, "file_read", WORD, NUMBER, POINTER, ctypes.c_size_t, WORD)
file_populate = function(file_io, "file_populate", NUMBER, NUMBER, WORD, WORD)
file_truncate = function(file_io, "file_truncate", NUMBER, NUMBER, WORD)
file_allocate = function(file_io, "file_allocate", NUMBER, NUMBER, WORD, WORD)
file_size = function(file_io, "file_size", WORD, NUMBER)
file_lock = function(file_io, "file_lock", NUMBER, NUMBER, NUMBER)
file_datasync = function(file_io, "file_datasync", NUMBER, NUMBER)
file_write_back = function(file_io, "file_write_back", NUMBER, NUMBER, WORD, WORD)


@pytest.fixture
def opened(tmp_path):
    fd = file_open(os.fsencode(tmp_path / "file"), os.O_RDWR | os.O_CREAT, 0o644)
    assert fd >= 0
    yield fd
    file_close(fd)


def content(fd):
    return os.pread(fd, 1 << 24, 0)


def pieces(*parts):
    return (Iovec * len(parts))(*(Iovec(part, len(part)) for part in parts))


# ---- write_atomic ----

@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 5000])
@pytest.mark.parametrize("kind", [str, os.fsencode, Path])
def test_write_atomic_round_trip(tmp_path, data, kind):
    path = kind(tmp_path / "näme")
    for old in (b"something longer than x", data):
        file_io.write_atomic(path, old)
        assert file_io.read_file(path) == old
    assert os.listdir(tmp_path) == ["näme"]
    assert (tmp_path / "näme").stat().st_mode & 0o777 == 0o644 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_write_atomic_in_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Trace() as trace:
        file_io.write_atomic("plain", b"x")
    assert [event.path for event in trace.events() if event.kind == "sync_directory"] == ["."] * 2
    assert (tmp_path / "plain").read_bytes() == b"x"


@pytest.mark.parametrize("modified_ns", [0, 1, 1_700_000_000_123_456_789])
def test_write_atomic_sets_the_time_before_the_file_has_its_name(tmp_path, modified_ns):
    target = tmp_path / "f"
    file_io.write_atomic(target, b"new", modified_ns=modified_ns)
    assert target.stat().st_mtime_ns == modified_ns
    with fail_at(1, error=errno.EIO, under=tmp_path, kinds=["rename"]), pytest.raises(StorageError):
        file_io.write_atomic(target, b"newer", modified_ns=modified_ns + 5_000_000_000)
    assert (tmp_path / "f.tmp").stat().st_mtime_ns == modified_ns + 5_000_000_000


def test_no_file_that_is_written_later_has_an_earlier_stamp(tmp_path):
    for number in range(200):
        before = file_io.stamp_ns()
        file_io.write_atomic(tmp_path / "f", b"%d" % number, durable=False)
        stamped = (tmp_path / "f").stat().st_mtime_ns
        assert before <= stamped <= time.time_ns()


@pytest.mark.parametrize("durable", [True, False])
def test_steps_of_write_atomic(tmp_path, durable):
    """The flush ends before the rename begins, and the rename before the flush of the directory."""
    with Trace(tmp_path) as trace:
        file_io.write_atomic(tmp_path / "f", b"new", durable=durable)
    steps = [event.kind for event in trace.events() if not getattr(event, "begun", False)]
    assert steps == (["open", "write", "sync", "close", "rename", "sync_directory"] if durable
                     else ["open", "write", "close", "rename"])


@pytest.mark.parametrize("durable", [True, False])
def test_a_crash_at_any_step_leaves_old_or_new(tmp_path, durable):
    """Each operation in turn is the last one that happens, as when the process ends there."""
    target = tmp_path / "f"
    file_io.write_atomic(target, b"old")
    with count_operations(under=tmp_path) as count:
        file_io.write_atomic(target, b"old", durable=durable)
    for step in range(1, count.seen + 1):
        with fail_at(step, error=errno.EIO, under=tmp_path, persistent=True), pytest.raises(StorageError) as raised:
            file_io.write_atomic(target, b"new content", durable=durable)
        assert raised.value.errno == errno.EIO
        assert str(tmp_path) in raised.value.path
        renamed = durable and step == count.seen
        assert target.read_bytes() == (b"new content" if renamed else b"old")
        file_io.write_atomic(target, b"old")            # leftovers of a failed attempt do not block the next
        assert os.listdir(tmp_path) == ["f"]


def test_a_longer_leftover_is_cut(tmp_path):
    (tmp_path / "f.tmp").write_bytes(b"leftover of an attempt long ago")
    file_io.write_atomic(tmp_path / "f", b"short")
    assert file_io.read_file(tmp_path / "f") == b"short"


# ---- the other Python functions ----

def test_errors_name_path_and_cause(tmp_path):
    absent = tmp_path / "absent"
    for call in (
        lambda: file_io.read_file(absent),
        lambda: file_io.write_atomic(absent / "f", b""),
        lambda: file_io.sync_directory(absent),
        lambda: file_io.rename(absent, tmp_path / "other"),
        lambda: file_io.unlink(absent),
        lambda: file_io.make_directory(absent / "below"),
    ):
        with pytest.raises(StorageError) as raised:
            call()
        assert raised.value.errno == errno.ENOENT
        assert raised.value.path.startswith(str(absent))
        assert raised.value.path in str(raised.value)
    assert os.listdir(tmp_path) == []


def test_reading_a_directory_fails(tmp_path):
    with pytest.raises(StorageError) as raised:
        file_io.read_file(tmp_path)
    assert raised.value.errno == errno.EISDIR


def test_a_path_with_a_zero_byte_is_refused(tmp_path):
    (tmp_path / "victim").write_bytes(b"kept")
    path = f"{tmp_path}/victim\0ignored"
    for call in (
        lambda: file_io.unlink(path),
        lambda: file_io.read_file(path),
        lambda: file_io.write_atomic(path, b""),
        lambda: file_io.rename(path, "x"),
        lambda: file_io.rename(tmp_path / "victim", path),
        lambda: file_io.make_directory(path),
        lambda: file_io.sync_directory(path),
    ):
        with pytest.raises(InvalidArgumentError, match="zero bytes"):
            call()
    assert (tmp_path / "victim").read_bytes() == b"kept"


def test_wrong_types(tmp_path):
    with pytest.raises(TypeError):
        file_io.read_file(5)
    for data in (None, "text", bytearray(b"x")):
        with pytest.raises(TypeError):
            file_io.write_atomic(tmp_path / "f", data)
    assert os.listdir(tmp_path) == []


def test_rename_unlink_and_directories(tmp_path):
    file_io.make_directory(tmp_path / "d")
    with pytest.raises(StorageError) as raised:
        file_io.make_directory(tmp_path / "d")
    assert raised.value.errno == errno.EEXIST
    file_io.write_atomic(tmp_path / "a", b"a", durable=False)
    file_io.write_atomic(tmp_path / "b", b"b", durable=False)
    file_io.rename(tmp_path / "a", tmp_path / "b")
    assert file_io.read_file(tmp_path / "b") == b"a"
    file_io.unlink(tmp_path / "b")
    file_io.unlink(tmp_path / "b", missing_ok=True)
    with pytest.raises(StorageError):
        file_io.unlink(tmp_path / "d", missing_ok=True)      # only a missing file is accepted
    file_io.sync_directory(tmp_path)
    assert os.listdir(tmp_path) == ["d"]


# ---- the compiled functions ----

def test_open_reports_what_it_created(tmp_path):
    path = os.fsencode(tmp_path / "f")
    with Trace(tmp_path) as trace:
        for flags in (os.O_RDWR | os.O_CREAT, os.O_RDWR | os.O_CREAT, os.O_RDONLY):
            file_close(file_open(path, flags, 0o600))
        assert file_open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600) == -errno.EEXIST
    assert [event.created for event in trace.events() if event.kind == "open" and not event.error] == [True, False,
                                                                                                       False]


def test_open_creates_behind_a_dangling_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    fd = file_open(os.fsencode(tmp_path / "link"), os.O_WRONLY | os.O_CREAT, 0o600)
    assert fd >= 0
    assert (tmp_path / "target").exists()
    file_close(fd)


def test_descriptors_are_counted_and_not_inherited(tmp_path):
    before = file_io.open_descriptors()
    fd = file_open(os.fsencode(tmp_path / "f"), os.O_WRONLY | os.O_CREAT, 0o600)
    assert file_io.open_descriptors() == before + 1
    assert not os.get_inheritable(fd)
    file_close(fd)
    file_close(-1)          # closing nothing is harmless, so that error paths need no test of their own
    assert file_io.open_descriptors() == before
    assert file_open(os.fsencode(tmp_path / "no" / "f"), os.O_RDONLY, 0) == -errno.ENOENT
    assert file_io.open_descriptors() == before


def test_write_and_read_at_positions(opened):
    assert file_write(opened, b"world", 5, 6) == 0
    assert file_write(opened, b"hello ", 6, 0) == 0
    assert file_size(opened) == 11
    room = ctypes.create_string_buffer(64)
    assert file_read(opened, room, 64, 0) == 11
    assert room.value == b"hello world"
    assert file_read(opened, room, 3, 6) == 3
    assert room.raw[:3] == b"wor"
    assert file_read(opened, room, 3, 11) == 0
    assert file_truncate(opened, 5) == 0
    assert content(opened) == b"hello"
    assert file_datasync(opened) == 0


@pytest.mark.parametrize("parts", [
    [b"abc"], [b"", b"abc", b"", b"", b"def", b""], [b""], [b"%04d" % i for i in range(3000)], [b""] * 1500 + [b"end"],
])
def test_writev_takes_any_number_of_pieces(opened, parts):
    assert file_writev(opened, pieces(*parts), len(parts), 2) == 0
    assert content(opened)[2:] == b"".join(parts)


@pytest.mark.parametrize("taken", range(1, 13))
def test_short_writev_goes_on_where_it_stopped(opened, tmp_path, taken):
    parts = [b"abc", b"", b"defg", b"h", b"", b"ijkl"]
    with fail_at(1, error=0, kinds={"write"}, short_bytes=taken, under=tmp_path) as plan:
        assert file_writev(opened, pieces(*parts), len(parts), 0) == 0
    assert plan.fired == 1
    assert content(opened) == b"abcdefghijkl"


def test_errors_are_negative_numbers(opened, tmp_path):
    file = tmp_path / "read-only"
    file.write_bytes(b"x")
    fd = file_open(os.fsencode(file), os.O_RDONLY, 0)
    assert file_write(fd, b"y", 1, 0) == -errno.EBADF
    assert file_truncate(fd, 0) == -errno.EINVAL
    file_close(fd)
    assert file_size(1 << 20) == -errno.EBADF
    assert file_truncate(opened, -1) == -errno.EINVAL
    assert file_read(opened, ctypes.create_string_buffer(1), 1, -1) == -errno.EINVAL


def test_a_full_device_is_an_error():
    fd = file_open(b"/dev/full", os.O_WRONLY, 0)
    assert file_write(fd, b"x", 1, 0) == -errno.ENOSPC
    file_close(fd)


def test_allocate_lengthens_with_zeros(opened, tmp_path):
    assert file_write(opened, b"x", 1, 0) == 0
    result = file_allocate(opened, 0, 8192)
    if result == -errno.EOPNOTSUPP:
        pytest.skip("this file system cannot reserve space")
    assert result == 0
    assert content(opened) == b"x" + bytes(8191)
    with fail_at(1, error=errno.ENOSPC, kinds={"allocate"}, under=tmp_path):
        assert file_allocate(opened, 8192, 8192) == -errno.ENOSPC
    assert file_size(opened) == 8192


def test_lock_excludes_other_openings(opened, tmp_path):
    """Open-file-description locks: two openings of one process exclude each other, as two processes do."""
    other = file_open(os.fsencode(tmp_path / "file"), os.O_RDWR, 0)
    assert file_lock(opened, True) == 0
    assert file_lock(opened, True) == 0
    assert file_lock(other, True) == file_lock(other, False) == -errno.EAGAIN
    assert file_lock(opened, False) == 0
    assert file_lock(other, False) == 0
    assert file_lock(other, True) == -errno.EAGAIN
    file_close(opened)
    assert file_lock(other, True) == 0
    file_close(other)
    assert file_open(os.fsencode(tmp_path / "file"), os.O_RDWR, 0) == opened     # the fixture closes it


def test_lock_conflicts_with_posix_locks_of_another_process(opened, tmp_path):
    """A Java FileChannel takes POSIX record locks."""
    take = (f"import fcntl, struct; f = open({str(tmp_path / 'file')!r}, 'r+')\n"
            "try: fcntl.fcntl(f, fcntl.F_SETLK, struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 0, 0, 0)); print('got')\n"
            "except OSError: print('held')")

    def attempt():
        done = subprocess.run([sys.executable, "-c", take], check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.strip()

    assert attempt() == "got"
    assert file_lock(opened, True) == 0
    assert attempt() == "held"
    lock = fcntl.fcntl(opened, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
    assert struct.unpack("hhqqi4x", lock)[0] == fcntl.F_WRLCK


def test_check_raises_with_the_path(tmp_path):
    check = function(file_io, "check", WORD, WORD, ctypes.py_object)
    assert check(5, tmp_path) == 5
    with pytest.raises(StorageError) as raised:
        check(-errno.ENOSPC, os.fsencode(tmp_path))
    assert (raised.value.path, raised.value.errno) == (str(tmp_path), errno.ENOSPC)


# # ---- write-back ----

def test_write_back_changes_nothing_and_needs_a_descriptor(opened):
    assert file_write(opened, b"x" * 10_000, 10_000, 0) == 0
    assert file_write_back(opened, 0, 8192) == 0
    assert content(opened) == b"x" * 10_000
    assert file_write_back(-1, 0, 8192) == -errno.EBADF


# ---- populate ----

@pytest.mark.parametrize("size", [1, 16_384, 16_385, 600_000])
def test_populate_writes_zeros_without_the_hook(opened, tmp_path, size):
    assert file_write(opened, b"x" * 5000, 5000, 0) == 0
    assert file_truncate(opened, 700_000) == 0
    with count_operations(under=tmp_path) as plan:
        assert file_populate(opened, 5000, size) == 0
    assert plan.seen == 0
    assert content(opened) == b"x" * 5000 + bytes(695_000)
    assert file_populate(-1, 0, size) == -errno.EBADF


# ---- a new file ----

def test_a_new_file_is_emptied_and_written_from_its_beginning(tmp_path):
    path = tmp_path / "new"
    path.write_bytes(b"old content")
    file = file_io.NewFile(path)
    file.write(b"abc")
    file.write(b"")
    file.write(b"defg")
    assert (path.read_bytes(), file.size) == (b"abcdefg", 7)
    with fail_at(1, error=errno.EIO, kinds=("sync",), under=tmp_path), pytest.raises(StorageError):
        file.sync()
    file.sync()
    file.close()
    file.close()
    with pytest.raises(StorageError):
        file.write(b"x")
    with pytest.raises(StorageError):
        file_io.NewFile(tmp_path / "missing" / "new")
