"""Garbage collection in the workers of Spark."""

from __future__ import annotations

import gc
import sys
from typing import Final

WORKERS: Final = "pyspark.daemon"
"""Program from which workers are forked."""


def spare_imports() -> None:
    """Exclude the objects loaded so far from later collections, once in a worker.

    A worker collects garbage after each task, and then walks through all modules. That takes a tenth of a second, as
    long as reading 128 MiB. Other processes, such as the user's, are not changed.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == WORKERS and gc.get_freeze_count() == 0:
        gc.freeze()
