"""The interpreter's garbage collector while modules are imported, or something is measured."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collections_off() -> Iterator[None]:
    """Keep the automatic collections off; afterwards they are as they were.

    What an import creates stays, so a collection would examine every object and free none.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
