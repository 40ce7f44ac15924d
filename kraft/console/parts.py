"""Part of a page: a value, or the reason why the cluster has no answer. A page shows all other parts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kraft_native.base.errors import KraftError

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Part(Generic[Value]):
    """A part of a page. Either `value` is set, or `problem` is the reason in words."""

    value: Value | None = None
    problem: str | None = None

    def otherwise(self, value: Value) -> Value:
        """Return the value, or the given one when there is no answer."""
        return value if self.value is None else self.value


def attempt(work: Callable[[], Value]) -> Part[Value]:
    """Return what `work` returns. A refusal, a lost connection and an API that the cluster lacks become the problem."""
    try:
        return Part(work())
    except (KraftError, LookupError) as error:
        return Part(problem=str(error) or type(error).__name__)
