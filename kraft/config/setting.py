"""Setting: its type, its range, and the conversion of its text.

The tables in `settings.json` give types and ranges in Kafka's own notation (`[0,...]`, `[1,...,9] or -1`, `[compact,
delete]`); this file interprets them.
"""

import re
from collections.abc import Callable
from math import isfinite
from typing import Final

from kraft.config.errors import InvalidConfigError
from kraft.structs import immutable

Value = bool | int | float | str | list[str] | None

INTEGER_RANGES: Final = {
    "short": (-(1 << 15), (1 << 15) - 1),
    "int": (-(1 << 31), (1 << 31) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
}
DIGITS_MAX: Final = 100
UNKNOWN: Final = "unknown"
"""Type of a setting that is in no table."""
SHOWN_MAX: Final = 100
"""Number of characters of a value that a message repeats."""
_BLANKS: Final = "".join(map(chr, range(0x21)))
"""Characters that Java's `String.trim` removes."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BOUNDS = re.compile(r"\[(?P<low>-?[\d.]+),\.\.\.(?:,(?P<high>-?[\d.]+))?\](?: or (?P<also>-?\d+))?")
_WORDS = re.compile(r"(?P<any_case>\(case insensitive\) )?\[(?P<words>[^.\[\]]+)\]")
_THROTTLED = re.compile(r"\*|[0-9]{1,10}:[0-9]{1,10}")
_HOST_LIMIT = re.compile(r"\s*[^\s,]+:[0-9]{1,10}\s*")
_DURATION = re.compile(r"by_duration:-?P(?=.)(\d+D)?(T(?=.)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?", re.IGNORECASE)


@immutable
class Setting:
    """One line of the tables.

    - `default` is in the setting's type.
    - `synonyms` are the broker settings that a topic's or group's setting falls back to, first to last, each with the
      factor from its unit to this one's.
    - `update` is the scope in which it may be changed while the node runs: "cluster-wide", "per-broker", or "" when it
      is read at the start only.
    """

    name: str
    type: str
    default: Value
    range: str
    importance: str
    update: str
    synonyms: tuple[tuple[str, int], ...]
    internal: bool
    documentation: str
    refused: tuple[int, ...] = ()
    """Values within the range that are refused nevertheless."""
    feeds: "tuple[tuple[Setting, int], ...]" = ()
    """Topic settings that fall back to this one, each with the factor to its unit: their ranges hold too."""

    @property
    def sensitive(self) -> bool:
        return self.type in ("password", UNKNOWN)

    def parse(self, text: str) -> Value:
        """Return the value that `text` means. Raise `InvalidConfigError` that names setting, text and what is
        allowed."""
        value = _PARSERS[self.type](self, text.strip(_BLANKS))
        self._check_range(value)
        if isinstance(value, int) and not isinstance(value, bool):
            if value in self.refused:
                raise self.refuse(value, "is not allowed")
            for topic, factor in self.feeds:
                if not topic.allows(topic.inherited(value, factor)):
                    raise self.refuse(value, f"is outside the range of the topic setting {topic.name}, {topic.range}")
        return value

    def inherited(self, value: Value, factor: int) -> Value:
        """Return this topic setting's value for a broker setting's, one unit of which is `factor` units of this one.
        Any value below 0 means no limit, and is not scaled."""
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        if value >= 0:
            return value * factor
        return -1 if self.range.startswith("[-1,") else value

    def allows(self, value: Value) -> bool:
        """Return whether the value, which has the right type, is within the range."""
        try:
            self._check_range(value)
        except InvalidConfigError:
            return False
        return True

    def format(self, value: Value) -> str | None:
        """Return the text that Kafka shows for `value`; None stays None."""
        match value:
            case None:
                return None
            case bool():
                return "true" if value else "false"
            case list():
                return ",".join(value)
            case float():
                return _java_double(value)
            case _:
                return str(value)

    def refuse(self, text: object, why: str) -> InvalidConfigError:
        shown = "[hidden]" if self.sensitive else shortened(repr(text))
        return InvalidConfigError(f"{self.name}: {shown} {why}")

    def _check_range(self, value: Value) -> None:
        if self.name == "max.connections.per.ip.overrides":
            self._check_host_limits(str(value or ""))
            return
        if not self.range or value is None:
            return
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self._check_number(value)
        elif self.range in ("non-null string", "non-empty string", "non-empty list"):
            if not value and self.range != "non-null string":
                raise self.refuse(value, "may not be empty")
        elif self.name.endswith("throttled.replicas"):
            self._check_throttled(value)
        elif self.name == "share.auto.offset.reset":
            if value not in ("latest", "earliest") and not _DURATION.fullmatch(str(value)):
                raise self.refuse(value, "is not latest, earliest or by_duration:PnDTnHnMn.nS")
        elif words := _WORDS.fullmatch(self.range):
            self._check_words(value, words)

    def _check_number(self, value: float) -> None:
        bounds = _BOUNDS.fullmatch(self.range)
        assert bounds is not None, f"{self.name}: the table's range {self.range} is not understood"
        if bounds["also"] is not None and value == int(bounds["also"]):
            return
        if value < float(bounds["low"]) or (bounds["high"] is not None and value > float(bounds["high"])):
            raise self.refuse(value, f"is not in {self.range}")

    def _check_words(self, value: Value, words: re.Match[str]) -> None:
        allowed = words["words"].split(", ")
        for word in value if isinstance(value, list) else [str(value)]:
            found = word.upper() in map(str.upper, allowed) if words["any_case"] else word in allowed
            if not found:
                raise self.refuse(word, f"is not one of {', '.join(allowed)}")
        if isinstance(value, list) and len(set(value)) != len(value):
            raise self.refuse(",".join(value), "names a word twice")

    def _check_throttled(self, value: Value) -> None:
        parts = value if isinstance(value, list) else [str(value)]
        if any(not _THROTTLED.fullmatch(part) for part in parts) or ("*" in parts and len(parts) > 1):
            raise self.refuse(",".join(parts), "is not * or partition:broker pairs separated by commas")


    def _check_host_limits(self, text: str) -> None:
        if text and not all(_HOST_LIMIT.fullmatch(part) for part in text.split(",")):
            raise self.refuse(text, "is not host:count pairs separated by commas")


def shortened(text: str) -> str:
    """Return the text, or its beginning where it is too long to be repeated."""
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(text)} characters)"


def _java_double(value: float) -> str:
    """Return the value as `Double.toString` writes it: a point always, an exponent outside 0.001 to 10,000,000."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    from decimal import Decimal  # few settings have such values, and no start needs their texts
    exact = Decimal(repr(value)).normalize()
    sign, digits, _exponent = exact.as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{exact.adjusted()}"


def _parse_boolean(setting: Setting, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise setting.refuse(text, "is not true or false")
    return text.lower() == "true"


def _parse_integer(setting: Setting, text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise setting.refuse(text, f"is not a whole number ({setting.type})")
    low, high = INTEGER_RANGES[setting.type]
    value = int(text) if len(text) < DIGITS_MAX else high + 1
    if not low <= value <= high:
        raise setting.refuse(text, f"is not in {low} to {high} ({setting.type})")
    return value


def _parse_double(setting: Setting, text: str) -> float:
    if text.lower() in ("nan", "inf", "infinity", "-infinity", "+infinity"):
        raise setting.refuse(text, "is not a finite number")
    if not _DOUBLE.fullmatch(text):
        raise setting.refuse(text, "is not a number")
    value = float(text)
    if not isfinite(value):
        raise setting.refuse(text, "is not a finite number")
    return value


def _parse_list(setting: Setting, text: str) -> list[str]:  # noqa: ARG001 - the shape of every parser
    return [part.strip() for part in text.split(",")] if text else []


def _parse_text(setting: Setting, text: str) -> str:  # noqa: ARG001 - the shape of every parser
    return text


_PARSERS: Final[dict[str, Callable[[Setting, str], Value]]] = {
    "boolean": _parse_boolean,
    "short": _parse_integer,
    "int": _parse_integer,
    "long": _parse_integer,
    "double": _parse_double,
    "list": _parse_list,
    "string": _parse_text,
    "class": _parse_text,
    "password": _parse_text,
    UNKNOWN: _parse_text,
}
