"""An archive of this package for executors on which it is not installed: `kraft spark bundle`."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import kraft_native
from kraft.spark.sessions import PACKAGES

NAMES: Final = ("kraft", "kraft_native", "pyspark_kraft")
SUFFIXES: Final = (".py", ".so", ".json", ".txt")
UNPACKED: Final = "kraftenv"

# Zip times begin in 1980. A fixed time makes the same archive of the same files.
TIME: Final = (1980, 1, 1, 0, 0, 0)


def write_bundle(path: Path) -> int:
    """Write the archive; return its size in bytes. It runs on machines of this kind with the same Python version and
    the other packages that kraft needs."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in _files():
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, source.read_bytes())
    return path.stat().st_size


def bundle_settings(path: Path) -> dict[str, str]:
    """Return the settings of Spark with which executors unpack the archive and find its packages."""
    return {"spark.archives": f"{path.resolve()}#{UNPACKED}", "spark.executorEnv.PYTHONPATH": f"./{UNPACKED}"}


def _files() -> Iterator[tuple[str, Path]]:
    roots = {"kraft_native": Path(kraft_native.__file__).parent}
    for name in NAMES:
        root = roots.get(name, PACKAGES / name)
        for source in sorted(root.rglob("*")):
            if source.suffix in SUFFIXES and "__pycache__" not in source.parts:
                yield f"{name}/{source.relative_to(root).as_posix()}", source
