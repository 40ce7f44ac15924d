"""The settings to change, all that can be changed while nodes run, and hostile values for each of them."""

import math
from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

from kraft.config import tables
from kraft.config.listener_settings import OF_ONE_LISTENER
from kraft.config.setting import INTEGER_RANGES, Setting

ALL_BROKERS: Final = ""
TOPIC: Final = "t"
EDGES: Final = (-131_073, -131_072, -3, -2, -1, 0, 1, 2, 3, 4, 9, 10, 13, 14, 17, 18, 22, 23, 99, 100, 1023, 1024,
                524_287, 524_288, 1_048_575, 1_048_576, 3_600_000, 3_600_001)
"""Ends of the ranges in Kafka's table, and the numbers next to them."""
HOSTILE: Final = (
    "", " ", "1_0", "1e3", "0x10", "NaN", "-Infinity", "+1", "1.5", "true", "FALSE", "null", "\u0663", "\u00a05",
    "\x00", "\x1b[31m\r\n", "\ud7ff", "a,,b", ",", "delete,burn", "compact,delete", "*", "*,0:1", "0:1,99999999999:2",
    "a=b=c",
    "client_id=(", "9" * 5000, "x" * 30_000, "a," * 10_000, "localhost:-1", "localhost:99999999999999999999",
)
NUMBERS: Final = (-1, 0, 1, 1 << 31, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, 1 << 63, -(1 << 63), -(1 << 63) - 1)
QUOTA_VALUES: Final = (math.nan, math.inf, -math.inf, -1.0, 0.0, 5e-324, 0.5, 1.0, 2.0**31, 2.0**31 - 1, 2.0**63, 1e308)
QUOTA_ENTITIES: Final[tuple[tuple[tuple[str, str | None], ...], ...]] = (
    (("user", "nobody"),), (("client-id", "nothing"),), (("client-id", "nothing"), ("user", "nobody")),
    (("user", None),), (("client-id", None),), (("ip", "10.0.0.1"),), (("ip", None),))

LOCKING_OUT: Final = ("max.connections", "max.connections.per.ip", "max.connection.creation.rate", *(
    f"listener.name.plaintext.{name}" for name in OF_ONE_LISTENER))
"""Settings that keep clients and other brokers from connecting: they are not in force over a restart."""


class Case(NamedTuple):
    """One setting of one resource."""

    kind: str
    resource: str
    name: str
    setting: Setting | None

    def __str__(self) -> str:
        return f"{self.kind} {self.resource or 'default'}: {self.name}"


class QuotaCase(NamedTuple):
    """One limit of one entity."""

    entity: tuple[tuple[str, str | None], ...]
    key: str


def cases(broker_ids: list[int]) -> list[Case]:
    """Return every dynamic setting of every kind of resource, and one unknown setting of each."""
    found = [Case("topic", TOPIC, name, setting) for name, setting in tables.section("topic").items()]
    for resource in (*map(str, broker_ids[:1]), ALL_BROKERS):
        found += [Case("broker", resource, name, setting) for name, setting in tables.broker_settings().items()
                  if setting.update or setting.feeds]
        found += [Case("broker", resource, f"listener.name.plaintext.{name}", tables.broker_settings()[name])
                  for name in OF_ONE_LISTENER]
    found += [Case("group", "g", name, setting) for name, setting in tables.section("group").items()]
    found += [Case("client-metrics", "m", name, setting) for name, setting in tables.section("client_metrics").items()]
    found += [Case(kind, resource, "no.such.setting", None) for kind, resource in (
        ("topic", TOPIC), ("broker", str(broker_ids[0])), ("broker", ALL_BROKERS), ("group", "g"),
        ("client-metrics", "m"))]
    return found


def quota_cases() -> list[QuotaCase]:
    keys = [*tables.section("client_quota"), *tables.section("ip_quota"), "no_such_quota", "", "x" * 20_000]
    return [QuotaCase(entity, key) for entity in QUOTA_ENTITIES for key in keys]


def values_of(case: Case) -> list[str]:
    """Return hostile values of a setting, and those that are only just allowed."""
    found = [*HOSTILE, *map(str, NUMBERS)]
    setting = case.setting
    if setting is not None and setting.type in INTEGER_RANGES:
        low, high = INTEGER_RANGES[setting.type]
        found += [str(edge) for edge in (*EDGES, low - 1, low, high, high + 1)]
    elif setting is not None and setting.type == "double":
        found += ["-0.0", "-0.1", "0.0", "1.0", "1.0000001", "1e308", "1e309", "4.9e-324"]
    elif setting is not None:
        found += _words(setting)
    return list(dict.fromkeys(found))


def _words(setting: Setting) -> Iterator[str]:
    if "[" in setting.range:
        words = setting.range.partition("[")[2].rstrip("]").split(", ")
        yield from words
        yield from (word.upper() for word in words)
        yield f"{words[0]},{words[0]}"
    if (text := setting.format(setting.default)) is not None:
        yield text


def drawn(case: Case, random: Random, count: int | None) -> list[str]:
    """Return all values of a setting in a random order, or `count` of them."""
    found = values_of(case)
    random.shuffle(found)
    return found if count is None else found[:count]
