"""Codecs: written bytes, accepted bytes, refused bytes, and no allocation for a false size."""

from __future__ import annotations

import contextlib
import gzip
import random
import resource
import struct
import zlib

import cramjam
import lz4.block
import lz4.frame
import pytest
import xxhash
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import CorruptRecordError, InvalidArgumentError, MessageTooLargeError
from kraft_native.batch.batch import first_batch
from kraft_native.batch.codecs import CODECS, LEVELS, compress, decompress
from kraft_native.batch.records import BatchBuilder, records
from tests.guard import guarded
from tests.oracle import batch as oracle

COMPRESSED = CODECS[1:]
XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def noise(size):
    return random.Random(size).randbytes(size)


def text(size):
    words = [noise(5).hex().encode(), b"alpha", b"beta", b"gamma ", b"0123456789"]
    source = random.Random(size)
    return b" ".join(source.choice(words) for _ in range(size // 5))[:size]


SAMPLES = [b"", b"a", b"abc" * 10, noise(100), text(1000), noise(32768), text(32769), text(65536), noise(65537),
           bytes(300_000), text(1_000_000)]


@pytest.mark.parametrize("codec", CODECS)
def test_round_trip_both_ways_with_the_library(codec):
    for sample in SAMPLES:
        ours = compress(codec, sample)
        assert decompress(codec, ours) == sample
        assert oracle.decompress(codec, ours) == sample
        assert decompress(codec, oracle.compress(codec, sample)) == sample


@pytest.mark.parametrize("codec", CODECS)
def test_names_numbers_and_buffers(codec):
    data = bytearray(b"x" * 500)
    assert decompress(CODECS.index(codec), memoryview(compress(codec, memoryview(data)))) == data


@given(st.sampled_from(CODECS), st.lists(st.binary(max_size=300), min_size=1, max_size=20))
def test_batches_round_trip(codec, values):
    builder = BatchBuilder(codec)
    for value in values:
        builder.append(value, timestamp_ms=7)
    data = builder.build(5)
    assert first_batch(data).codec == codec
    assert [record.value for record in oracle.decode(data).records] == values
    theirs = oracle.encode([oracle.OracleRecord(value, timestamp_ms=7) for value in values], codec, base_offset=5)
    for batch in (data, theirs):
        assert [(record.offset, record.value) for record in records(batch)] == list(enumerate(values, 5))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_truncation_is_corrupt(codec):
    for sample in (text(300), text(5000)):
        data = compress(codec, sample)
        for size in range(len(data)):
            with pytest.raises((CorruptRecordError, MessageTooLargeError)) as caught:
                if decompress(codec, data[:size]) != sample and codec == "snappy":
                    # A stream of blocks has no end mark: cut between two blocks it is another, shorter stream.
                    raise CorruptRecordError("shorter")
            assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", COMPRESSED)
def test_flipped_bits_never_do_worse_than_other_bytes(codec):
    data = compress(codec, text(2000))
    source = random.Random(1)
    for _ in range(2000):
        flipped = bytearray(data)
        flipped[source.randrange(len(data))] ^= 1 << source.randrange(8)
        with contextlib.suppress(CorruptRecordError, MessageTooLargeError):
            assert len(decompress(codec, flipped, max_bytes=1 << 20)) <= 1 << 20


def test_unknown_codecs():
    for codec in ("lzma", 5, 7, -1, None, b"gzip"):
        with pytest.raises(InvalidArgumentError, match="codec"):
            compress(codec, b"")


# --- levels


@pytest.mark.parametrize("codec", [name for name, levels in zip(CODECS, LEVELS, strict=True) if levels])
def test_levels(codec):
    lowest, highest, default = LEVELS[CODECS.index(codec)]
    sample = text(20_000)
    assert compress(codec, sample) == compress(codec, sample, default)
    for level in (lowest, highest, default):
        assert decompress(codec, compress(codec, sample, level)) == sample
    for level in (lowest - 1, highest + 1, 1.5, "3"):
        if level != default:
            with pytest.raises(InvalidArgumentError, match="level"):
                compress(codec, sample, level)
    with pytest.raises(InvalidArgumentError, match="level"):
        BatchBuilder(codec, highest + 1)


def test_levels_do_something():
    sample = text(60_000)
    assert len(compress("gzip", sample, 9)) < len(compress("gzip", sample, 1))
    assert len(compress("zstd", sample, 19)) < len(compress("zstd", sample, -50))
    # Kafka: 9, the default, is the fast compressor, all others the high one.
    assert len(compress("lz4", sample, 8)) < len(compress("lz4", sample, 9)) > len(compress("lz4", sample, 10))


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_codecs_without_levels(codec):
    with pytest.raises(InvalidArgumentError, match="no levels"):
        compress(codec, b"", 1)


# --- gzip


def test_gzip_members_and_what_follows():
    two = gzip.compress(b"one") + gzip.compress(b"two" * 9000)
    assert decompress("gzip", two) == b"one" + b"two" * 9000
    assert decompress("gzip", two + b"rubbish that is longer than a header") == b"one" + b"two" * 9000
    with pytest.raises(CorruptRecordError):
        decompress("gzip", two[:-1])
    with pytest.raises(CorruptRecordError):
        decompress("gzip", gzip.compress(b"one") + b"\x1f\x8b\x08" + bytes(40))


def test_gzip_refuses_zlib_and_wrong_checksums():
    with pytest.raises(CorruptRecordError):
        decompress("gzip", zlib.compress(b"plain"))
    data = bytearray(gzip.compress(b"plain" * 10))
    data[-6] ^= 1
    with pytest.raises(CorruptRecordError, match="gzip"):
        decompress("gzip", data)


def test_gzip_many_small_members_take_linear_time():
    member = gzip.compress(b"x")
    assert decompress("gzip", member * 20_000) == b"x" * 20_000


# --- snappy


def test_snappy_framing():
    data = compress("snappy", text(70_000))
    assert data.startswith(XERIAL)
    blocks = 0
    at = 16
    while at < len(data):
        at += 4 + struct.unpack_from(">i", data, at)[0]
        blocks += 1
    assert blocks == 3
    raw = bytes(cramjam.snappy.compress_raw(b"raw" * 50))
    assert decompress("snappy", raw) == b"raw" * 50
    assert decompress("snappy", data + compress("snappy", b"more")) == text(70_000) + b"more"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(cramjam.snappy.compress(b"google" * 20)),
        XERIAL[:12],
        b"\x82SNAPPY\0" + struct.pack(">ii", 1, 0),
        XERIAL + b"\0\0",
        XERIAL + struct.pack(">i", 0),
        XERIAL + struct.pack(">i", -5) + b"abcde",
        XERIAL + struct.pack(">i", 100) + b"abcde",
        XERIAL + struct.pack(">i", 5) + b"\xff\xff\xff\xff\xff",
    ],
)
def test_snappy_refuses(data):
    with pytest.raises(CorruptRecordError, match="snappy"):
        decompress("snappy", data)


# --- lz4


def lz4_frame(flags=0x60, descriptor=0x40, content=b"", extra=b"", end=bytes(4), checksum=None):
    head = bytes([flags, descriptor]) + extra
    check = (xxhash.xxh32_intdigest(head) >> 8) & 0xFF if checksum is None else checksum
    return b"\x04\x22\x4d\x18" + head + bytes([check]) + content + end


def lz4_blocks(plain, *, size=65536, checksum=False):
    content = b""
    for at in range(0, len(plain), size):
        block = lz4.block.compress(plain[at:at + size], store_size=False)
        content += struct.pack("<I", len(block)) + block
        content += struct.pack("<I", xxhash.xxh32_intdigest(block)) if checksum else b""
    return content


def test_lz4_writes_kafkas_frame():
    data = compress("lz4", text(100_000))
    assert data[:7].hex() == "04224d18604082" and data.endswith(bytes(4))
    assert struct.unpack_from("<I", compress("lz4", noise(100)), 7)[0] == 100 | 0x80000000


@pytest.mark.parametrize("sizes", [range(20), range(20, 70, 7), (1000, 4097)])
def test_lz4_accepts_checksums_sizes_and_block_sizes(sizes):
    """Block checksums of all lengths also check our xxHash."""
    for size in sizes:
        plain = text(size) + noise(size)
        assert decompress("lz4", lz4_frame(0x70, content=lz4_blocks(plain, checksum=True))) == plain
        assert decompress("lz4", lz4_frame(0x68, content=lz4_blocks(plain), extra=struct.pack("<Q", 99))) == plain
        assert decompress("lz4", lz4_frame(0x64, content=lz4_blocks(plain), end=bytes(8))) == plain
    plain = text(3_000_000)
    for descriptor, size in ((0x50, 1 << 18), (0x60, 1 << 20), (0x70, 1 << 22)):
        assert decompress("lz4", lz4_frame(0x60, descriptor, lz4_blocks(plain, size=size))) == plain
        assert decompress("lz4", lz4.frame.compress(plain, block_linked=False, block_size=descriptor >> 4)) == plain


def test_lz4_ignores_what_follows_the_frame():
    """Kafka and its Java consumers ignore it too, even a second frame."""
    plain = text(3000)
    for behind in (b"x", bytes(4), lz4_frame(content=lz4_blocks(plain)), b"rubbish after the frame"):
        assert decompress("lz4", lz4_frame(content=lz4_blocks(plain)) + behind) == plain
        assert decompress("lz4", lz4_frame(0x64, content=lz4_blocks(plain), end=bytes(8)) + behind) == plain


@pytest.mark.parametrize(
    ("data", "text_"),
    [
        (b"", "no frame"),
        (lz4.block.compress(b"raw" * 40), "no frame"),
        (b"\x03\x21\x4c\x18" + lz4_frame()[4:], "no frame"),
        (lz4.frame.compress(bytes(200_000), block_linked=True), "need earlier ones"),
        (lz4_frame(end=b""), "cut off"),
        (lz4_frame(0x64), "cut off"),
        (lz4_frame(0x64, end=bytes(7)), "cut off"),
        (lz4_frame(0x61), "flags"),
        (lz4_frame(0x62), "flags"),
        (lz4_frame(0xA0), "flags"),
        (lz4_frame(descriptor=0x30), "block descriptor"),
        (lz4_frame(descriptor=0x41), "block descriptor"),
        (lz4_frame(descriptor=0xC0), "block descriptor"),
        (lz4_frame(checksum=0), "descriptor checksum"),
        (lz4_frame(0x68, extra=b"\0\0", end=b""), "cut off"),
        (lz4_frame(content=struct.pack("<I", 65537) + bytes(65537)), "block of 65537"),
        (lz4_frame(content=struct.pack("<I", 9) + b"short", end=b""), "block of 9"),
        (lz4_frame(content=struct.pack("<I", 5) + b"\xff\xff\xff\xff\xff"), "damaged block"),
        (lz4_frame(0x70, content=lz4_blocks(b"abc" * 9, checksum=True)[:-1] + b"\xee"), "block checksum"),
    ],
)
def test_lz4_refuses(data, text_):
    with pytest.raises(CorruptRecordError, match=f"lz4: .*{text_}"):
        decompress("lz4", data)


# --- zstd


SKIPPABLE = b"\x50\x2a\x4d\x18\x03\0\0\0abc"


def test_zstd_writes_no_size_and_no_checksum():
    data = compress("zstd", text(5000))
    parameters = zstandard.get_frame_parameters(data)
    assert parameters.content_size == zstandard.CONTENTSIZE_UNKNOWN and not parameters.has_checksum


def test_zstd_accepts_frames_sizes_and_checksums():
    plain = text(300_000)
    sized = zstandard.ZstdCompressor(write_checksum=True).compress(plain)
    bare = zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(plain[:100])
    assert decompress("zstd", sized) == plain
    assert decompress("zstd", bare) == plain[:100]
    assert decompress("zstd", sized + SKIPPABLE + bare + sized) == plain + plain[:100] + plain
    assert decompress("zstd", zstandard.ZstdCompressor(write_checksum=True).compress(b"")) == b""
    streamed = zstandard.ZstdCompressor().compressobj()
    parts = b"".join(streamed.compress(plain[at:at + 1000]) + streamed.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
                     for at in range(0, 10_000, 1000)) + streamed.flush()
    assert decompress("zstd", parts) == plain[:10_000]


def test_zstd_refuses():
    plain = text(3000)
    good = zstandard.ZstdCompressor(write_checksum=True).compress(plain)
    for data in (b"", good + b"x", good + b"rubbish after the frame", good + good[:-1], good + SKIPPABLE[:-1],
                 b"\x28\xb5\x2f\xfd", b"\x22\xb5\x2f\xfd" + good[4:]):
        with pytest.raises(CorruptRecordError, match="zstd"):
            decompress("zstd", data)
    for size in (3000, 400_000):
        wrong = bytearray(zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(text(size)))
        wrong[-1] ^= 1
        with pytest.raises(CorruptRecordError, match="zstd"):
            decompress("zstd", wrong)


def test_zstd_announced_size_is_not_believed():
    """The frame announces 2^60 bytes and holds three."""
    block = struct.pack("<I", (3 << 3) | 1)[:3] + b"abc"
    lie = b"\x28\xb5\x2f\xfd" + bytes([0xE0]) + struct.pack("<Q", 1 << 60) + block
    with pytest.raises(CorruptRecordError):
        decompress("zstd", lie)


# --- bombs


def bomb(codec, size):
    if codec == "snappy":
        return oracle.compress(codec, bytes(32768))[:16] + oracle.compress(codec, bytes(32768))[16:] * (size // 32768)
    return compress(codec, bytes(size))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_is_refused_in_bounded_memory(codec):
    data = bomb(codec, 256 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(MessageTooLargeError, match="more than 8388608") as caught:
        decompress(codec, data, max_bytes=8 << 20)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 40 << 10


@pytest.mark.parametrize("codec", COMPRESSED)
def test_limits_are_exact(codec):
    plain = bytes(2 << 20)
    data = compress(codec, plain)
    assert decompress(codec, data, max_bytes=len(plain)) == plain
    with pytest.raises(MessageTooLargeError):
        decompress(codec, data, max_bytes=len(plain) - 1)
    with pytest.raises(MessageTooLargeError):
        decompress(codec, data, max_ratio=2)
    small = compress(codec, bytes(1 << 20))
    assert decompress(codec, small, max_ratio=1) == bytes(1 << 20)


def test_lying_lengths_cost_nothing():
    with pytest.raises(CorruptRecordError, match="cannot become"):
        decompress("snappy", b"\xff\xff\xff\xff\x07" + b"abc")
    with pytest.raises(InvalidArgumentError, match="max_bytes -1"):
        decompress("none", b"", max_bytes=-1)
    with pytest.raises(MessageTooLargeError):
        decompress("none", b"abc", max_bytes=2)


def test_limits_reach_the_records_of_a_batch():
    builder = BatchBuilder("zstd")
    builder.append(bytes(4 << 20))
    with pytest.raises(MessageTooLargeError):
        list(records(builder.build(), max_bytes=1 << 20))
    with pytest.raises(MessageTooLargeError):
        list(records(builder.build(), max_ratio=5))
    with pytest.raises(CorruptRecordError, match="codec 5"):
        list(records(oracle.assemble(b"x", 5, 0, 0, 0, 1)))


def test_a_snappy_block_of_no_bytes_is_no_null_pointer():
    """Found by fuzzing: with an output buffer that was never allocated, the library crashed."""
    assert decompress("snappy", b"\0") == b""
    # A batch's records bring their own scratch buffer, which was never allocated before.
    with pytest.raises(CorruptRecordError, match="record 0 of 1"):
        list(records(oracle.assemble(b"\0", CODECS.index("snappy"), 0, 0, 0, 1)))
    for codec in COMPRESSED:
        with pytest.raises(CorruptRecordError, match="record 0 of 1"):
            list(records(oracle.assemble(oracle.compress(codec, b""), CODECS.index(codec), 0, 0, 0, 1)))


@pytest.mark.parametrize("codec", COMPRESSED)
def test_nothing_is_read_past_the_end(codec):
    """Test every cut and many damaged bytes of a payload that ends at an inaccessible page."""
    data = compress(codec, text(900))
    source = random.Random(9)
    with guarded(len(data)) as memory:
        assert decompress(codec, memory.put(data)) == text(900)
        for size in range(len(data)):
            with contextlib.suppress(CorruptRecordError, MessageTooLargeError):
                decompress(codec, memory.put(data[:size]))
        for _ in range(1500):
            damaged = bytearray(data)
            for _ in range(source.randrange(1, 4)):
                damaged[source.randrange(min(len(data), source.choice((24, 10_000))))] = source.randrange(256)
            with contextlib.suppress(CorruptRecordError, MessageTooLargeError):
                decompress(codec, memory.put(bytes(damaged)), max_bytes=1 << 20)
