"""Work in steps: a generator that pauses after each part of bounded length, so that its driver can do other work."""

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")


def finish(steps: Generator[object, None, Result]) -> Result:
    """Do all of the work now, and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
