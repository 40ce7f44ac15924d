"""Compiled extension modules, kept by the content that they are made of: `setup.py` builds with it.

A module is compiled only if its C sources, headers, flags, compiler and Python are a combination that was never
compiled before. Time stamps play no part: a changed branch, a touched file or a fresh checkout with the same cache
compiles nothing.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import ClassVar

from setuptools import Extension
from setuptools.command.build_ext import build_ext

KEPT_BYTES_MAX = 256 << 20


@cache
def toolchain() -> str:
    """The compiler, as it identifies itself, its flags from outside, and the Python that the modules are for."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    done = subprocess.run([*shlex.split(compiler), "--version"], stdout=subprocess.PIPE, text=True, check=False)
    outside = [os.environ.get(name) for name in ("CFLAGS", "CPPFLAGS", "LDFLAGS", "LDSHARED")]
    settings = sysconfig.get_config_vars("SOABI", "CFLAGS", "CCSHARED", "LDSHARED")
    return repr((compiler, done.stdout, outside, sys.version, settings))


def key(extension: Extension) -> str:
    """Name under which a module is kept: a digest of everything that its compilation reads."""
    arguments = (extension.name, extension.define_macros, extension.include_dirs, extension.extra_compile_args,
                 extension.extra_link_args)
    digest = hashlib.sha256(repr((toolchain(), arguments)).encode())
    for path in [*extension.sources, *sorted(path for path in map(str, extension.depends) if path.endswith(".h"))]:
        content = Path(path).read_bytes()
        digest.update(f"\0{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def keep(made: Path, kept: Path) -> None:
    """Copies a file so that nobody sees half of it."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as part:
        shutil.copyfile(made, part.name)
    shutil.copymode(made, part.name)
    os.replace(part.name, kept)


def prune(directory: Path, bytes_max: int = KEPT_BYTES_MAX) -> None:
    """Removes the modules that were unused the longest, down to `bytes_max`."""
    found = sorted(((path.stat(), path) for path in directory.glob("*.so")), key=lambda each: -each[0].st_mtime_ns)
    total = 0
    for status, path in found:
        total += status.st_size
        if total > bytes_max:
            path.unlink(missing_ok=True)


class CachedBuild(build_ext):  # type: ignore[misc]
    """`build_ext` that compiles the longest modules first, and only those that `directory` does not hold."""

    directory: ClassVar[Path] = Path("build/cache/modules")

    def build_extensions(self) -> None:
        """Builds all extensions. The largest source goes first: a long one at the end would run alone."""
        self.extensions.sort(key=lambda extension: -sum(os.path.getsize(path) for path in extension.sources))
        super().build_extensions()
        if self.directory.is_dir():
            prune(self.directory)

    def build_extension(self, ext: Extension) -> None:
        """Compiles one module, or copies the one that was made of the same content."""
        kept = self.directory / f"{key(ext)}.so"
        made = Path(self.get_ext_fullpath(ext.name))
        if kept.exists():
            os.utime(kept)
            if not made.exists() or made.read_bytes() != kept.read_bytes():
                keep(kept, made)
            return
        made.unlink(missing_ok=True)  # a newer one of other content would count as up to date
        super().build_extension(ext)
        keep(made, kept)
