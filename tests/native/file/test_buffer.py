"""`kraft_native.file.buffer`: memory is released with its last user, neither earlier nor later."""

import ctypes
import errno
import gc
import io
import os

import pytest

from kraft_native.base import build_info, crc
from kraft_native.base.errors import StorageError
from kraft_native.file import buffer
from kraft_native.file.buffer import Mapping, Scratch, Slice
from tests.capi import function, method

SIZE, OBJECT = ctypes.c_ssize_t, ctypes.py_object

map_file = function(buffer, "map_file", OBJECT, ctypes.c_int, SIZE, ctypes.c_int, OBJECT)
slice_mapping = function(buffer, "slice_mapping", OBJECT, OBJECT, SIZE, SIZE)
slice_bytes = function(buffer, "slice_bytes", OBJECT, OBJECT)
reserve = method(Scratch, 0, ctypes.c_int, SIZE)
put = method(Scratch, 1, ctypes.c_int, ctypes.c_char_p, SIZE)
trim = method(Scratch, 2, ctypes.c_int, SIZE)

keeps_idle_blocks = pytest.mark.skipif("sanitize" in build_info.flavour(), reason="sanitizers see every block freed")


@pytest.fixture
def mapped(tmp_path):
    """Map content and close the descriptor, which a mapping does not need."""
    def make(content, size=None, populate=False):
        path = tmp_path / "file"
        path.write_bytes(content)
        fd = os.open(path, os.O_RDONLY)
        try:
            return map_file(fd, len(content) if size is None else size, populate, path)
        finally:
            os.close(fd)
    return make


def used(before):
    return {kind: count - before[kind] for kind, count in buffer.counters().items() if count != before[kind]}


# ---- Scratch ----

def test_scratch_grows_and_keeps_its_bytes():
    scratch, expected = Scratch(), b""
    assert (len(scratch), bytes(scratch)) == (0, b"")
    for count in (0, 1, 0, 4095, 1, 5000, 100_000, 0):
        part = os.urandom(count)
        assert put(scratch, part, count) == 0
        expected += part
        assert (len(scratch), bytes(scratch)) == (len(expected), expected)
    assert reserve(scratch, 10 << 20) == 0
    assert bytes(scratch) == expected           # reserving moves the bytes and changes none


def test_scratch_that_cannot_grow_keeps_its_bytes():
    scratch = Scratch()
    put(scratch, b"kept", 4)
    with pytest.raises(MemoryError, match="scratch"):
        reserve(scratch, 1 << 62)
    assert bytes(scratch) == b"kept"


def test_scratches_are_counted():
    before = buffer.counters()
    scratches = [Scratch() for _ in range(3)]
    assert used(before) == {"scratches": 3}
    scratches.clear()
    assert used(before) == {}


# ---- Mapping and Slice ----

@pytest.mark.parametrize("populate", [False, True])
def test_slices_of_a_mapping(mapped, populate):
    content = os.urandom(3 * 4096 + 5)
    mapping = mapped(content, populate=populate)
    for start, size in ((0, len(content)), (1, 10), (4095, 2), (len(content), 0), (7, 0)):
        piece = slice_mapping(mapping, start, size)
        expected = content[start:start + size]
        assert (bytes(piece), len(piece)) == (expected, size)
        assert memoryview(piece).tobytes() == expected
        assert crc.checksum(piece) == crc.checksum(expected)
        assert (piece.first_offset, piece.next_offset) == (-1, -1)


def test_a_slice_is_read_only_and_plain(mapped):
    piece = slice_mapping(mapped(b"0123456789"), 2, 5)
    view = memoryview(piece)
    assert (view.readonly, view.format, view.ndim, view.c_contiguous) == (True, "B", 1, True)
    assert view.obj is piece
    with pytest.raises(TypeError):
        view[0] = 1
    with pytest.raises(TypeError):
        io.BytesIO(b"other").readinto(piece)
    with pytest.raises(AttributeError):
        piece.first_offset = 5  # type: ignore[attr-defined]


def test_the_mapping_lives_as_long_as_anybody_looks(mapped):
    content = bytes(range(256)) * 64
    before = buffer.counters()
    mapping = mapped(content)
    assert used(before) == {"mappings": 1, "mapped_bytes": len(content)}
    piece = slice_mapping(mapping, 256, 1000)
    view = memoryview(piece)[10:20]
    del mapping, piece
    assert used(before) == {"mappings": 1, "mapped_bytes": len(content), "slices": 1}
    assert bytes(view) == content[266:276]
    del view
    assert used(before) == {}


def test_the_mapping_outlives_the_name_of_its_file(mapped, tmp_path):
    piece = slice_mapping(mapped(b"still here"), 0, 10)
    (tmp_path / "file").unlink()
    assert bytes(piece) == b"still here"


def test_the_mapping_shows_what_is_written_later(mapped, tmp_path):
    """A mapping may reach past the end of the file; the bytes appear when they are written."""
    piece = slice_mapping(mapped(b"abc", size=8192), 0, 6)
    with (tmp_path / "file").open("r+b") as file:
        file.write(b"ABCDEF")
    assert bytes(piece) == b"ABCDEF"


def test_an_empty_mapping(mapped):
    before = buffer.counters()
    piece = slice_mapping(mapped(b""), 0, 0)
    assert used(before) == {"slices": 1}        # no memory is mapped for it
    assert (bytes(piece), len(piece), bytes(memoryview(piece)), crc.checksum(piece)) == (b"", 0, b"", 0)


def test_slices_of_bytes():
    data = b"some bytes" * len(range(2_000))        # built here: no constant of the test's code keeps it alive
    before = buffer.counters()
    piece = slice_bytes(data)
    assert used(before) == {"slices": 1}
    assert (bytes(piece), len(piece)) == (data, 20_000)
    del data
    assert bytes(memoryview(piece)) == b"some bytes" * 2_000


def test_a_bare_slice_is_empty():
    assert bytes(Slice()) == b""
    assert len(Slice()) == 0
    assert bytes(memoryview(Slice())) == b""
    assert Mapping() is not None


def test_failed_mapping_names_the_path(tmp_path):
    before = buffer.counters()
    with pytest.raises(StorageError, match="mapping") as raised:
        map_file(1 << 20, 4096, False, tmp_path / "file")
    assert (raised.value.errno, raised.value.path) == (errno.EBADF, str(tmp_path / "file"))
    assert used(before) == {}


def pins(mapping):
    """Return `Mapping.pins`: the int behind the object's header, its data pointer and its size."""
    return ctypes.c_int.from_address(id(mapping) + object.__basicsize__ + 16).value


@pytest.mark.parametrize("in_cycle", [False, True])
def test_pins_are_taken_back(mapped, in_cycle):
    """The collector may free a slice that is part of a dead cycle: the slice must not lose its owner before."""
    mapping = mapped(bytes(100))
    held = [slice_mapping(mapping, i, 1) for i in range(5)]
    assert pins(mapping) == 5
    if in_cycle:
        held = [*held]              # younger than the slices: the collector begins with the oldest
        held.append(held)
    del held
    gc.collect()
    assert pins(mapping) == 0


# ---- Idle blocks ----

@keeps_idle_blocks
def test_large_blocks_are_kept_for_the_next_user_and_bounded():
    buffer.release_idle()
    scratch = Scratch()
    reserve(scratch, 1 << 20)
    del scratch
    assert buffer.idle_bytes() == 1 << 20
    again = Scratch()
    reserve(again, 1_000_000)                   # a slightly smaller size finds the same block
    assert buffer.idle_bytes() == 0
    put(again, b"x" * 1000, 1000)
    reserve(again, 3 << 20)
    assert bytes(again) == b"x" * 1000
    many = [Scratch() for _ in range(40)]
    for each in many:
        reserve(each, 6 << 20)
    del each, many, again
    assert 0 < buffer.idle_bytes() <= 64 << 20
    buffer.release_idle()
    assert buffer.idle_bytes() == 0


@keeps_idle_blocks
def test_a_large_block_grows_without_a_copy():
    """It moves its pages, and leaves an idle block to others. A copy of tens of megabytes would hold the loop."""
    buffer.release_idle()
    idle = Scratch()
    reserve(idle, 16 << 20)
    del idle
    scratch, content = Scratch(), os.urandom(4 << 20)
    put(scratch, content, len(content))
    for size in (9 << 20, 40 << 20, 70 << 20):
        reserve(scratch, size)
        assert bytes(scratch) == content
        assert buffer.idle_bytes() == 16 << 20
    del scratch
    assert buffer.idle_bytes() == 16 << 20, "a block above the limit is freed"
    buffer.release_idle()


@pytest.mark.parametrize("before", [4096, 200_000, 3 << 20, 80 << 20])
@pytest.mark.parametrize("after", [0, 1, 1000, 90_000, 1 << 20, 30 << 20])
def test_a_trimmed_scratch_keeps_its_bytes_and_can_grow(before, after):
    content = os.urandom(min(before, after))
    scratch = Scratch()
    reserve(scratch, before)
    put(scratch, content, len(content))
    assert trim(scratch, len(content)) == 0
    assert bytes(scratch) == content
    put(scratch, b"x" * 2_000_000, 2_000_000)
    assert bytes(scratch) == content + b"x" * 2_000_000


@keeps_idle_blocks
def test_growing_into_an_idle_block_keeps_the_bytes():
    buffer.release_idle()
    first = Scratch()
    reserve(first, 1 << 20)
    del first
    scratch, content = Scratch(), os.urandom(600_000)
    put(scratch, content, len(content))
    put(scratch, content, len(content))
    assert bytes(scratch) == content * 2
    buffer.release_idle()
