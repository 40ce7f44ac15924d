"""`kraft.errors` has every exception of the engine, also those to come."""

import subprocess
import sys

from kraft import errors
from kraft_native.base import errors as native
from tools.tree import ROOT


def test_every_exception_exists() -> None:
    defined = {name for name, value in vars(native).items() if isinstance(value, type)
               and issubclass(value, Exception) and value.__module__ == native.__name__}
    assert defined == set(errors.__all__) - {"BY_CODE"}
    assert all(getattr(errors, name) is getattr(native, name) for name in errors.__all__)


def test_it_is_a_module() -> None:
    program = ("from kraft.errors import KraftError, LogLockedError\nimport kraft\nimport kraft.errors as found\n"
               "assert kraft.errors is found")
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert ended.returncode == 0
