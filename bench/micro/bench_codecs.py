"""Each codec beside its library's own call on the same bytes: the difference is the cost of our framing and limits."""

import gzip
import random
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard

from kraft_native.batch.codecs import compress, decompress

SIZES = [1000, 16384, 1 << 20]
_words = random.Random(1)
_vocabulary = [_words.randbytes(_words.randint(2, 5)).hex().encode() for _ in range(300)]
TEXT = b" ".join(_words.choice(_vocabulary) for _ in range(160_000))[:max(SIZES)]

_zstd_in = zstandard.ZstdCompressor(level=3, write_content_size=False)
_zstd_out = zstandard.ZstdDecompressor()


def _lz4_frame(data):
    return lz4.frame.compress(data, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False)


def _zstd_plain(data):
    return _zstd_out.decompress(data, max_output_size=max(SIZES))


LIBRARY = {
    "gzip": (lambda data: zlib.compress(data, -1, 31), gzip.decompress),
    "snappy": (cramjam.snappy.compress_raw, lambda data: bytes(cramjam.snappy.decompress_raw(data))),
    "lz4": (_lz4_frame, lz4.frame.decompress),
    "zstd": (_zstd_in.compress, _zstd_plain),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("codec", LIBRARY)
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "library"])
def test_decompress(benchmark, codec, size, ours):
    benchmark.group = f"decompress {codec:6} {size:7} bytes"
    data = bytes(LIBRARY[codec][0](TEXT[:size]))
    if ours:
        assert benchmark(decompress, codec, data) == TEXT[:size]
    else:
        assert benchmark(LIBRARY[codec][1], data) == TEXT[:size]
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["MB/s"] = round(size / benchmark.stats.stats.min / 1e6)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("codec", LIBRARY)
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "library"])
def test_compress(benchmark, codec, size, ours):
    benchmark.group = f"compress {codec:6} {size:7} bytes"
    if ours:
        benchmark(compress, codec, TEXT[:size])
    else:
        benchmark(LIBRARY[codec][0], TEXT[:size])
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["MB/s"] = round(size / benchmark.stats.stats.min / 1e6)
