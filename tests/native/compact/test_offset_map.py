"""Offset map: against a dict and against SipHash in Python, up to the last slot."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_native.base.errors import InvalidArgumentError
from kraft_native.compact.offset_map import BUFFER_BYTES_MIN, OffsetMap

KEY = bytes(range(16))
MASK = (1 << 64) - 1


def siphash(key: bytes, data: bytes, compression: int, finalisation: int) -> bytes:
    """SipHash with 128 bits of output, as its authors describe it."""
    def rotate(value: int, bits: int) -> int:
        return (value << bits | value >> (64 - bits)) & MASK

    def rounds(count: int) -> None:
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[2] = (v[2] + v[3]) & MASK
            v[1] = rotate(v[1], 13) ^ v[0]
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[1]) & MASK
            v[0] = (v[0] + v[3]) & MASK
            v[1] = rotate(v[1], 17) ^ v[2]
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    low, high = struct.unpack("<QQ", key)
    v = [low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D, low ^ 0x6C7967656E657261, high ^ 0x7465646279746573]
    v[1] ^= 0xEE
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(compression)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(finalisation)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(finalisation)
    return struct.pack("<QQ", first, v[0] ^ v[1] ^ v[2] ^ v[3])


def test_the_oracle_has_the_published_answers():
    assert siphash(KEY, b"", 2, 4).hex() == "a3817f04ba25a8e66df67214c7550293"
    assert siphash(KEY, bytes(1), 2, 4).hex() == "da87c1d86b99af44347659119b22fc45"
    assert siphash(KEY, bytes(range(15)), 2, 4).hex() == "5493e99933b0a8117e08ec0f97cfc3d9"


@pytest.mark.parametrize("size", [*range(34), 255, 256, 1000])
def test_hash(size):
    data = random.Random(size).randbytes(size)
    assert OffsetMap(BUFFER_BYTES_MIN, hash_key=KEY).hash(data) == siphash(KEY, data, 1, 3)


def test_every_map_hashes_with_its_own_key():
    assert OffsetMap(BUFFER_BYTES_MIN).hash(b"a") != OffsetMap(BUFFER_BYTES_MIN).hash(b"a")


@given(st.lists(st.tuples(st.binary(max_size=2), st.integers(0, 1 << 62)), max_size=200),
       st.integers(BUFFER_BYTES_MIN, 8 * BUFFER_BYTES_MIN))
def test_against_a_dict(puts, buffer_bytes):
    table = OffsetMap(buffer_bytes, hash_key=KEY)
    model: dict[bytes, int] = {}
    for key, offset in puts:
        try:
            table[key] = offset
            model[key] = offset
        except MemoryError:
            assert key not in model
            # Short of its capacity only where the last slots have spilled over the end.
            assert len(model) > table.capacity // 2
        assert len(table) == len(model) <= table.capacity
        assert key not in model or table[key] == model[key]
    for key, _ in puts:
        assert (key in table) == (key in model)
        if key in model:
            assert table[key] == model[key]


@pytest.mark.parametrize("buffer_bytes", [1 << 20, 5 << 20, 25 * (1 << 18)])
def test_a_full_map(buffer_bytes):
    """Every added key is found, also at nine tenths full and after the table has grown, and no other key is."""
    table = OffsetMap(buffer_bytes, hash_key=KEY)
    assert 0.85 * buffer_bytes / 24 * 0.9 < table.capacity < buffer_bytes / 24 * 0.9
    for number in range(table.capacity):
        table[b"%d" % number] = number
    assert len(table) == table.capacity
    with pytest.raises(MemoryError):
        table[b"one more"] = 0
    table[b"0"] = 7777
    assert table[b"0"] == 7777
    assert all(table[b"%d" % number] == number for number in range(1, table.capacity))
    assert not any(b"x%d" % number in table for number in range(table.capacity))
    with pytest.raises(KeyError):
        table[b"one more"]


def test_bad_arguments():
    with pytest.raises(InvalidArgumentError, match="buffer_bytes: 1023"):
        OffsetMap(1023)
    with pytest.raises(InvalidArgumentError, match="hash_key: 3 bytes"):
        OffsetMap(1024, hash_key=b"abc")
    with pytest.raises(InvalidArgumentError, match="offset: -1"):
        OffsetMap(1024)[b"a"] = -1
