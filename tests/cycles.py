"""Objects that only a garbage collection would free."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collections() -> Iterator[None]:
    """Collect all garbage, then none until the end of the block."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def alive(*kinds: type) -> int:
    """Return the number of objects of these classes that are in memory."""
    return sum(isinstance(each, kinds) for each in gc.get_objects())
