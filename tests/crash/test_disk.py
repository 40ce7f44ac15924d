"""The model of a file system: which operations are durable, which may be lost, and in which combinations."""

from pathlib import Path
from random import Random

import pytest

from kraft.crashes.disk import Choice, Content, Disk, FileChoice, FileOp, Inode, apply, keep_all
from kraft.crashes.states import killed_states, lose_all, lose_data, power_loss_states, sectors, with_spans
from kraft_native.file import file_io
from kraft_native.file.faults import Trace

from .reference import NATIVE


def write(offset, data):
    return FileOp("write", offset, data, 0)


def truncate(size):
    return FileOp("truncate", size, b"", 0)


BASE = Content(b"durable!", 8)


@pytest.mark.parametrize(("ops", "choice", "wanted"), [
    ([write(8, b"more")], keep_all, b"durable!more"),
    ([write(8, b"more")], lose_all, b"durable!"),
    ([write(8, b"more")], lose_data, b"durable!\0\0\0\0"),
    ([write(8, b"more")], lambda ops: keep_all(ops)._replace(sizes=0), b"durable!"),  # behind the end
    ([write(0, b"DUR")], lambda ops: keep_all(ops)._replace(sizes=0), b"DURable!"),         # overwritten in place
    ([truncate(3)], keep_all, b"dur"),
    ([truncate(3)], lose_all, b"durable!"),
    ([truncate(3), write(3, b"ation")], keep_all, b"duration"),
    ([truncate(3), write(3, b"at")], lose_data, b"dur\0\0"),
    ([truncate(3), write(3, b"at")], lambda ops: keep_all(ops)._replace(sizes=0), b"duratle!"),  # old after new
    ([truncate(3), truncate(6)], keep_all, b"dur\0\0\0"),
    ([FileOp("allocate", 4, b"", 100)], keep_all, b"durable!".ljust(104, b"\0")),
    ([FileOp("allocate", 4, b"", 100)], lose_all, b"durable!"),
    ([write(8, b"ab"), write(10, b"cd")], lambda ops: with_spans(ops, 0, ()), b"durable!\0\0cd"),
    ([write(8, b"abcd")], lambda ops: with_spans(ops, 0, ((1, 2), (3, 4))), b"durable!\0b\0d"),
])
def test_bytes_left_of_a_file(ops, choice, wanted):
    content = apply(BASE, ops, choice(ops))
    assert content.data.ljust(content.size, b"\0") == wanted
    assert content.size == len(wanted)


def test_sectors_are_those_of_the_file():
    assert sectors(write(500, bytes(2_000))) == [12, 524, 1036, 1548]
    assert sectors(write(512, bytes(512))) == []
    assert sectors(write(0, bytes(10))) == []


def replay(top, work):
    """Run `work` in `top`; return the disk after it, and its trace."""
    with Trace(top) as trace:
        work()
    disk = Disk(top)
    for event in trace.events():
        disk.feed(event)
    return disk


def kept(disk):
    return files_of(disk.state(Choice({}, disk.all_names())))


def lost(disk):
    losses = {number: lose_all(inode.pending) for number, inode in enumerate(disk.inodes)}
    return files_of(disk.state(Choice(losses, ())))


def files_of(state):
    return {path: content.data.ljust(content.size, b"\0") for path, content in state.files.items()}


def test_atomic_write_is_durable_only_with_both_flushes(tmp_path):
    disk = replay(tmp_path, lambda: file_io.write_atomic(tmp_path / "f", b"data"))
    assert kept(disk) == lost(disk) == {"f": b"data"}
    disk = replay(tmp_path, lambda: file_io.write_atomic(tmp_path / "g", b"data", durable=False))
    assert kept(disk) == {"g": b"data"}
    assert lost(disk) == {}
    states = [files_of(found.state) for found in power_loss_states(disk, Random(1), 4)]
    for possible in ({}, {"g": b""}, {"g": b"\0\0\0\0"}, {"g.tmp": b"data"}, {"g": b"data"}):
        assert possible in states


def test_flush_covers_only_its_own_file_and_no_name(tmp_path):
    def work():
        for name in ("a", "b"):
            fd = NATIVE.kf_open(bytes(tmp_path / name), 0o102, 0o644)
            NATIVE.kf_pwrite(fd, b"data", 4, 0)
            if name == "a":
                NATIVE.kf_datasync(fd)
            NATIVE.kf_close(fd)

    disk = replay(tmp_path, work)
    assert lost(disk) == {}
    losses = {number: lose_all(inode.pending) for number, inode in enumerate(disk.inodes)}
    assert files_of(disk.state(Choice(losses, disk.all_names()))) == {"a": b"data", "b": b""}


def test_existing_files_are_durable_and_unlink_needs_a_flush(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "old").write_bytes(b"old")
    disk = Disk(tmp_path)
    disk.load(tmp_path)
    with Trace(tmp_path) as trace:
        file_io.unlink(tmp_path / "log" / "old")
        trace.mark("unlinked")
        file_io.sync_directory(tmp_path / "log")
    events = trace.events()
    changes = [disk.feed(event) for event in events[:1]]
    assert changes == [True]
    assert lost(disk) == {"log/old": b"old"}
    assert kept(disk) == {}
    assert [disk.feed(event) for event in events[1:]] == [False, False, True]
    assert lost(disk) == {}


def test_new_directory_that_is_lost_takes_its_files_along(tmp_path):
    def work():
        file_io.make_directory(tmp_path / "log")
        file_io.write_atomic(tmp_path / "log" / "f", b"data")

    disk = replay(tmp_path, work)
    assert kept(disk) == {"log/f": b"data"}
    assert lost(disk) == {}


def test_flush_covers_what_was_written_before_it_began(tmp_path):
    """Another thread writes between the begin and the end of a flush: those bytes are not promised."""
    with Trace(tmp_path) as trace:
        fd = NATIVE.kf_open(bytes(tmp_path / "f"), 0o102, 0o644)
        NATIVE.kf_pwrite(fd, b"one", 3, 0)
        NATIVE.kf_datasync(fd)
        NATIVE.kf_pwrite(fd, b"two", 3, 3)
        NATIVE.kf_close(fd)
        file_io.sync_directory(tmp_path)
    opened, first, begun, done, second, *rest = trace.events()
    disk = Disk(tmp_path)
    for event in (opened, first, begun, second, done, *rest):
        disk.feed(event)
    assert kept(disk) == {"f": b"onetwo"}
    assert lost(disk) == {"f": b"one"}


def test_killed_inside_a_write(tmp_path):
    with Trace(tmp_path) as trace:
        file_io.write_atomic(tmp_path / "f", b"0123456789", durable=False)
    disk = Disk(tmp_path)
    events = trace.events()
    for event in events[:2]:
        disk.feed(event)
    cuts = [files_of(found.state)["f.tmp"] for found in killed_states(disk, events[1], Random(1))]
    assert set(cuts) >= {b"0", b"01234567", b"012345678"}
    assert kept(disk) == {"f.tmp": b"0123456789"}


def test_states_are_materialized_and_distinguished(tmp_path):
    disk = Disk(tmp_path)
    disk.inodes.append(Inode(Content(b"abc", 8_000)))
    disk.durable_names["f"] = 0
    state = disk.state(Choice({}, ()))
    (tmp_path / "real").mkdir()
    state.write_to(tmp_path / "real")
    assert (tmp_path / "real" / "f").read_bytes() == b"abc".ljust(8_000, b"\0")
    assert state.key() == disk.state(Choice({}, ())).key()
    disk.inodes[0].durable = Content(b"abc", 8_001)
    assert state.key() != disk.state(Choice({}, ())).key()
    reread = Disk(tmp_path / "real")
    reread.load(Path(tmp_path / "real"))
    assert reread.state(Choice({}, ())).key() == state.key()


def test_a_choice_for_one_file_leaves_the_others_whole(tmp_path):
    disk = replay(tmp_path, lambda: [file_io.write_atomic(tmp_path / name, b"x", durable=False) for name in "ab"])
    choice = Choice({0: FileChoice(0, ((),))}, disk.all_names())
    assert files_of(disk.state(choice)) == {"a": b"", "b": b"x"}
