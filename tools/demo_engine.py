"""`make demo-engine`: a real data set goes into a log and comes back, every byte compared; then a writer is killed.

The data set is the text of Python's own standard library without its tests, which is on every machine: one record per
line, its key the file's name. It is written with each codec and read back twice, as records and as Arrow columns; the
digest of what came back must be that of what went in. Then a process that writes the same lines is killed in the
middle, and the log that it left is opened and compared, too.
"""

import hashlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.table import Table

from kraft import Log
from kraft.cli.command import run
from kraft_native.batch.records import BatchBuilder

CODECS = ("none", "snappy", "lz4", "zstd", "gzip")
BATCH_BYTES = 256 << 10
SEGMENT_BYTES = 8 << 20
START_MS = 1_700_000_000_000
KILL_AFTER_RECORDS = 50_000

Line: TypeAlias = tuple[bytes, bytes]


def lines() -> list[Line]:
    """(key, value) of every line of the standard library's sources, in a fixed order."""
    top = Path(sysconfig.get_path("stdlib"))
    return [
        (str(path.relative_to(top)).encode(), line)
        for path in sorted(top.rglob("*.py")) if not {"site-packages", "test", "tests"} & set(path.parts)
        for line in path.read_bytes().splitlines()
    ]


def digest(data: Iterator[Line]) -> str:
    """Digest of all keys and values with their lengths, in order."""
    summed = hashlib.sha256()
    for key, value in data:
        summed.update(b"%d %d " % (len(key), len(value)))
        summed.update(key)
        summed.update(value)
    return summed.hexdigest()


def batches(data: list[Line], codec: str) -> list[bytes]:
    """Batches as a producer would send them."""
    made = []
    builder = BatchBuilder(codec)
    for number, (key, value) in enumerate(data):
        builder.append(value, key, START_MS + number)
        if builder.size_in_bytes >= BATCH_BYTES:
            made.append(builder.build())
            builder.clear()
    if len(builder):
        made.append(builder.build())
    return made


def timed(work: Callable[[], object]) -> float:
    """Seconds that it took."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def append_all(log: Log, made: list[bytes]) -> None:
    for batch in made:
        log.append(batch)


def record_lines(log: Log) -> Iterator[Line]:
    return ((record.key or b"", record.value or b"") for record in log.records())


def arrow_lines(log: Log) -> Iterator[Line]:
    for piece in log.arrow(columns=["key", "value"]):
        yield from zip(piece["key"].to_pylist(), piece["value"].to_pylist(), strict=True)


def compare(name: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise SystemExit(f"{name}: what came back is not what was written: digest {found}, not {wanted}")


def with_codec(top: Path, data: list[Line], wanted: str, codec: str) -> tuple[str, ...]:
    """One row of the table: writes, opens again, reads and compares."""
    size = sum(len(key) + len(value) for key, value in data)
    directory = top / f"stdlib-{CODECS.index(codec)}"
    made: list[bytes] = []
    built = timed(lambda: made.extend(batches(data, codec)))
    with Log.open(directory, segment_bytes=SEGMENT_BYTES) as log:
        written = timed(lambda: append_all(log, made))
        stored = log.size_bytes
    with Log(directory) as log:
        compare(f"{codec}, records", digest(record_lines(log)), wanted)
        compare(f"{codec}, Arrow", digest(arrow_lines(log)), wanted)
        as_records = timed(lambda: sum(1 for _ in log.records()))
        as_arrow = timed(lambda: sum(len(piece) for piece in log.arrow()))
    million = len(data) / 1e6
    return (codec, f"{million / built:.2f}", f"{million / written:.1f}", f"{size / written / 1e6:,.0f}",
            f"{million / as_records:.2f}", f"{million / as_arrow:.1f}", f"{size / as_arrow / 1e6:,.0f}",
            f"{stored / 1e6:.1f}", f"{size / stored:.2f}")


def write_until_killed(directory: str) -> None:
    """The child: appends line by line with group commit, and prints which offsets are durable. It never ends itself."""
    with Log.open(directory, durability="group-commit", segment_bytes=SEGMENT_BYTES) as log:
        while True:
            for number, (key, value) in enumerate(lines()):
                log.append_record(value, key, START_MS + number)
                if number % 1000 == 999:
                    print(log.log_end_offset, log.durable_end_offset, flush=True)


def crash(top: Path, data: list[Line], console: Console) -> None:
    """Kill a writer with a signal that it cannot catch, and check the log that it left."""
    directory = top / "stdlib-crashed"
    with subprocess.Popen([sys.executable, "-m", "tools.demo_engine", str(directory)], stdout=subprocess.PIPE,
                          text=True) as child:
        appended = durable = 0
        for report in child.stdout or ():
            appended, durable = map(int, report.split())
            if appended >= KILL_AFTER_RECORDS:
                break
        child.send_signal(signal.SIGKILL)
    log = Log(directory)
    try:
        found = log.log_end_offset
        if found < durable:
            raise SystemExit(f"{found} records are left of {durable} that were durable")
        compare("after the crash", digest(record_lines(log)), digest(data[i % len(data)] for i in range(found)))
        following = log.append_record(b"the next life")
    finally:
        log.close()
    console.print(f"A writer was killed (SIGKILL) after it had reported {appended:,} appended records, {durable:,} of "
                  f"them durable.\nThe log opened with {found:,} records, each the one that was written, in order; the "
                  f"next one got offset {following:,}.\n")


def main() -> int:
    if len(sys.argv) > 1:
        write_until_killed(sys.argv[1])
    console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 100)
    data = lines()
    size = sum(len(key) + len(value) for key, value in data)
    wanted = digest(iter(data))
    console.print(f"{len(data):,} lines of Python's standard library, {size / 1e6:.1f} MB of keys and values, "
                  f"SHA-256 {wanted[:16]}...\n")
    table = Table("codec", "build\nM rec/s", "append\nM rec/s", "append\nMB/s", "records\nM rec/s", "Arrow\nM rec/s",
                  "Arrow\nMB/s", "on disk\nMB", "ratio", title="one core; MB of keys and values")
    for column in table.columns[1:]:
        column.justify = "right"
    top = Path(tempfile.mkdtemp(prefix="kraft-demo-"))
    try:
        for codec in CODECS:
            table.add_row(*with_codec(top, data, wanted, codec))
        console.print(table)
        console.print("Every digest agrees, read as records and as Arrow columns.\n")
        crash(top, data, console)
        console.print("kraft log verify, on all of them:")
        return run(["log", "verify", *(str(path) for path in sorted(top.iterdir()))])
    finally:
        shutil.rmtree(top)


if __name__ == "__main__":
    sys.exit(main())
