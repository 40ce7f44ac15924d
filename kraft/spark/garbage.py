"""Python's collector in the workers of Spark."""

from __future__ import annotations

import gc
import sys
from typing import Final

WORKERS: Final = "pyspark.daemon"
"""The program that workers are forks of."""


def spare_imports() -> None:
    """Leaves what is loaded by now out of every later collection, once in a worker.

    A worker collects garbage after each task, and walks through all modules then: a tenth of a second, as long as it
    takes to read 128 MiB. Other processes, the user's for one, are left alone.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == WORKERS and gc.get_freeze_count() == 0:
        gc.freeze()
