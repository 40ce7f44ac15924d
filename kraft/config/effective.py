"""Which value counts: a topic's own, the broker's dynamic ones, those of the node's file, or the default.

The order is Kafka's: the resource's own override, the dynamic setting of one broker, the dynamic default of all, the
node's file, the default in the table. A topic's setting has other names on the broker (`synonyms`), some in another
unit. Everything here is a pure function of the layers given.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple

from kraft.config import tables
from kraft.config.setting import Setting, Value
from kraft.immutable import immutable


class Source(IntEnum):
    """Where a value comes from: the codes of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One place that a value could come from; `text` as it was given there."""

    name: str
    text: str
    source: Source


class Effective(NamedTuple):
    """A setting with the value that counts, its source, and all places from the one that counts down to the default."""

    setting: Setting
    value: Value
    source: Source
    synonyms: tuple[Synonym, ...]


@immutable
class BrokerLayers:
    """What a broker's settings are made of, as texts: dynamic ones of this broker and of all, and the node's file."""

    dynamic: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[Source, Mapping[str, str]]]:
        yield Source.DYNAMIC_BROKER, self.dynamic
        yield Source.DYNAMIC_DEFAULT_BROKER, self.dynamic_default
        yield Source.STATIC_BROKER, self.static


def broker_value(name: str, layers: BrokerLayers) -> Effective:
    """A broker's own setting."""
    return resolve(tables.broker_settings()[name], tables.BROKER_SYNONYMS.get(name, ((name, 1),)), layers)


def broker_integer(name: str, layers: BrokerLayers) -> int:
    """The value of a broker's setting that is a whole number and is set or has a default."""
    value = broker_value(name, layers).value
    assert isinstance(value, int), f"{name} is not a whole number"
    return value


def topic_value(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> Effective:
    """A topic's setting; `overrides` are the topic's own."""
    setting = tables.section("topic")[name]
    return _resolve(setting, setting.synonyms, overrides, Source.TOPIC, layers)


def group_value(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> Effective:
    """A group's setting; `overrides` are the group's own. The default of one that brokers do not have is told under the
    setting's own name."""
    setting = tables.section("group")[name]
    found = _resolve(setting, setting.synonyms, overrides, Source.GROUP, layers)
    if setting.synonyms:
        return found
    default = Synonym(name, setting.format(setting.default) or "", Source.DEFAULT)
    return found._replace(synonyms=(*found.synonyms, default))


def client_metrics_value(name: str, overrides: Mapping[str, str]) -> Effective:
    """A setting of a client-metrics subscription."""
    return _resolve(tables.section("client_metrics")[name], (), overrides, Source.CLIENT_METRICS, BrokerLayers())


def resolve(setting: Setting, names: tuple[tuple[str, int], ...], layers: BrokerLayers) -> Effective:
    """A setting of the broker under these names, the first that is set anywhere counts; each with the factor from its
    unit to this one's."""
    return _resolve(setting, names, {}, Source.DEFAULT, layers)


def _resolve(setting: Setting, names: tuple[tuple[str, int], ...], overrides: Mapping[str, str], own: Source,
             layers: BrokerLayers) -> Effective:
    found: list[tuple[Value, Synonym]] = []
    if (text := overrides.get(setting.name)) is not None:
        found.append((setting.parse(text), Synonym(setting.name, text, own)))
    for source, layer in layers:
        for name, factor in names:
            if (text := layer.get(name)) is not None:
                found.append((_scaled(setting, text, factor), Synonym(name, text, source)))
    is_named = any(synonym.name == names[0][0] for _value, synonym in found) if names else False
    found += [(setting.default, default) for default in _defaults(names, all_names=is_named)]
    if not found or found[0][1].source == Source.DEFAULT:
        return Effective(setting, setting.default, Source.DEFAULT, tuple(synonym for _value, synonym in found))
    value, first = found[0]
    return Effective(setting, value, first.source, tuple(synonym for _value, synonym in found))


def _scaled(setting: Setting, text: str, factor: int) -> Value:
    """A value given in a broker setting's unit, in this setting's; negative ones (no limit) are not scaled."""
    if factor == 1:
        return setting.parse(text)
    number = int(text)
    return number if number < 0 else number * factor


def _defaults(names: tuple[tuple[str, int], ...], *, all_names: bool) -> Iterator[Synonym]:
    """The table's defaults as Kafka lists them: under each broker name that has one when the first name is set
    somewhere, else only if the first has one."""
    for position, (name, _factor) in enumerate(names):
        setting = tables.broker_settings().get(name)
        if setting is None:             # of one listener
            continue
        text = setting.format(setting.default)
        if text is None or name in tables.section("broker_dynamic"):
            if position == 0 and not all_names:
                return
            continue
        yield Synonym(name, text, Source.DEFAULT)
