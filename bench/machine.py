"""Limits of the machine, measured by the small C programs in `bench/c`, with which our figures are compared.

Also the common start of every program of figures.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import repeat
from pathlib import Path
from types import ModuleType

from rich.console import Console

from kraft.cli.command import version_text
from kraft_native.base import crc

HERE = Path(__file__).parent
OUT = HERE / "out"
REPORTED_ORDER = Path("/sys/module/page_reporting/parameters/page_reporting_order")
NEVER_REPORTED_ORDER = 11              # blocks have orders up to 10
LEFT_ALONE_BYTES = 512 << 20            # free memory that is not touched: other processes need some


def kernel(block: bytes) -> float:
    """Measure the CRC kernel in use on the block, repeatedly, in GB/s."""
    times = (64 << 20) // len(block)
    begun = time.perf_counter()
    deque(map(crc.checksum, repeat(block, times)), maxlen=0)
    return len(block) * times / (time.perf_counter() - begun) / 1e9


def compiler() -> str:
    found = shutil.which("cc") or shutil.which("gcc")
    if found is None:
        raise SystemExit("bench needs a C compiler for its own limits: install gcc")
    return found


def compiled(source: str, *flags: str) -> Path:
    """Return the program of bench/c/<source>, compiled if it is older than its source."""
    path = HERE / "c" / source
    program = OUT / path.stem
    if not program.exists() or program.stat().st_mtime < path.stat().st_mtime:
        OUT.mkdir(exist_ok=True)
        subprocess.run([compiler(), "-O2", "-pthread", "-o", str(program), str(path), *flags], check=True)
    return program


def native(name: str) -> ModuleType:
    """Return the module of bench/native/<name>.pyx: loops over calls of the engine that Python cannot make."""
    source, generated = HERE / "native" / f"{name}.pyx", OUT / f"{name}.c"
    module = OUT / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    OUT.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-m", "cython", "-3", "-I", HERE.parent, "-X", "boundscheck=False,wraparound=False",
                    "-o", generated, source], check=True)
    subprocess.run([compiler(), "-O2", "-shared", "-fPIC", "-I", sysconfig.get_path("include"),
                    "-I", HERE.parent / "kraft_native" / "_c", "-o", module, generated], check=True)
    spec = importlib.util.spec_from_file_location(name, module)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def limit(*arguments: object, source: str = "limits.c") -> dict[str, float]:
    """Run one measurement of a program of `bench/c` (see its head for the arguments)."""
    command = [str(compiled(source)), *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def keep_memory() -> bool:
    """Let a virtual machine keep its free memory until this process ends. Return whether it does.

    Linux reports free blocks from a certain order on to the host, two seconds after they became free (free page
    reporting), and the host reclaims them. The next user of such a page pays 1.5 s a gigabyte for it, six times the
    cost of the write itself. Only root can raise that order above all existing ones.
    """
    try:
        before = REPORTED_ORDER.read_text()
        if int(before) < NEVER_REPORTED_ORDER:
            REPORTED_ORDER.write_text(str(NEVER_REPORTED_ORDER))
            atexit.register(REPORTED_ORDER.write_text, before)
    except FileNotFoundError:
        return True                    # nothing is reported
    except OSError:
        return False
    return True


def touch_memory(at_most: int | None = None) -> int:
    """Touch the free memory once, except `LEFT_ALONE_BYTES`, in another process; return the touched bytes.

    A fresh virtual machine gets its memory page by page at the first touch, at more than ten times the cost of a
    later one. Without this the first benchmark would pay for all that follow. The same holds for every turn that fills
    memory on a machine that returns freed memory to its host and cannot be kept from it. Before such a turn touch
    `at_most` as many bytes as it needs.
    """
    return _touch_once() if keep_memory() else _touch(at_most)


@cache
def _touch_once() -> int:
    return _touch(None)


def _touch(at_most: int | None) -> int:
    count = max(0, os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") - LEFT_ALONE_BYTES)
    if at_most is not None:
        count = min(count, at_most)
    limit("touch", count)
    return count


def settle(filled_bytes: int) -> None:
    """Prepare a turn of one side. Write all dirty pages of the other side to the disk. Touch the `filled_bytes` of
    memory that this side fills, so that the host need not provide them."""
    os.sync()
    if filled_bytes:
        touch_memory(at_most=filled_bytes)


@contextmanager
def awake() -> Iterator[None]:
    """Keep every processor from idling, with one process each that yields to all others.

    A virtual machine's idle processor is returned to the host. Waking it from another one costs each side 10 to 20 us.
    On a machine of two processors that doubles the time of a request that a client waits for.
    """
    program = compiled("limits.c")
    spinners = [subprocess.Popen([program, "spin", str(processor)]) for processor in os.sched_getaffinity(0)]
    try:
        yield
        if any(spinner.poll() is not None for spinner in spinners):
            raise RuntimeError("a processor was not kept awake")
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.wait()


def begin(console: Console, directory: Path, name: str, *, touch: bool) -> Path:
    """Print the head of a report (build and machine), and touch memory. Return a directory for this run only."""
    console.print(version_text(), highlight=False)
    console.print(describe(), highlight=False)
    if touch:
        console.print(f"touched {touch_memory() / 2**30:.1f} GiB of memory once")
        if not keep_memory():
            console.print("this machine gives free memory back to its host, which takes root to stop: rows that fill "
                          "memory pay for getting it again")
    directory.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=directory))


def describe() -> str:
    """Return processor, cores, memory and kernel as one line for the head of a report."""
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory_gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{model}, {os.cpu_count()} processors, {memory_gib:.0f} GiB, Linux {os.uname().release.split('-')[0]}"
