"""Registration of `format("kraft")`: Spark imports every package called `pyspark_*` and uses its `DefaultSource`. The
rest is in `kraft.spark`."""

from typing import Any


def __getattr__(name: str) -> Any:
    # Import late, so that a program that never reads from kraft does not load it.
    if name == "DefaultSource":
        from kraft.spark.versions import default_source

        return default_source()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
