"""Spark sessions that are ready for kraft: a Java is found, the workers find the packages, and the settings fit.

On a single machine Spark uses as many threads as there are processors. It starts its workers from compiled packages,
sends batches over Unix sockets, keeps times in UTC and serves no web page. Values in `settings` or in
`spark-defaults.conf` override these.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraft.spark.errors import SparkUnavailableError
from kraft.spark.home import spark_home
from kraft.spark.java import cache_directory, java_home
from kraft.spark.versions import check_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER: Final = "local[*]"
PACKAGES: Final = Path(__file__).resolve().parents[2]

SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A driver that was killed while it wrote its first batch's offsets leaves a draft of them. Spark would refuse to
    # begin with that, indefinitely.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
}

# These halve the usual time until the first job is done; long jobs then run slower.
QUICK_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


def session(app_name: str = "kraft", *, master: str | None = None, quick: bool = False,
            settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return the running session with these settings, or a new one.

    `master` is `local[*]` unless given here or in `$MASTER`. `quick` is for short jobs: Java compiles less and starts
    sooner. Raise `SparkUnavailableError` when PySpark or a Java is missing or too old, or PySpark is newer than kraft
    supports.
    """
    builder_of = _pyspark()
    master = master or os.environ.get("MASTER") or MASTER
    wanted = {**SETTINGS, "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    if master.startswith("local"):
        # Only here: elsewhere an executor's daemon starts before Python can find the archive with kraft.
        wanted["spark.python.daemon.module"] = "kraft.spark.daemon"
        wanted["spark.sql.shuffle.partitions"] = str(2 * len(os.sched_getaffinity(0)))
    if quick:
        wanted["spark.driver.extraJavaOptions"] = QUICK_JAVA_OPTIONS
    builder = builder_of.builder.appName(app_name).master(master)
    for name, value in {**wanted, **(settings or {})}.items():
        builder = builder.config(name, value)
    with _environment({"JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable,
                       "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": _python_path(), **_home(master)}):
        found: SparkSession = builder.getOrCreate()
    return found


def _pyspark() -> type[SparkSession]:
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if importlib.util.find_spec(name) is None]
    if missing:
        raise SparkUnavailableError(f"{', '.join(missing)}: not installed; `pip install kraft[spark]` brings what "
                                    "Spark needs")
    from pyspark.sql import SparkSession

    check_pyspark()
    return SparkSession


def _home(master: str) -> dict[str, str]:
    """Return `SPARK_HOME`: a home of our own if all processes run on this machine, nothing otherwise or if it is
    given."""
    if not master.startswith("local") or "SPARK_HOME" in os.environ:
        return {}
    import pyspark

    return {"SPARK_HOME": str(spark_home(cache_directory(), Path(pyspark.__file__).resolve().parent))}


def _python_path() -> str:
    """Return `PYTHONPATH` for Spark's worker processes. They do not see this program's `sys.path`. When they search for
    data sources, they do not see packages installed as links into a source tree either."""
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join([str(PACKAGES), given] if given else [str(PACKAGES)])


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """Set these variables while Spark starts. Those that select the Python do not replace given ones."""
    before = {name: os.environ.get(name) for name in wanted}
    for name, value in wanted.items():
        if not name.startswith("PYSPARK_") or before[name] is None:
            os.environ[name] = value
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old
