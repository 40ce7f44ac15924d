"""The interpreter's garbage collector while modules are imported."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collections_off() -> Iterator[None]:
    """Keep the automatic collections off while modules are imported; afterwards they are as they were.

    What an import creates stays, so a collection would examine every object and free none.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
