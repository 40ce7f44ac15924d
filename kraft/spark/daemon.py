"""`spark.python.daemon.module` of our sessions: the process that Spark's Python workers are forks of, with everything
loaded that a query needs.

Spark starts one for each kind of worker, and forks a worker of two kinds anew for every query. Each would load PySpark,
Arrow and kraft again: 0.24 seconds of Python's time a query, of which this daemon leaves 0.07.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Final

from pyspark import daemon

LOOKUP: Final = "pyspark.sql.worker.lookup_data_sources"
"""Runs once in a session and needs little."""
PACKAGES: Final = ("pandas", "kraft.spark.source")


def load(worker_module: str) -> None:
    """What workers of this kind load. What is missing is left to the worker, whose error reaches the user."""
    for name in (worker_module, *(() if worker_module == LOOKUP else PACKAGES)):
        try:
            importlib.import_module(name)
        except ImportError:
            return


def main() -> None:
    load(sys.argv[1])
    gc.freeze()                        # a collection in a worker would walk through, and copy, pages that all share
    daemon.manager()


if __name__ == "__main__":
    main()
