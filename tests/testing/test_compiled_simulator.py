"""The simulator that `tools.compiled_simulator` compiles for long series of runs."""

from importlib import import_module
from inspect import getmembers, isclass

from tools.compiled_simulator import INTERPRETED, SIMULATOR, compiled_modules
from tools.tree import ROOT


def module_of(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def test_no_interpreted_class_inherits_from_a_compiled_one() -> None:
    """Mypyc refuses such a class when it is defined."""
    compiled = {module_of(path) for path in compiled_modules()}
    found = []
    for path in sorted((ROOT / "kraft" / "testing").rglob("*.py")):
        name = module_of(path.relative_to(ROOT).as_posix()).removesuffix(".__init__")
        if name not in compiled:
            found += [f"{name}.{kind.__name__}" for _, kind in getmembers(import_module(name), isclass)
                      if kind.__module__ == name and any(base.__module__ in compiled for base in kind.__mro__[1:])]
    assert found == []


def test_what_is_left_out_exists() -> None:
    for path in INTERPRETED:
        assert (ROOT / path).exists(), path
        assert path.rpartition("/")[0] in SIMULATOR
