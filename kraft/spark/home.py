"""A home for Spark on this machine whose Python workers start quickly.

Spark lets its workers import PySpark from `python/lib/pyspark.zip`, which has sources only: each of them compiles these
anew, 0.8 s of processor time, and a micro-batch of a stream starts two or three. So a home is made of links to the
installed package, with a directory in the place of that file: what is imported from there has been compiled.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

# What its workers write below the home is not to lie in the package.
WORK: Final = "work"


def spark_home(cache: Path, package: Path) -> Path:
    """The home for the PySpark in `package`, made in `cache` when it is missing."""
    home = cache / f"spark-{hashlib.sha256(os.fsencode(package)).hexdigest()[:16]}"
    if not home.is_dir():
        draft = home.with_name(f"{home.name}.{os.getpid()}")
        make_home(draft, package)
        try:
            draft.rename(home)
        except OSError:      # another process made it meanwhile
            shutil.rmtree(draft)
    return home


def make_home(home: Path, package: Path) -> None:
    """Links to everything in the package but the archive of sources."""
    archive = home / "python" / "lib" / "pyspark.zip"
    archive.mkdir(parents=True)
    (archive / "pyspark").symlink_to(package)
    for source, target in ((package, home), (package / "python", home / "python"),
                           (package / "python" / "lib", archive.parent)):
        for entry in source.iterdir():
            if entry.name != WORK and not (target / entry.name).exists():
                (target / entry.name).symlink_to(entry)
