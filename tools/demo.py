"""`make demo`: a real data set goes into a log and comes back, every byte of it compared.

The data set is the text of Python's own standard library, which is on every machine: one record per line, its key the
file and line number. It is written with each codec, read back and compared, and `kraft log verify` examines the files.
"""

import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from kraft.cli.command import run
from kraft_native.config import LogConfig
from kraft_native.log import Log
from kraft_native.records import BatchBuilder, records

CODECS = ("none", "snappy", "lz4", "zstd", "gzip")
BATCH_BYTES = 256 << 10
SEGMENT_BYTES = 8 << 20
READ_BYTES = 1 << 20

Line = tuple[bytes, bytes]


def lines() -> list[Line]:
    """(key, value) of every line of the standard library's sources, in a fixed order."""
    top = Path(sysconfig.get_path("stdlib"))
    found = []
    for path in sorted(top.rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        name = str(path.relative_to(top)).encode()
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            found.append((b"%s:%d" % (name, number), line))
    return found


def batches(data: list[Line], codec: str) -> Iterator[bytes]:
    builder = BatchBuilder(codec)
    for number, (key, value) in enumerate(data):
        builder.append(value, key, 1_700_000_000_000 + number)
        if builder.size_in_bytes >= BATCH_BYTES:
            yield builder.build()
            builder.clear()
    if len(builder):
        yield builder.build()


def write(directory: Path, data: list[Line], codec: str) -> float:
    """Seconds that the appends alone took; building the batches is a producer's work."""
    made = list(batches(data, codec))
    with Log(directory, LogConfig(segment_bytes=SEGMENT_BYTES)) as log:
        begun = time.perf_counter()
        for batch in made:
            log.append(batch)
        return time.perf_counter() - begun


def read(directory: Path, data: list[Line]) -> float:
    """Reads all records back, in another life of the log, and compares them with what was written."""
    begun = time.perf_counter()
    number = 0
    with Log(directory) as log:
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            piece = log.read(offset, READ_BYTES)
            for record in records(piece, check_crc=False):
                if (record.offset, record.key, record.value) != (number, *data[number]):
                    raise SystemExit(f"{directory}: offset {number} came back as {record}")
                number += 1
            offset = piece.next_offset
    if number != len(data):
        raise SystemExit(f"{directory}: {number} records of {len(data)} came back")
    return time.perf_counter() - begun


def main() -> int:
    data = lines()
    size = sum(len(key) + len(value) for key, value in data)
    print(f"{len(data)} lines of Python's standard library, {size / 1e6:.1f} MB of keys and values")
    top = Path(tempfile.mkdtemp(prefix="kraft-demo-"))
    try:
        for codec in CODECS:
            directory = top / f"stdlib-{CODECS.index(codec)}"
            directory.mkdir()
            written = write(directory, data, codec)
            came_back = read(directory, data)
            stored = sum(path.stat().st_size for path in directory.glob("*.log"))
            print(f"{codec:7} append {size / written / 1e6:6.0f} MB/s   read as objects and compared "
                  f"{len(data) / came_back / 1e6:5.2f} M records/s   {stored / 1e6:5.1f} MB on disk")
        print("every record came back; kraft log verify:", flush=True)
        return run(["log", "verify", *(str(path) for path in sorted(top.iterdir()))])
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    sys.exit(main())
