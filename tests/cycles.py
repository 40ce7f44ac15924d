"""Objects that only a garbage collection would free."""

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType

THAWED: list[str] = []
"""Has an element when a block has thawed what was frozen: every later collection examines all tests and modules."""


@contextmanager
def without_collections() -> Iterator[None]:
    """Collect all garbage, then none until the end of the block, unless it calls `garbage_of`. That examines only what
    is made in the block: everything else in a process that runs many tests takes long."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        THAWED.append("once")
        if was_enabled:
            gc.enable()


def alive(*kinds: type) -> int:
    """Return the number of objects of these classes that were made since the begin of the block, and are alive."""
    return sum(isinstance(each, kinds) for each in gc.get_objects())


def garbage_of(*packages: str) -> Counter[str]:
    """Collect garbage. Returns what of it the packages made: their functions, and the objects of their classes."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        made = ((each if isinstance(each, FunctionType) else type(each)) for each in gc.garbage)
        return Counter(f"{each.__module__}.{each.__qualname__}" for each in made
                       if str(each.__module__).split(".")[0] in packages)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.collect()
