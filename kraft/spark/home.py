"""A home for Spark on this machine whose Python workers start quickly.

Spark lets its workers import PySpark from `python/lib/pyspark.zip`, which has sources only. Each worker compiles them
again, for 0.8 s of processor time, and a micro-batch of a stream starts two or three workers. So this home has links to
the installed package, and a directory in place of that file. Modules imported from there are already compiled.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

# Files that workers write below the home must not end up in the package.
WORK: Final = "work"


def spark_home(cache: Path, package: Path) -> Path:
    """Return the home for the PySpark in `package`. Create it in `cache` when it is missing."""
    home = cache / f"spark-{hashlib.sha256(os.fsencode(package)).hexdigest()[:16]}"
    if not home.is_dir():
        draft = home.with_name(f"{home.name}.{os.getpid()}")
        make_home(draft, package)
        try:
            draft.rename(home)
        except OSError:      # another process created it meanwhile
            shutil.rmtree(draft)
    return home


def make_home(home: Path, package: Path) -> None:
    """Create links to everything in the package except the archive of sources."""
    archive = home / "python" / "lib" / "pyspark.zip"
    archive.mkdir(parents=True)
    (archive / "pyspark").symlink_to(package)
    for source, target in ((package, home), (package / "python", home / "python"),
                           (package / "python" / "lib", archive.parent)):
        for entry in source.iterdir():
            if entry.name != WORK and not (target / entry.name).exists():
                (target / entry.name).symlink_to(entry)
