"""Value in force: a topic's own, the broker's dynamic ones, that of the node's file, or the default.

The order is Kafka's: the resource's own override, the dynamic setting of one broker, the dynamic default of all, the
node's file, the default in the table. A topic's setting has other names on the broker (`synonyms`), some in another
unit. Everything here is a pure function of the given layers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import IntEnum
from typing import Final, NamedTuple

from kraft.config import tables
from kraft.config.errors import InvalidConfigError
from kraft.config.setting import UNKNOWN, Setting, Value
from kraft.structs import immutable


class Source(IntEnum):
    """Origin of a value: the codes of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


UNKNOWN_TEXT: Final = "No setting that this version knows; it is stored."
"""Documentation of a broker setting that is in no table."""
SOURCE_NAMES: Final = {
    Source.TOPIC: "set for the topic", Source.DYNAMIC_BROKER: "set for the broker",
    Source.DYNAMIC_DEFAULT_BROKER: "set for all brokers", Source.STATIC_BROKER: "in the node's file",
    Source.BROKER_LOGGER: "set for the logger", Source.CLIENT_METRICS: "set for the subscription",
    Source.GROUP: "set for the group",
}


class Synonym(NamedTuple):
    """One place that a value could come from; `text` as it was given there."""

    name: str
    text: str
    source: Source


class Fault(NamedTuple):
    """Value that cannot be used. `reason` names the setting, the value and what is allowed."""

    source: Source
    reason: str

    def __str__(self) -> str:
        return f"{self.reason} ({SOURCE_NAMES[self.source]})"


class Effective(NamedTuple):
    """Setting with the value in force and its source. `synonyms` are all places from the one in force down to the
    default.

    `faults`: values that were found on the way and cannot be used; the next place is used instead.
    """

    setting: Setting
    value: Value
    source: Source
    synonyms: tuple[Synonym, ...]
    faults: tuple[Fault, ...] = ()


@immutable
class BrokerLayers:
    """Layers of a broker's settings, as texts: dynamic ones of this broker and of all, and the node's file."""

    dynamic: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[Source, Mapping[str, str]]]:
        yield Source.DYNAMIC_BROKER, self.dynamic
        yield Source.DYNAMIC_DEFAULT_BROKER, self.dynamic_default
        yield Source.STATIC_BROKER, self.static


def broker_value(name: str, layers: BrokerLayers) -> Effective:
    """Return a broker's own setting."""
    return resolve(tables.broker_settings()[name], tables.BROKER_SYNONYMS.get(name, ((name, 1),)), layers)


def broker_integer(name: str, layers: BrokerLayers) -> int:
    """Return the value of a broker's setting that is a whole number and is set or has a default."""
    value = broker_value(name, layers).value
    assert isinstance(value, int), f"{name} is not a whole number"
    return value


def topic_value(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> Effective:
    """Return a topic's setting; `overrides` are the topic's own."""
    setting = tables.section("topic")[name]
    return _resolve(setting, setting.synonyms, overrides, Source.TOPIC, layers)


def group_value(name: str, overrides: Mapping[str, str], layers: BrokerLayers) -> Effective:
    """Return a group's setting; `overrides` are the group's own. The default of a setting that brokers do not have is
    listed under the setting's own name."""
    setting = tables.section("group")[name]
    found = _resolve(setting, setting.synonyms, overrides, Source.GROUP, layers)
    if setting.synonyms:
        return found
    default = Synonym(name, setting.format(setting.default) or "", Source.DEFAULT)
    return found._replace(synonyms=(*found.synonyms, default))


def client_metrics_value(name: str, overrides: Mapping[str, str]) -> Effective:
    """Return a setting of a client-metrics subscription."""
    return _resolve(tables.section("client_metrics")[name], (), overrides, Source.CLIENT_METRICS, BrokerLayers())


def unknown_names(layers: BrokerLayers) -> list[str]:
    """Return the names of dynamic settings, of the broker or of all brokers, that this version does not know."""
    named = dict.fromkeys((*layers.dynamic, *layers.dynamic_default))
    return sorted(name for name in named
                  if name not in tables.broker_settings() and not name.startswith("listener.name."))


def unknown_value(name: str, layers: BrokerLayers) -> Effective:
    """Return one of those. Its value may be a secret, and is not shown."""
    setting = Setting(name=name, type=UNKNOWN, default=None, range="", importance="low", update="per-broker",
                      synonyms=(), internal=False, documentation=UNKNOWN_TEXT)
    return resolve(setting, ((name, 1),), layers)


def logger_level(name: str, level: str) -> Effective:
    """Return the level in force of one of the broker's loggers."""
    setting = Setting(name=name, type="string", default=None, range="", importance="medium", update="per-broker",
                      synonyms=(), internal=False, documentation="Level of the events that this logger lets through.")
    return Effective(setting, level, Source.BROKER_LOGGER, ())


def broker_faults(layers: BrokerLayers) -> list[Fault]:
    """Return the faults of the broker settings that were set while the node runs and cannot be used."""
    known = tables.broker_settings()
    named = dict.fromkeys((*layers.dynamic, *layers.dynamic_default))
    return [fault for name in named if name in known for fault in broker_value(name, layers).faults]


def resolve(setting: Setting, names: tuple[tuple[str, int], ...], layers: BrokerLayers) -> Effective:
    """Return a setting of the broker that has these names, each with the factor from its unit to this one's. The first
    name that is set in any layer wins."""
    return _resolve(setting, names, {}, Source.DEFAULT, layers)


def _resolve(setting: Setting, names: tuple[tuple[str, int], ...], overrides: Mapping[str, str], own: Source,
             layers: BrokerLayers) -> Effective:
    """Return the setting's value in force. Never raises: the metadata log may hold what an older or newer version, or
    Kafka, allowed."""
    found: list[tuple[Value, Synonym]] = []
    faults: list[Fault] = []

    def consider(name: str, factor: int, text: str, source: Source) -> None:
        try:
            found.append((_value(setting, name, factor, text, source is own), Synonym(name, text, source)))
        except InvalidConfigError as error:
            faults.append(Fault(source, str(error)))

    if (text := overrides.get(setting.name)) is not None:
        consider(setting.name, 1, text, own)
    for source, layer in layers:
        for name, factor in names:
            if (text := layer.get(name)) is not None:
                consider(name, factor, text, source)
    is_named = any(synonym.name == names[0][0] for _value, synonym in found) if names else False
    found += [(setting.default, default) for default in _defaults(names, all_names=is_named)]
    synonyms = tuple(synonym for _value, synonym in found)
    if not found or found[0][1].source == Source.DEFAULT:
        return Effective(setting, setting.default, Source.DEFAULT, synonyms, tuple(faults))
    value, first = found[0]
    return Effective(setting, value, first.source, synonyms, tuple(faults))


def _value(setting: Setting, name: str, factor: int, text: str, is_own: bool) -> Value:
    """Return the value of `setting` that the text means under that name, one unit of which is `factor` units of this
    setting."""
    broker = None if is_own or name == setting.name else tables.broker_settings().get(name)
    if broker is None:
        return setting.parse(text)
    value = setting.inherited(broker.parse(text), factor)
    if not setting.allows(value):
        raise broker.refuse(text, f"is outside the range of {setting.name}, {setting.range}")
    return value


def _defaults(names: tuple[tuple[str, int], ...], *, all_names: bool) -> Iterator[Synonym]:
    """Yield the table's defaults as Kafka lists them. If the first name is set in any layer, each broker name that has
    a default is listed. Otherwise they are listed only if the first name has one."""
    for position, (name, _factor) in enumerate(names):
        setting = tables.broker_settings().get(name)
        if setting is None:             # a setting of one listener
            continue
        text = setting.format(setting.default)
        if text is None or name in tables.section("broker_dynamic"):
            if position == 0 and not all_names:
                return
            continue
        yield Synonym(name, text, Source.DEFAULT)
