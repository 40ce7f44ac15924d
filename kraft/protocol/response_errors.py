"""Which errors a response tells: of itself, and of everything in it that has a code of its own."""

from collections import Counter
from typing import Any, Final, NamedTuple, get_args

from kraft.protocol.message import Struct


class _Plan(NamedTuple):
    """Where a struct has codes, and which of its fields lead to structs that have some."""

    codes: tuple[str, ...]
    inside: tuple[str, ...]


_PLANS: Final[dict[type[Struct], _Plan]] = {}


def count_errors(response: Struct, counts: Counter[int]) -> None:
    """Adds every error code of `response` that is not 0 to `counts`."""
    plan = _PLANS.get(type(response)) or _plan(type(response))
    for name in plan.codes:
        if code := getattr(response, name):
            counts[code] += 1
    for name in plan.inside:
        value = getattr(response, name)
        if isinstance(value, Struct):
            count_errors(value, counts)
        elif value:
            for each in value:
                count_errors(each, counts)


def _plan(kind: type[Struct]) -> _Plan:
    inside = []
    for name, annotation in kind.__init__.__annotations__.items():
        plans = [_plan(struct) for struct in _structs(annotation)]
        if any(plan.codes or plan.inside for plan in plans):
            inside.append(name)
    codes = tuple(name for name in kind.__slots__ if name.endswith("error_code"))
    return _PLANS.setdefault(kind, _Plan(codes, tuple(inside)))


def _structs(annotation: Any) -> list[type[Struct]]:
    """The struct classes in a type."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return [annotation]
    return [found for argument in get_args(annotation) for found in _structs(argument)]
