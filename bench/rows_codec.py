"""Codecs: decoding and encoding a batch's records beside the library's own call on the same bytes."""

from __future__ import annotations

import mmap
import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import cramjam
import lz4.frame
import zstandard

from bench.table import Bench, Row, paired, seconds
from kraft_native.batch.codecs import compress, decompress

SIZE = 256 << 10
TURNS = 140
"""Many and short, so that a disturbance of a second on a shared machine affects both sides."""
_zstd_in = zstandard.ZstdCompressor(level=3, write_content_size=False)
_zstd_out = zstandard.ZstdDecompressor()

Call = Callable[[bytes], object]
Data = TypeVar("Data")

# codec -> (encode, decode) by its library alone, with the settings that Kafka's format requires
LIBRARY: dict[str, tuple[Call, Call]] = {
    "gzip": (lambda data: zlib.compress(data, -1, 31), lambda data: zlib.decompress(data, 31)),
    "snappy": (cramjam.snappy.compress_raw, cramjam.snappy.decompress_raw),
    "lz4": (lambda data: lz4.frame.compress(data, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                                            store_size=False), lz4.frame.decompress),
    "zstd": (_zstd_in.compress, lambda data: _zstd_out.decompress(data, max_output_size=SIZE)),
}


def text(size: int) -> bytes:
    """Return words: bytes that compress about as well as log lines do."""
    source = random.Random(7)
    vocabulary = [source.randbytes(source.randint(2, 5)).hex().encode() for _ in range(300)]
    return b" ".join(source.choice(vocabulary) for _ in range(size // 4))[:size]


@contextmanager
def mapped(path: Path, data: bytes) -> Iterator[memoryview]:
    """Map a file that has `data`, read-only, as a segment is mapped; its pages are in memory."""
    path.write_bytes(data)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED) as pages:
        assert pages[:] == data
        with memoryview(pages) as view:
            yield view


def speed(call: Callable[[Data], object], data: Data, times: int) -> float:
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
    yield from mapped_rows(bench, plain)


def mapped_rows(bench: Bench, plain: bytes) -> Iterator[Row]:
    """Measure lz4 both ways over the pages of a mapped file: the library reads them in place, beside an earlier copy.
    """
    for what, call, data in (("decode", decompress, compress("lz4", plain)), ("encode", compress, plain)):
        title = f"{what} lz4, 256 KiB of text in mapped memory"
        if bench.wants(title):
            with mapped(bench.fresh("mapped"), data) as pages:
                yield paired(title, "MB/s", partial(speed, partial(call, "lz4"), pages, 10),
                             partial(speed, partial(_copied, call), pages, 10),
                             limit_name="copied to the heap first", target=1.0, repeats=bench.count(TURNS))


def _copied(call: Callable[[str, bytes], bytes], pages: memoryview) -> bytes:
    return call("lz4", bytes(pages))
