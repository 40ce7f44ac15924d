"""Numbers of the command line: ASCII digits only. Python's `int` and `float` also accept `1_0`, ` 10` and the digits of
other scripts, and a typing error must not become a number.

Every numeric option has one of these types; `tests/cli/test_number_types.py` checks all of them.
"""

import re
from math import isfinite
from typing import Any, Final

import click

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|inf)")


def whole_number(text: str) -> int:
    """Return the number. Raises `ValueError` for any text that is not digits with at most a sign before them."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _check(form: re.Pattern[str], value: object, param: click.Parameter | None, ctx: click.Context | None) -> None:
    if isinstance(value, str) and not form.fullmatch(value):
        raise click.BadParameter(f"{value!r} is not a valid {'integer' if form is _WHOLE else 'number'}.", ctx, param)


def _finite(value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
    if not isfinite(value):
        raise click.BadParameter(f"{value} is no number.", ctx, param)
    return value


class Whole(click.types.IntParamType):
    """A whole number of any size."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        _check(_WHOLE, value, param, ctx)
        return super().convert(value, param, ctx)


class IntRange(click.IntRange):
    """A whole number within bounds."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        _check(_WHOLE, value, param, ctx)
        return super().convert(value, param, ctx)


class Number(click.types.FloatParamType):
    """A finite number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        _check(_NUMBER, value, param, ctx)
        return _finite(super().convert(value, param, ctx), param, ctx)


class FloatRange(click.FloatRange):
    """A finite number within bounds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        _check(_NUMBER, value, param, ctx)
        return _finite(super().convert(value, param, ctx), param, ctx)


WHOLE: Final = Whole()
NUMBER: Final = Number()
