"""Patches that put a bug into unchanged code: names of modules and classes are bound to other functions, and
restored. A build in place of the compiled code has its bugs already; one of them is switched on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, isfunction, signature
from typing import Any

from kraft_native.base.mutants import plant


class Patches:
    """Changes that can be undone, the last one first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: object, name: str, value: object) -> None:
        """Bind `owner.name` to a value that can be called in the same way. The owner is a module or a class.

        The check matters because names change. A bug in unused code, or one that raises when it is called, would test
        nothing.
        """
        before = getattr(owner, name)
        if isfunction(before) and isfunction(value):
            _check_calls(before, value)
        self._bind(owner, name, value)

    def shadow(self, owner: type, name: str, value: property) -> None:
        """Bind a name of the class that only its instances have so far."""
        assert not hasattr(owner, name), f"{owner} has {name}: put something in its place"
        self._bind(owner, name, value)

    def _bind(self, owner: object, name: str, value: object) -> None:
        is_own, before = name in vars(owner), vars(owner).get(name)
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before) if is_own else delattr(owner, name))

    def wrap(self, owner: object, name: str, around: Callable[[Any], Any]) -> None:
        """Bind the name to the result of `around` for its current value."""
        self.put(owner, name, around(vars(owner)[name]))

    def entry(self, table: Any, key: object, value: object) -> None:
        """Change one entry of a table."""
        before = table[key]
        table[key] = value
        self._undo.append(lambda: table.__setitem__(key, before))

    def plant(self, name: str) -> None:
        """Plant a bug of the compiled code (`kraft_native.base.mutants`)."""
        plant(name)
        self._undo.append(lambda: plant(None))

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def _check_calls(before: Callable[..., object], value: Callable[..., object]) -> None:
    """Raise TypeError unless `value` accepts both the longest and the shortest argument list of `before`."""
    parameters = signature(before).parameters.values()
    for given in (list(parameters), [each for each in parameters if each.default is Parameter.empty]):
        places = [each for each in given if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
        signature(value).bind(*places, **{each.name: each for each in given if each.kind is Parameter.KEYWORD_ONLY})


@dataclass(frozen=True, slots=True)
class Mutant:
    """A known bug.

    `number`: its number in the list of real bugs (hazards B5). It is 0 for an unsafe order of writes and flushes, or
    for a missing rule of the protocol. `origin`: the project that had it. `options`: override the drawn options of the
    runs that search for it; set only for a bug that ordinary runs would show too seldom.
    """

    name: str
    number: int
    origin: str
    text: str
    apply: Callable[[Patches], None]
    options: Mapping[str, int | bool]


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Apply the bug inside the `with` block."""
    patches = Patches()
    try:
        mutant.apply(patches)
        yield
    finally:
        patches.undo()


class Collection:
    """Mutants of one module. Its decorator registers a function that applies a bug. The function's name is the mutant's
    name, and its docstring describes the bug."""

    def __init__(self) -> None:
        self.mutants: list[Mutant] = []

    def add(self, number: int, origin: str,
            **options: int | bool) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
        def register(apply: Callable[[Patches], None]) -> Callable[[Patches], None]:
            self.mutants.append(Mutant(_name_of(apply), number, origin, (apply.__doc__ or "").strip(), apply, options))
            return apply

        return register

    def compiled(self, number: int, origin: str,
                 **options: int | bool) -> Callable[[Callable[[], None]], Callable[[], None]]:
        """Like `add`, for a bug of the compiled code: the decorated function only names and describes it."""
        def register(described: Callable[[], None]) -> Callable[[], None]:
            name = _name_of(described)
            self.mutants.append(Mutant(name, number, origin, (described.__doc__ or "").strip(),
                                       lambda patches: patches.plant(name), options))
            return described

        return register


def _name_of(function: Callable[..., None]) -> str:
    return getattr(function, "__name__", "").replace("_", "-")
