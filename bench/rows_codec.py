"""Codecs: decoding and encoding a batch's records beside the library's own call on the same bytes."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from functools import partial

import cramjam
import lz4.frame
import zstandard

from bench.table import Bench, Row, paired, seconds
from kraft_native.codecs import compress, decompress

SIZE = 256 << 10
TURNS = 140
"""Many and short: what a shared machine does for a second meets both sides."""
_zstd_in = zstandard.ZstdCompressor(level=3, write_content_size=False)
_zstd_out = zstandard.ZstdDecompressor()

Call = Callable[[bytes], object]

# codec -> (encode, decode) by its library alone, with the settings that Kafka's format asks for
LIBRARY: dict[str, tuple[Call, Call]] = {
    "gzip": (lambda data: zlib.compress(data, -1, 31), lambda data: zlib.decompress(data, 31)),
    "snappy": (cramjam.snappy.compress_raw, cramjam.snappy.decompress_raw),
    "lz4": (lambda data: lz4.frame.compress(data, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                                            store_size=False), lz4.frame.decompress),
    "zstd": (_zstd_in.compress, lambda data: _zstd_out.decompress(data, max_output_size=SIZE)),
}


def text(size: int) -> bytes:
    """Words: bytes that compress about as well as log lines do."""
    source = random.Random(7)
    vocabulary = [source.randbytes(source.randint(2, 5)).hex().encode() for _ in range(300)]
    return b" ".join(source.choice(vocabulary) for _ in range(size // 4))[:size]


def speed(call: Call, data: bytes, times: int) -> float:
    def run() -> None:
        for _ in range(times):
            call(data)

    return SIZE * times / seconds(run) / 1e6


def rows(bench: Bench) -> Iterator[Row]:
    plain = text(SIZE)
    for codec, (encode, decode) in LIBRARY.items():
        packed = bytes(encode(plain))  # type: ignore[call-overload]
        ours = compress(codec, plain)
        assert decompress(codec, ours) == plain
        times = {"gzip": 2}.get(codec, 10)
        for what, mine, theirs, mine_data, their_data in (
            ("decode", lambda data, codec=codec: decompress(codec, data), decode, packed, packed),
            ("encode", lambda data, codec=codec: compress(codec, data), encode, plain, plain),
        ):
            title = f"{what} {codec}, 256 KiB of text"
            if bench.wants(title):
                yield paired(title, "MB/s", partial(speed, mine, mine_data, times),
                             partial(speed, theirs, their_data, times), limit_name="the library alone",
                             target=0.9, repeats=bench.count(TURNS))
