"""Segments: which bytes are trusted, what damage does, and that pinned bytes never change."""

import ctypes
import errno
import mmap
import os
from pathlib import Path

import pytest

from kraft_native.base.errors import CorruptLogError, StorageError
from kraft_native.batch.batch import ATTRIBUTES_AT, LENGTH_AT
from kraft_native.facade.log import Log
from kraft_native.file import buffer
from kraft_native.file.faults import count_operations, fail_at
from kraft_native.segment.config import LogConfig
from tests.native.logs import batch, files, read_all, readable, small

COUNT = 60


def written(directory: Path, **settings) -> list[bytes]:
    """Write a closed log of COUNT one-record batches; return them as stored."""
    stored = []
    with Log(directory, small(**settings)) as log:
        for index in range(COUNT):
            offset = log.append(batch(value=b"%04d" % index * 10, timestamp_ms=1_700_000_000_000 + index)).first_offset
            stored.append(bytes(log.read(offset, 1)))
    return stored


def log_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def test_appended_bytes_are_trusted_and_others_checked_once(tmp_path):
    stored = written(tmp_path / "log")
    with Log(tmp_path / "log", small()) as log:
        first = log.segments[0]
        assert first.verified_to == 0
        assert bytes(log.read(0, 1)) == stored[0]
        assert first.verified_to == first.size
        # The mapping shows the change; checked bytes are not checked again, and nothing else happens to them.
        flip(Path(os.fsdecode(first.path)), 70)
        assert len(log.read(0, 1)) == len(stored[0])
        offset = log.append(batch()).first_offset
        assert log.segments[-1].verified_to > 0
        assert log.read(offset).next_offset == offset + 1


@pytest.mark.parametrize("index", range(0, COUNT, 7))
def test_a_flipped_bit_costs_its_batch_and_nothing_else(tmp_path, index):
    stored = written(tmp_path / "log")
    path = [path for path in log_files(tmp_path / "log") if int(path.stem) <= index][-1]
    position = path.read_bytes().index(stored[index])
    for place in (16, 17, 20, 21, 30, 40, 59, len(stored[index]) - 1):
        flip(path, position + place)
        with Log(tmp_path / "log", small()) as log:
            batches, damage = readable(log)
            assert [base for base, _ in batches] == [base for base in range(COUNT) if base != index]
            assert [(error.offset, error.position, Path(error.path)) for error in damage] == [(index, position, path)]
            assert damage[0].next_offset == index + 1
            damage.clear()
        flip(path, position + place)


def test_damage_at_the_end_of_a_sealed_segment_leads_to_the_next(tmp_path):
    written(tmp_path / "log")
    path, following = log_files(tmp_path / "log")[:2]
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    with Log(tmp_path / "log", small()) as log:
        batches, damage = readable(log)
        lost = int(following.stem) - 1
        assert [base for base, _ in batches] == [base for base in range(COUNT) if base != lost]
        assert [(error.offset, error.next_offset) for error in damage] == [(lost, lost + 1)]


def test_a_missing_segment_is_reported_where_nothing_can_have_been_compacted(tmp_path):
    written(tmp_path / "log")
    missing, following = log_files(tmp_path / "log")[1:3]
    missing.unlink()
    with Log(tmp_path / "log", small()) as log:
        with pytest.raises(CorruptLogError) as caught:
            log.read(int(missing.stem))
        assert (caught.value.offset, caught.value.next_offset) == (int(missing.stem), int(following.stem))
    (tmp_path / "log" / "kraft-log-state").unlink()
    with Log(tmp_path / "log", small(cleanup_policy="compact")) as log:
        assert log.read(int(missing.stem)).first_offset == int(following.stem)


@pytest.mark.parametrize("damage", ["garbage", "missing", "zeros", "long", "other"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_are_rebuilt_when_they_are_wrong(tmp_path, damage, suffix):
    stored = written(tmp_path / "log")
    indexes = files(tmp_path / "log", ".index", ".timeindex")
    for path in sorted((tmp_path / "log").glob(f"*{suffix}")):
        data = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "other" and suffix == ".index":
            # Plausible, but it names places where no batch begins.
            path.write_bytes(b"".join(data[at:at + 7] + bytes([data[at + 7] ^ 1]) for at in range(0, len(data), 8)))
        elif damage != "other":
            path.write_bytes({"garbage": os.urandom(len(data)), "zeros": bytes(len(data) + 24),
                              "long": data + data}[damage])
    with Log(tmp_path / "log", small()) as log:
        for index in range(COUNT):
            assert bytes(log.read(index, 1)) == stored[index]
            assert log.offset_for_time(1_700_000_000_000 + index)[0] == index
        assert log.max_timestamp()[0] == COUNT - 1
        log.append(batch())
    sealed = sorted(indexes)[:-2]
    after = files(tmp_path / "log", ".index", ".timeindex")
    assert {name: after[name] for name in sealed} == {name: indexes[name] for name in sealed}


def test_pinned_bytes_survive_truncation_rolls_and_deletion(tmp_path):
    with Log(tmp_path / "log", small(segment_bytes=1 << 20)) as log:
        for _ in range(COUNT):
            log.append(batch())
        pinned = log.read(0)
        kept = bytes(pinned)
        inode = os.stat(log.segments[0].path).st_ino
        log.truncate_to(10)
        assert os.stat(log.segments[0].path).st_ino != inode      # the pinned file was not cut
        for _ in range(COUNT):
            log.append(batch(value=b"other"))
        assert bytes(pinned) == kept
        log.truncate_fully_and_start_at(500)
        log.append(batch())
        assert bytes(pinned) == kept
    assert bytes(pinned) == kept


def test_an_unpinned_file_is_cut_in_place(tmp_path):
    with Log(tmp_path / "log", small(segment_bytes=1 << 20)) as log:
        for _ in range(COUNT):
            log.append(batch())
        read_all(log)
        inode = os.stat(log.segments[0].path).st_ino
        log.truncate_to(10)
        assert os.stat(log.segments[0].path).st_ino == inode


def test_a_growing_segment_is_mapped_in_steps_and_old_slices_stay(tmp_path):
    large = batch(value=os.urandom(300_000))
    with Log(tmp_path / "log", small(segment_bytes=1 << 26)) as log:
        pieces = []
        for _ in range(12):
            offset = log.append(large).first_offset
            pieces.append((log.read(offset), large[12:]))
        for offset, (piece, body) in enumerate(pieces):
            stored = bytes(piece)
            assert int.from_bytes(stored[:LENGTH_AT], "big") == offset
            assert stored[ATTRIBUTES_AT:] == body[9:]
        assert buffer.counters()["mappings"] <= 5
        del pieces, piece
        read_all(log)


def test_sealed_segments_hold_no_descriptors(tmp_path):
    written(tmp_path / "log")
    with Log(tmp_path / "log", small()) as log:
        before = len(os.listdir("/proc/self/fd"))
        read_all(log)
        assert len(os.listdir("/proc/self/fd")) <= before + 1     # the active one


def test_large_appends_reserve_space_ahead_and_give_it_back(tmp_path):
    """The reserved space is as large as the file, so the number of reservations grows only logarithmically."""
    with Log(tmp_path / "log", LogConfig()) as log:
        path = log_files(tmp_path / "log")[0]
        with count_operations(kinds={"allocate"}, under=path) as plan:
            for _ in range(64):
                log.append(batch(value=bytes(20_000)))
                assert log.segments[0].size <= path.stat().st_size <= 2 * log.segments[0].size
        assert plan.seen == 7
        size = log.segments[0].size
    assert path.stat().st_size == size


def resident_end(path: Path) -> int:
    """Return the end of the last page of the file that is in the page cache."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        pages = -(-len(mapped) // mmap.PAGESIZE)
        there = (ctypes.c_ubyte * pages)()
        start = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
        assert libc.mincore(ctypes.c_void_p(start), ctypes.c_size_t(len(mapped)), there) == 0, ctypes.get_errno()
    return max((page + 1 for page in range(pages) if there[page] & 1), default=0) * mmap.PAGESIZE


@pytest.mark.parametrize("size", [100, 5_000, 20_000])
def test_the_pages_of_the_next_appends_are_in_memory(tmp_path, size):
    """The pages ahead are as many as the log has, so that a small log keeps few, and never many."""
    ahead = []
    with Log(tmp_path / "log", LogConfig()) as log:
        path = log_files(tmp_path / "log")[0]
        log.append(batch(value=bytes(size)))
        log.append(batch(value=bytes(size)))
        if path.stat().st_size == log.segments[0].size:
            pytest.skip("this file system cannot reserve space")
        while log.segments[0].size < 200_000:
            end = log.segments[0].size
            log.append(batch(value=bytes(size)))
            ahead.append(resident_end(path) - log.segments[0].size)
            assert ahead[-1] < mmap.PAGESIZE + min(end, 128 << 10)
        assert max(ahead) > 50_000
        assert readable(log) == ([(offset, offset) for offset in range(len(ahead) + 2)], [])
        end = log.segments[0].size
    assert path.stat().st_size == end


def test_nothing_is_populated_where_nothing_can_be_reserved(tmp_path):
    with Log(tmp_path / "log", LogConfig()) as log, \
            fail_at(1, error=errno.EOPNOTSUPP, persistent=True, kinds={"allocate"}, under=tmp_path):
        for _ in range(8):
            log.append(batch(value=bytes(20_000)))
            assert log_files(tmp_path / "log")[0].stat().st_size == log.segments[0].size


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.ENOSPC, errno.EDQUOT])
def test_a_file_system_that_reserves_nothing_is_written_plainly(tmp_path, error):
    with Log(tmp_path / "log", LogConfig()) as log, \
            fail_at(1, error=error, persistent=True, kinds={"allocate"}, under=tmp_path):
        for offset in range(8):
            assert log.append(batch(value=bytes(20_000))).first_offset == offset
    with Log(tmp_path / "log", LogConfig()) as log:
        assert log.log_end_offset == 8


def test_a_disk_that_fails_at_a_reservation_ends_the_log(tmp_path):
    log = Log(tmp_path / "log", LogConfig())
    with fail_at(1, error=errno.EIO, kinds={"allocate"}, under=tmp_path), pytest.raises(StorageError):
        log.append(batch(value=bytes(20_000)))
    assert log.failure is not None
    assert log.log_end_offset == 0
    log.close()
