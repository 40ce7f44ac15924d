"""Classes that behave like dataclasses with slots, at a tenth of their cost.

    @immutable
    class OffsetRange:
        start: int
        end: int

    @mutable
    class Session:
        deadline_ms: int
        pending: int = 0

A node defines about two hundred of them before it serves, so their creation is part of every start. The standard
decorator compiles up to six methods for each class. Here a class compiles `__init__` when its first instance is
created; the other methods are common to all classes. Most of these classes have no instance while a node starts.

Only the type checker enforces that a field of an immutable class is never set again. Enforcing it at run time, as a
frozen dataclass does, doubles the time to create an instance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Final, TypeVar, dataclass_transform, get_origin, overload

Kind = TypeVar("Kind", bound=type)


@overload
def immutable(kind: Kind, /) -> Kind: ...
@overload
def immutable(*, kw_only: bool = False) -> Callable[[Kind], Kind]: ...


@dataclass_transform(frozen_default=True)
def immutable(kind: type | None = None, /, *, kw_only: bool = False) -> Any:
    """Create a class with slots whose instances are compared, hashed and shown by their fields. Methods that the class
    defines itself are kept. `dataclasses.field`, `fields` and `replace` work as with dataclasses."""
    if kind is None:
        return lambda each: _made(each, _IMMUTABLE, kw_only=kw_only)
    return _made(kind, _IMMUTABLE, kw_only=False)


@overload
def mutable(kind: Kind, /) -> Kind: ...
@overload
def mutable(*, eq: bool = True, kw_only: bool = False) -> Callable[[Kind], Kind]: ...


@dataclass_transform()
def mutable(kind: type | None = None, /, *, eq: bool = True, kw_only: bool = False) -> Any:
    """Create a class with slots whose instances are compared and shown by their fields, and cannot be hashed; with
    `eq=False` they are compared and hashed by their identity."""
    if kind is None:
        return lambda each: _made(each, _BY_FIELDS if eq else _BY_IDENTITY, kw_only=kw_only)
    return _made(kind, _BY_FIELDS, kw_only=False)


def is_immutable(kind: type) -> bool:
    return hasattr(kind, "__immutable__")


def _made(kind: type, methods: Mapping[str, Any], *, kw_only: bool) -> Any:
    """Return a class with slots like `kind`, which is not used further, and these methods unless it has its own."""
    body = dict(kind.__dict__)
    names = [name for name, annotation in body.get("__annotations__", {}).items() if not _is_of_class(annotation)]
    late = _Late({name: body.pop(name) for name in names if name in body}, kw_only=kw_only)
    inherited = {name for base in kind.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body["__slots__"] = tuple(name for name in names if name not in inherited)
    body["__init__"] = late.first_init()
    for name in _PARTS:
        body[name] = _Part(late, name)
    for name, method in methods.items():
        body.setdefault(name, method)
    late.owner = made = type(kind)(kind.__name__, kind.__bases__, body)
    made.__qualname__ = kind.__qualname__
    return made


def _is_of_class(annotation: object) -> bool:
    """Return whether an annotation says that the attribute belongs to the class and is no field."""
    return (annotation.startswith("ClassVar") if isinstance(annotation, str)
            else annotation is ClassVar or get_origin(annotation) is ClassVar)


class _Late:
    """Creates `__init__` and the parts of a class when one of them is first needed."""

    __slots__ = ("_defaults", "_kw_only", "owner")

    def __init__(self, defaults: dict[str, Any], *, kw_only: bool) -> None:
        self._defaults = defaults
        self._kw_only = kw_only
        self.owner: Any = None

    def first_init(self) -> Callable[..., None]:
        """Return the `__init__` that the class has until it has an instance."""
        def init(instance: object, /, *args: Any, **named: Any) -> None:
            self.create()
            self.owner.__init__(instance, *args, **named)

        return init

    def create(self) -> None:
        """Create `__init__` and the parts."""
        owner = self.owner
        template: Any = dataclass(eq=False, repr=False, kw_only=self._kw_only)(type(owner)(
            owner.__name__, owner.__bases__,
            {name: owner.__dict__[name] for name in _COPIED if name in owner.__dict__}
            | {"__qualname__": owner.__qualname__, "__doc__": owner.__doc__ or owner.__name__, **self._defaults}))
        names = tuple(name for name, field in template.__dataclass_fields__.items() if field.compare)
        template.__values__ = staticmethod(attrgetter(*names) if names else _nothing)
        for name in ("__init__", *_PARTS):
            setattr(owner, name, template.__dict__[name])


class _Part:
    """One part of a class, until it exists."""

    __slots__ = ("_late", "_name")

    def __init__(self, late: _Late, name: str) -> None:
        self._late = late
        self._name = name

    def __get__(self, instance: object, kind: type | None = None) -> Any:
        self._late.create()
        return getattr(self._late.owner, self._name)


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


_IMMUTABLE: Final[Mapping[str, Any]] = {"__eq__": _equal, "__hash__": _hash, "__repr__": _show, "__immutable__": True}
_BY_FIELDS: Final[Mapping[str, Any]] = {"__eq__": _equal, "__hash__": None, "__repr__": _show}
_BY_IDENTITY: Final[Mapping[str, Any]] = {"__repr__": _show}
_PARTS: Final = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__values__")
_COPIED: Final = ("__annotations__", "__module__", "__orig_bases__", "__parameters__", "__post_init__")
