"""Extensions of `kraft_native`, as a table. Everything else about the package is in pyproject.toml.

Switches, all environment variables, all off by default (docs/internals/building.md has recipes):
  KRAFT_DEBUG=1      every index of typed memory checked, assertions of C on, no optimisation, debug symbols
  KRAFT_SANITIZE=1   AddressSanitizer and UndefinedBehaviorSanitizer (see `make sanitize`)
  KRAFT_COVERAGE=1   line tracing for Cython.Coverage
  KRAFT_ANNOTATE=1   write the annotated HTML of every module beside its source
  KRAFT_JOBS=N       how many compilers run at once (default: every processor that this process may use)
  KRAFT_CACHE=DIR    keep generated C and compiled modules by content there (default: build/cache); several checkouts
                     may share one, and then compile only what differs
  KRAFT_BUILT=1      install without compiling: `build_ext --inplace` has made the modules
"""

import os
import platform
import re
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).resolve().parent))  # an installer runs this file without its directory

from tools.module_cache import CachedBuild

# module -> C sources linked into it. A C source is linked once; other modules reach it by cimport.
MODULES: dict[str, list[str]] = {
    "build_info": [],
    "errors": [],
    "crc": ["_c/crc32c.c", "_c/crc32c_table.c", "_c/crc32c_x86.c", "_c/crc32c_arm.c"],
    "murmur": [],
    "json_lines": [],
    "fileio": ["_c/fileio.c", "_c/window.c", "_c/resident.c"],
    "faults": ["_c/faults.c"],
    "buffer": [],
    "wire": [],
    "wire_steps": [],
    "codecs": [],
    "legacy": [],
    "batch": [],
    "template": [],
    "fetch_chain": [],
    "answers": [],
    "records": [],
    "control": [],
    "validate": [],
    "arrow": [],
    "column_fill": [],
    "columns": [],
    "column_encoder": [],
    "checkpoints": [],
    "indexfile": [],
    "index": [],
    "epochs": [],
    "txnindex": [],
    "producer_snapshots": [],
    "producers": [],
    "ranges": [],
    "scan": [],
    "epochcheck": [],
    "audit": [],
    "config": [],
    "segmentfile": [],
    "segment": [],
    "apply": [],
    "flusher": ["_c/flusher.c"],
    "live": [],
    "txncheck": [],
    "marks": [],
    "cleanclose": [],
    "logcore": [],
    "logcheckpoint": [],
    "batch_check": [],
    "append": [],
    "lookup": [],
    "trim": [],
    "leftovers": [],
    "epochscan": [],
    "formatcheck": [],
    "recovery_report": [],
    "recovery": [],
    "offsetmap": [],
    "cleansource": [],
    "cleantxns": [],
    "cleanfilter": [],
    "cleanwriter": [],
    "dirty": [],
    "cleaner": [],
    "log": [],
    "foreign": [],
    "reader": [],
    "request_times": [],
    "replication_quota": [],
    "reply": [],
    "watermark": [],
    "purgatory": [],
    "client_quotas": [],
    "partition": [],
    "table": [],
    "coldread": ["_c/coldread.c"],
    "endpoint": [],
    "slices": [],
    "produce_wait": [],
    "produce": [],
    "fetch_entry": [],
    "fetch_session": [],
    "fetch_wire": [],
    "fetch": [],
    "frames": [],
    "outgoing": [],
    "channel": [],
    "connection": [],
    "replica_wire": [],
    "replica_fetch": [],
    "loadgen": ["_c/loadgen.c"],
}


# What Cython would write into each module again (functions, buffers, iteration): once, for all. Modules with typed
# arrays take half the time to compile, small ones two thirds.
SHARED = "kraft_native._shared"
SHARED_SOURCE = Path("build/shared/_shared.c")

# They run at open and close, for a command or a test, and never for a record or a batch: compiled for a short build.
COLD = frozenset({
    "build_info", "faults", "checkpoints", "txnindex", "producer_snapshots", "config", "txncheck", "marks",
    "cleanclose", "trim", "leftovers", "recovery_report",
})

FLAGS_STAMP = Path("build/flags.txt")


def switch(name: str) -> bool:
    return os.environ.get(f"KRAFT_{name}", "0") not in ("", "0")


def version() -> str:
    """The version as `kraft/_version.py` states it, compiled into the core, so that the two can be compared."""
    found = re.search(r'^__version__ = "([^"]+)"$', Path("kraft/_version.py").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("kraft/_version.py does not state __version__")
    return found[1]


def flags() -> tuple[list[str], list[str], list[tuple[str, str | None]]]:
    """Compiler flags, linker flags and macros for the switches that are set."""
    compile_args = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
    link_args: list[str] = []
    macros: list[tuple[str, str | None]] = []
    if switch("DEBUG"):
        compile_args += ["-O0", "-g", "-UNDEBUG"]
        macros.append(("KRAFT_DEBUG", "1"))
    else:
        compile_args += ["-O3", "-g0", "-fno-plt"]
    if switch("SANITIZE"):
        sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]
        compile_args += [*sanitizers, "-O1", "-g"]
        link_args += sanitizers
    if switch("COVERAGE"):
        macros += [("CYTHON_TRACE", "1"), ("CYTHON_TRACE_NOGIL", "1")]
    return compile_args, link_args, macros


def extensions() -> list[Extension]:
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        raise SystemExit("kraft runs on Linux on x86-64 and 64-bit ARM; this is "
                         f"{sys.platform} on {platform.machine()}")
    compile_args, link_args, macros = flags()
    headers = [f"kraft_native/_c/{name}" for name in sorted(os.listdir("kraft_native/_c")) if name.endswith(".h")]
    table = [
        Extension(
            f"kraft_native.{module}",
            [f"kraft_native/{module}.pyx", *(f"kraft_native/{source}" for source in sources)],
            include_dirs=["kraft_native/_c"],
            depends=list(headers),
            extra_compile_args=compile_args + (["-O1"] if module in COLD and not switch("DEBUG") else []),
            extra_link_args=link_args,
            define_macros=list(macros),
        )
        for module, sources in MODULES.items()
    ]
    SHARED_SOURCE.parent.mkdir(parents=True, exist_ok=True)
    table.append(Extension(SHARED, [str(SHARED_SOURCE)], extra_compile_args=compile_args, extra_link_args=link_args,
                           define_macros=list(macros)))
    for extension in table:
        if extension.name == "kraft_native.build_info":
            extension.define_macros.append(("KRAFT_VERSION", f'"{version()}"'))
            extension.depends.append("kraft/_version.py")
    return table


JOBS = int(os.environ.get("KRAFT_JOBS") or len(os.sched_getaffinity(0)))
CACHE = Path(os.environ.get("KRAFT_CACHE") or "build/cache")
CachedBuild.directory = CACHE / "modules"

# Time stamps do not show that a switch was turned: with other flags than the last time everything is translated again.
FLAGS = repr((flags(), switch("ANNOTATE")))
REBUILD = not FLAGS_STAMP.exists() or FLAGS_STAMP.read_text() != FLAGS


def modules() -> list[Extension]:
    """The table with every .pyx translated to C, as far as it changed."""
    if REBUILD:
        for path in [SHARED_SOURCE, *(Path(f"kraft_native/{module}.c") for module in MODULES)]:
            path.unlink(missing_ok=True)
    return cythonize(
        extensions(),
        nthreads=JOBS,
        quiet="-q" in sys.argv,
        cache=str(CACHE / "generated"),
        shared_utility_qualified_name=SHARED,
        annotate=switch("ANNOTATE"),
        compiler_directives={
            "language_level": "3",
            "boundscheck": switch("DEBUG"),
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": switch("DEBUG"),
            "binding": True,
            "auto_pickle": False,
            "embedsignature": False,
            "linetrace": switch("COVERAGE"),
        },
    )


# Processes that translate modules may import this file again.
if __name__ == "__main__":
    # An installer of an editable package compiles every module in a directory of its own, which it throws away: the
    # package points at those that `build_ext --inplace` has made.
    setup(
        ext_modules=[] if switch("BUILT") else modules(),
        cmdclass={"build_ext": CachedBuild},
        options={"build_ext": {"parallel": JOBS}},
    )

    if "build_ext" in sys.argv:
        FLAGS_STAMP.parent.mkdir(exist_ok=True)
        FLAGS_STAMP.write_text(FLAGS)
