"""Cost of reading and planning log directories of small segments, of many partitions, and without a clean stop.

    python -m bench.spark.small [--megabytes 256]

It prints the processor time per row of the same records in segments of 128 MB, of 1 MB, and in 256 partitions. The
ratio to the first is the figure. Beside it stands the processor time of planning, per partition. Then it prints the
time and the peak memory of planning a directory without a clean stop, and of planning it again in the same query.
Figures count on an idle machine only.
"""

import argparse
import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kraft import LogConfig, LogDir
from kraft.spark.directories import Directories
from kraft.spark.options import read_options
from kraft.spark.positions import batch_spans
from kraft.spark.splits import balance

VALUE: Final = b"v" * 100
RECORD: Final = (VALUE, b"key", 1_700_000_000_000, ())
BATCH_RECORDS: Final = 500
COLUMNS: Final = ("offset", "timestamp", "key", "value")


def write(path: Path, rows: int, segment_bytes: int, partitions: int) -> None:
    """Write the records in batches, spread over the partitions."""
    with LogDir(path, config=LogConfig(segment_bytes=segment_bytes)) as directory:
        for batch in range(rows // BATCH_RECORDS):
            directory.log("rows", batch % partitions).append_records([RECORD] * BATCH_RECORDS)


def read(path: Path) -> tuple[float, float, int]:
    """Return the processor seconds of planning and of reading, and the rows."""
    options = read_options({"path": str(path)}, streaming=False)
    source = Directories(options)
    began = time.process_time()
    tasks = balance(source.ranges(batch_spans(source, options)))
    planned = time.process_time() - began
    used, rows = time.process_time(), 0
    for task in tasks:
        for piece in task:
            rows += sum(len(columns) for columns in source.read(piece, COLUMNS))
    return planned, time.process_time() - used, rows


def plan_unclosed(path: Path) -> tuple[float, float, float]:
    """Return the seconds of planning without the files of a clean stop, of planning again, and the peak in megabytes.
    """
    for name in ("clean-shutdown.json", ".kafka_cleanshutdown"):
        for found in path.rglob(name):
            found.unlink()
    source = Directories(read_options({"path": str(path)}, streaming=False))
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        source.refresh()
        source.partitions()
        seconds.append(time.perf_counter() - began)
    return seconds[0], seconds[1], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=256)
    options = parser.parse_args(arguments)
    rows = max(options.megabytes * 1_000_000 // (len(VALUE) + 20), BATCH_RECORDS)
    base = 0.0
    with tempfile.TemporaryDirectory() as directory:
        for name, segment_bytes, partitions in (("128 MB", 128 << 20, 1), ("1 MB", 1 << 20, 1),
                                                ("256 partitions", 128 << 20, 256)):
            path = Path(directory, "data")
            write(path, rows, segment_bytes, partitions)
            planned, used, count = read(path)
            base = base or used / count
            print(f"{name:<16}{used / count * 1e9:8.0f} ns of processor time per row, {used / count / base:5.2f} times "
                  f"the first; planning {planned / partitions * 1e3:.2f} ms per partition")
            if partitions == 1:
                first, again, peak = plan_unclosed(path)
                print(f"{'':<16}without a clean stop planned in {first * 1e3:.1f} ms, again in {again * 1e3:.1f} ms; "
                      f"peak {peak:.0f} MB")
            shutil.rmtree(path)


if __name__ == "__main__":
    main()
