"""Extensions of `kraft_native`: every `.pyx` of its packages. Everything else about the package is in pyproject.toml.

Switches, all environment variables, all off by default (docs/internals/building.md has recipes):
  KRAFT_DEBUG=1      every index of typed memory checked, assertions of C on, no optimisation, debug symbols
  KRAFT_SANITIZE=1   AddressSanitizer and UndefinedBehaviorSanitizer (see `make sanitize`)
  KRAFT_COVERAGE=1   line tracing for Cython.Coverage
  KRAFT_ANNOTATE=1   write the annotated HTML of every module beside its source
  KRAFT_JOBS=N       how many compilers run at once (default: every processor that this process may use)
  KRAFT_MUTANTS=0|1  with or without the known bugs that the simulator plants (default: 1 for `build_ext --inplace`)
  KRAFT_CACHE=DIR    keep generated C and compiled modules by content there (default: build/cache); several checkouts
                     may share one, and then compile only what differs
  KRAFT_BUILT=1      install without compiling: `build_ext --inplace` has made the modules
  KRAFT_OPENSSL=0    without the module that needs OpenSSL's headers, as on a machine that lacks them
"""

import os
import platform
import re
import sys
from pathlib import Path
from zipfile import ZipFile, is_zipfile

from Cython.Build import cythonize
from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).resolve().parent))  # an installer runs this file without its directory

from tools import stubs
from tools.module_cache import CachedBuild
from tools.openssl import OPENSSL, WITHOUT, openssl_version

# C sources that a module links, below `kraft_native/_c`. A C source is linked once; other modules reach it by cimport.
C_SOURCES: dict[str, tuple[str, ...]] = {
    "base.crc": ("base/crc32c.c", "base/crc32c_table.c", "base/crc32c_x86.c", "base/crc32c_arm.c"),
    "file.file_io": ("file/file_io.c", "file/window.c", "file/resident.c"),
    "file.faults": ("file/faults.c",),
    "log.flusher": ("log/flusher.c",),
    "partition.cold_read": ("partition/cold_read.c",),
    "net.openssl": ("net/tls_bytes.c",),
    "bench.load_generator": ("bench/load_generator.c",),
}

NATIVE = Path("kraft_native")
C = NATIVE / "_c"

# What Cython would write into each module again (functions, buffers, iteration): once, for all. Modules with typed
# arrays take half the time to compile, small ones two thirds.
SHARED = "kraft_native._shared"
SHARED_SOURCE = Path("build/shared/_shared.c")

# They run at open and close, for a command or a test, and never for a record or a batch: compiled for a short build.
COLD = frozenset({
    "base.build_info", "file.faults", "segment.config", "segment.log_fields", "segment.producer_snapshots",
    "segment.txn_index", "log.leftovers", "log.marks", "log.replaced_files", "log.trim", "log.txn_check",
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


def has_mutants(source: Path) -> bool:
    """Return whether a module gets the known bugs that the simulator plants. An installation has none of them."""
    wanted = os.environ.get("KRAFT_MUTANTS", "1" if "--inplace" in sys.argv else "0") not in ("", "0")
    return wanted and (source.stem == "mutants" or "kraft_native.base.mutants" in source.read_text())


def sources() -> dict[str, Path]:
    """Each compiled module, `package.module`, and its source: every `.pyx` of a package is one."""
    found = {".".join(path.relative_to(NATIVE).with_suffix("").parts): path for path in sorted(NATIVE.glob("*/*.pyx"))}
    if unknown := sorted({*C_SOURCES, *COLD} - found.keys()):
        raise SystemExit(f"setup.py names modules without a source: {', '.join(unknown)}")
    if openssl_version() is None:
        del found[OPENSSL]
    return found


def remove_orphans() -> None:
    """Remove what a build made of a module whose source was moved, deleted or omitted since: it could still be
    imported."""
    for path in [*NATIVE.rglob("*.so"), *(path for path in NATIVE.rglob("*.c") if C not in path.parents)]:
        name = path.name.partition(".")[0]
        is_omitted = path.parent / name == NATIVE.joinpath(*OPENSSL.split(".")) and openssl_version() is None
        is_shared = path.parent / name == Path(*SHARED.split("."))
        if is_omitted or not (is_shared or path.with_name(f"{name}.pyx").exists()):
            path.unlink()


def remove_empty_archives() -> None:
    """Remove what a translation that was interrupted left in Cython's cache: an archive without files."""
    for path in (CACHE / "generated").glob("*.zip"):
        if not is_zipfile(path) or not ZipFile(path).namelist():
            path.unlink()


def extensions() -> list[Extension]:
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        raise SystemExit("kraft runs on Linux on x86-64 and 64-bit ARM; this is "
                         f"{sys.platform} on {platform.machine()}")
    compile_args, link_args, macros = flags()
    headers = sorted(str(path) for path in C.rglob("*.h"))
    table = [
        Extension(
            f"kraft_native.{module}",
            [str(source), *(str(C / each) for each in C_SOURCES.get(module, ()))],
            include_dirs=[str(C)],
            depends=list(headers),
            extra_compile_args=compile_args + (["-O1"] if module in COLD and not switch("DEBUG") else []),
            extra_link_args=link_args,
            define_macros=[*macros, ("KRAFT_MUTANTS", "1")] if has_mutants(source) else list(macros),
        )
        for module, source in sources().items()
    ]
    SHARED_SOURCE.parent.mkdir(parents=True, exist_ok=True)
    table.append(Extension(SHARED, [str(SHARED_SOURCE)], extra_compile_args=compile_args, extra_link_args=link_args,
                           define_macros=list(macros)))
    for extension in table:
        if extension.name == "kraft_native.base.build_info":
            extension.define_macros.append(("KRAFT_VERSION", f'"{version()}"'))
            extension.depends.append("kraft/_version.py")
        if extension.name == f"kraft_native.{OPENSSL}":
            extension.libraries += ["ssl", "crypto"]
            extension.define_macros.append(("KRAFT_OPENSSL", f'"{openssl_version()}"'))   # another one: compile again
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
        for path in [SHARED_SOURCE, *(source.with_suffix(".c") for source in sources().values())]:
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
            "annotation_typing": False,   # annotations are for the stubs; types of C are declared
            "auto_pickle": False,
            "embedsignature": False,
            "linetrace": switch("COVERAGE"),
        },
    )


# Processes that translate modules may import this file again.
if __name__ == "__main__":
    remove_orphans()
    remove_empty_archives()
    if openssl_version() is None and not switch("BUILT"):
        print(f"kraft: {WITHOUT}", file=sys.stderr)
    stubs.write()
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
