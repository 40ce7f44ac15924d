"""Errors in a response: its own, and those of everything in it that has an error code."""

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, get_args

from kraft.protocol.message import Struct


class _Plan(NamedTuple):
    """Fields of a struct that hold codes, and fields that lead to structs with codes."""

    codes: tuple[str, ...]
    inside: tuple[str, ...]


STEP: Final = 64
_PLANS: Final[dict[type[Struct], _Plan]] = {}


def count_errors(response: Struct, counts: Counter[int]) -> Generator[None, None, None]:
    """Add every error code of `response` that is not 0 to `counts`, in steps."""
    plan = _plan_of(type(response))
    for name in plan.codes:
        if code := getattr(response, name):
            counts[code] += 1
    for name in plan.inside:
        value = getattr(response, name)
        if isinstance(value, Struct):
            yield from count_errors(value, counts)
        elif value:
            yield from _count_all(value, counts)


def _count_all(structs: Sequence[Struct], counts: Counter[int]) -> Generator[None, None, None]:
    plan = _plan_of(type(structs[0]))
    for start in range(0, len(structs), STEP):
        for each in structs[start:start + STEP]:
            if plan.inside:
                yield from count_errors(each, counts)
                continue
            for name in plan.codes:
                if code := getattr(each, name):
                    counts[code] += 1
        yield


def _plan_of(kind: type[Struct]) -> _Plan:
    return _PLANS.get(kind) or _plan(kind)


def _plan(kind: type[Struct]) -> _Plan:
    inside = []
    for name, annotation in kind.__init__.__annotations__.items():
        plans = [_plan(struct) for struct in _structs(annotation)]
        if any(plan.codes or plan.inside for plan in plans):
            inside.append(name)
    codes = tuple(name for name in kind.__slots__ if name.endswith("error_code"))
    return _PLANS.setdefault(kind, _Plan(codes, tuple(inside)))


def _structs(annotation: Any) -> list[type[Struct]]:
    """Return the struct classes in a type."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return [annotation]
    return [found for argument in get_args(annotation) for found in _structs(argument)]
