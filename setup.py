"""Extensions of `kraft_native`, as a table. Everything else about the package is in pyproject.toml.

Switches, all environment variables, all off by default:
  KRAFT_DEBUG=1      expensive internal assertions on, no optimisation, debug symbols
  KRAFT_SANITIZE=1   AddressSanitizer and UndefinedBehaviorSanitizer (see `make sanitize`)
  KRAFT_COVERAGE=1   line tracing for Cython.Coverage
  KRAFT_ANNOTATE=1   write the annotated HTML of every module beside its source
  KRAFT_JOBS=N       how many compilers run at once (default: every processor)
"""

import os
import platform
import sys

from Cython.Build import cythonize
from setuptools import Extension, setup

# module -> C sources linked into it. A C source is linked once; other modules reach it by cimport.
MODULES: dict[str, list[str]] = {
    "errors": [],
    "crc": ["_c/crc32c.c", "_c/crc32c_table.c", "_c/crc32c_x86.c", "_c/crc32c_arm.c"],
    "fileio": ["_c/fileio.c", "_c/window.c"],
    "faults": ["_c/faults.c"],
    "buffer": [],
    "batch": [],
    "codecs": [],
    "records": [],
    "control": [],
    "validate": [],
    "columns": [],
    "checkpoints": [],
    "index": [],
    "txnindex": [],
    "epochs": [],
    "producers": [],
    "segment": [],
    "flusher": ["_c/flusher.c"],
    "live": [],
    "recovery": [],
    "log": [],
    "cleaner": [],
    "reader": [],
}
MODULES = {name: sources for name, sources in MODULES.items() if os.path.exists(f"kraft_native/{name}.pyx")}


def switch(name: str) -> bool:
    return os.environ.get(f"KRAFT_{name}", "0") not in ("", "0")


def flags() -> tuple[list[str], list[str], list[tuple[str, str | None]]]:
    """Compiler flags, linker flags and macros for the switches that are set."""
    compile_args = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-missing-field-initializers"]
    link_args: list[str] = []
    macros: list[tuple[str, str | None]] = []
    if switch("DEBUG"):
        compile_args += ["-O0", "-g"]
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
    return [
        Extension(
            f"kraft_native.{module}",
            [f"kraft_native/{module}.pyx", *(f"kraft_native/{source}" for source in sources)],
            include_dirs=["kraft_native/_c"],
            depends=headers,
            extra_compile_args=compile_args,
            extra_link_args=link_args,
            define_macros=macros,
        )
        for module, sources in MODULES.items()
    ]


JOBS = int(os.environ.get("KRAFT_JOBS", os.cpu_count() or 1))

setup(
    ext_modules=cythonize(
        extensions(),
        nthreads=JOBS,
        annotate=switch("ANNOTATE"),
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "binding": True,
            "auto_pickle": False,
            "embedsignature": False,
            "linetrace": switch("COVERAGE"),
        },
    ),
    options={"build_ext": {"parallel": JOBS}},
)
