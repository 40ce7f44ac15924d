"""`spark.python.daemon.module` of our sessions: the process from which Spark forks its Python workers. It has loaded
all modules that a query needs.

Spark starts one daemon for each kind of worker, and for every query forks a new worker of two kinds. Each worker would
load PySpark, Arrow and kraft again. That is 0.24 seconds of Python's time per query; with this daemon 0.07 remain.
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Final

from pyspark import daemon

LOOKUP: Final = "pyspark.sql.worker.lookup_data_sources"
"""The worker that runs once in a session and needs few modules."""
PACKAGES: Final = ("pandas", "kraft.spark.source")


def load(worker_module: str) -> None:
    """Load the modules of this kind of worker. A missing module is left to the worker, whose error reaches the user."""
    for name in (worker_module, *(() if worker_module == LOOKUP else PACKAGES)):
        try:
            importlib.import_module(name)
        except ImportError:
            return


def main() -> None:
    load(sys.argv[1])
    gc.freeze()                        # else a collection in a worker would walk through, and copy, shared pages
    daemon.manager()


if __name__ == "__main__":
    main()
