"""Value classes that behave like frozen dataclasses at a third of their cost.

    @immutable
    class OffsetRange:
        start: int
        end: int

A node defines about sixty of them before it serves, so their creation is part of every start. The standard decorator
compiles six methods for each class; this one compiles only `__init__`.

Only the type checker enforces that a field is never set again: it treats these classes as frozen. Enforcing it at run
time, as a frozen dataclass does, doubles the time to create an instance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeVar, dataclass_transform, overload

Kind = TypeVar("Kind", bound=type)


@overload
def immutable(kind: Kind, /) -> Kind: ...
@overload
def immutable(*, kw_only: bool = False) -> Callable[[Kind], Kind]: ...


@dataclass_transform(frozen_default=True)
def immutable(kind: type | None = None, /, *, kw_only: bool = False) -> Any:
    """Create a dataclass with slots whose instances are compared, hashed and shown by their fields. Methods that the
    class defines itself are kept."""
    if kind is None:
        return lambda each: _made(each, kw_only=kw_only)
    return _made(kind, kw_only=False)


def is_immutable(kind: type) -> bool:
    return hasattr(kind, "__values__")


def _made(kind: type, *, kw_only: bool) -> Any:
    immutable_class: Any = dataclass(slots=True, eq=False, repr=False, kw_only=kw_only)(kind)
    names = tuple(name for name, field in immutable_class.__dataclass_fields__.items() if field.compare)
    immutable_class.__values__ = staticmethod(attrgetter(*names) if names else _nothing)
    for name, method in METHODS.items():
        if name not in kind.__dict__:
            setattr(immutable_class, name, method)
    return immutable_class


def _nothing(_self: object) -> tuple[()]:
    return ()


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__values__(self) == self.__values__(other)


def _hash(self: Any) -> int:
    return hash(self.__values__(self))


def _show(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__dataclass_fields__)
    return f"{self.__class__.__qualname__}({fields})"


METHODS: Final[dict[str, Callable[..., Any]]] = {"__eq__": _equal, "__hash__": _hash, "__repr__": _show}
