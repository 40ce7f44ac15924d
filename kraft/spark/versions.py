"""Supported versions of PySpark, and the check that the driver and the tasks of a query run the same kraft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraft._version import __version__
from kraft.spark.errors import SparkUnavailableError, VersionMismatchError

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSource

SPARK_MIN: Final = (4, 3)
SPARK_END: Final = (4, 4)


def check_pyspark() -> None:
    """Raise `SparkUnavailableError` for a PySpark that is too old, or newer than kraft supports."""
    import pyspark

    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if not SPARK_MIN <= version < SPARK_END:
        raise SparkUnavailableError(f"PySpark {pyspark.__version__} is too {'old' if version < SPARK_MIN else 'new'}: "
                                    "its Python data sources may lack what kraft uses, or have it otherwise; "
                                    f"{'.'.join(map(str, SPARK_MIN))} or newer, and older than "
                                    f"{'.'.join(map(str, SPARK_END))}, is needed")


def check_kraft(driver: str) -> None:
    """Raise `VersionMismatchError` when a task runs another kraft than its driver."""
    if driver != __version__:
        raise VersionMismatchError(f"kraft is version {__version__} where this task runs, and {driver} in the driver: "
                                   "install the same there, or create the archive of `kraft spark bundle` again")


def default_source() -> type[DataSource]:
    """Return the source that Spark gets for `format("kraft")`.

    If PySpark does not fit, or a dependency is missing, return a source that raises the reason when it is used. Spark
    queries every package that may have a source, and would fail for all of them if ours raised here.
    """
    try:
        check_pyspark()
        from kraft.spark.source import KraftSource
    except SparkUnavailableError as error:
        return _refusing(error)
    except ImportError as error:
        return _refusing(SparkUnavailableError(f"{error}; `pip install kraft[spark]` brings what Spark needs"))
    return KraftSource


def _refusing(reason: SparkUnavailableError) -> type[DataSource]:
    from pyspark.sql.datasource import DataSource

    class RefusingSource(DataSource):
        """A source that raises the reason why it cannot be used here."""

        @classmethod
        def name(cls) -> str:
            return "kraft"

        def __init__(self, options: dict[str, str]) -> None:  # noqa: ARG002 - none helps
            raise reason

    return RefusingSource
