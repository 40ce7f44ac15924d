"""How a bug is put into code that knows nothing of it: names of modules and classes are bound to other functions, and
bound back."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, isfunction, signature
from typing import Any


class Patches:
    """What was changed, so that it can be undone, last first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: object, name: str, value: object) -> None:
        """Binds `owner.name`, owner being a module or a class, to something else, which can be called in the same way.

        Names move on, and a bug that is put where nobody looks, or that raises when it is called, would test nothing.
        """
        before = getattr(owner, name)
        if isfunction(before) and isfunction(value):
            _check_calls(before, value)
        self._bind(owner, name, value)

    def shadow(self, owner: type, name: str, value: property) -> None:
        """Binds a name of the class that so far its instances alone have."""
        assert not hasattr(owner, name), f"{owner} has {name}: put something in its place"
        self._bind(owner, name, value)

    def _bind(self, owner: object, name: str, value: object) -> None:
        is_own, before = name in vars(owner), vars(owner).get(name)
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before) if is_own else delattr(owner, name))

    def wrap(self, owner: object, name: str, around: Callable[[Any], Any]) -> None:
        """Binds it to what `around` makes of it."""
        self.put(owner, name, around(vars(owner)[name]))

    def entry(self, table: Any, key: object, value: object) -> None:
        """Changes one entry of a table."""
        before = table[key]
        table[key] = value
        self._undo.append(lambda: table.__setitem__(key, before))

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def _check_calls(before: Callable[..., object], value: Callable[..., object]) -> None:
    """Raises TypeError unless `value` takes all that `before` can be called with, and the least that it can."""
    parameters = signature(before).parameters.values()
    for given in (list(parameters), [each for each in parameters if each.default is Parameter.empty]):
        places = [each for each in given if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)]
        signature(value).bind(*places, **{each.name: each for each in given if each.kind is Parameter.KEYWORD_ONLY})


@dataclass(frozen=True, slots=True)
class Mutant:
    """`number`: in the list of real bugs (hazards B5), 0 for an unsafe order of writes and flushes, or a rule of the
    protocol that somebody left out. `origin`: who had it. `options`: of the runs that look for it, instead of what
    their seeds draw; only where any run would meet it too seldom."""

    name: str
    number: int
    origin: str
    text: str
    apply: Callable[[Patches], None]
    options: Mapping[str, int | bool]


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The bug is there inside the `with`."""
    patches = Patches()
    try:
        mutant.apply(patches)
        yield
    finally:
        patches.undo()


class Collection:
    """Mutants of one module: its decorator takes the function that puts one in, whose name is the mutant's and whose
    docstring says what is wrong."""

    def __init__(self) -> None:
        self.mutants: list[Mutant] = []

    def add(self, number: int, origin: str,
            **options: int | bool) -> Callable[[Callable[[Patches], None]], Callable[[Patches], None]]:
        def register(apply: Callable[[Patches], None]) -> Callable[[Patches], None]:
            name = getattr(apply, "__name__", "").replace("_", "-")
            self.mutants.append(Mutant(name, number, origin, (apply.__doc__ or "").strip(), apply, options))
            return apply

        return register
