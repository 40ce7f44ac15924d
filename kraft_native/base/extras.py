"""Modules of the package's extras, imported when they are used."""

from importlib import import_module
from typing import Any


def extra_module(name: str, extra: str) -> Any:
    """Return the module `name`, which the extra `extra` installs. Raises `ModuleNotFoundError`, which says how to
    install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name != package:       # installed, but something that it needs is missing
            raise
        raise ModuleNotFoundError(f"{package} is not installed: pip install 'kraft[{extra}]'", name=package) from None
