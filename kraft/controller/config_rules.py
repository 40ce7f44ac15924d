"""Rules for settings, from the tables of `kraft.config`; decisions use them through `ConfigRules`."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kraft.config import tables
from kraft.config.effective import BrokerLayers, Effective, broker_integer, broker_value, group_value, topic_value
from kraft.config.errors import InvalidConfigError
from kraft.config.listener_settings import PREFIX as LISTENER_PREFIX
from kraft.config.listener_settings import base_of, check_listener_setting
from kraft.config.sasl_settings import check_of_listener
from kraft.config.setting import Setting, shortened
from kraft.config.unsupported import READ_AT_START, check_supported
from kraft.controller.decision import NAMED_MAX, EffectiveConfig, RefusedError
from kraft.controller.topics import check_topic_name
from kraft.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    Resource,
)
from kraft.protocol.error_codes import ErrorCode

PUSH_INTERVALS_MS: Final = range(100, 3_600_001)
SELECTORS: Final = ("client_instance_id", "client_id", "client_software_name", "client_software_version",
                    "client_source_address", "client_source_port")
"""Client properties by which a client-metrics subscription may select."""
OVERRIDES_MAX: Final = 1_000
"""Values of overridden topic settings that are kept resolved."""
CLEANER_BYTES: Final = "log.cleaner.dedupe.buffer.size"
CLEANER_THREADS: Final = "log.cleaner.threads"
CLEANER_THREAD_BYTES_MIN: Final = 1 << 20
STORED_ONLY: Final = "sasl."
"""Prefix of SASL settings, which can be stored while no listener uses them, as in Kafka."""
GROUP_KINDS: Final = ("consumer", "share", "streams")
_BOUNDS: Final = ((operator.ge, "greater than or equal to"), (operator.le, "less than or equal to"))
"""Comparisons of a group's setting with its two bounds."""
_SECTIONS: Final = {
    TOPIC_RESOURCE: "topic",
    GROUP_RESOURCE: "group",
    CLIENT_METRICS_RESOURCE: "client_metrics",
}
_KINDS: Final = {**_SECTIONS, BROKER_RESOURCE: "broker"}
_UNKNOWN: Final = {
    TOPIC_RESOURCE: "Unknown topic config name",
    GROUP_RESOURCE: "Unknown group config name",
    CLIENT_METRICS_RESOURCE: "Unknown client metrics configuration",
}


def settings_of(resource_type: int) -> Mapping[str, Setting]:
    """Return the settings of a resource type; none for a type without settings."""
    if resource_type == BROKER_RESOURCE:
        return tables.broker_settings()
    return tables.section(_SECTIONS[resource_type]) if resource_type in _SECTIONS else {}


class TableRules:
    """Implementation of `ConfigRules`. `static`: the node's own file, which has lower priority than runtime
    settings."""

    def __init__(self, static: Mapping[str, str]):
        self._static = static
        # Settings of topics without overrides, by name, and the inputs that they were computed from. They are needed
        # with every changed partition, and change only with broker settings. The same for overrides, by name and text.
        self._inherited: dict[str, EffectiveConfig] = {}
        self._overridden: dict[tuple[str, str], str] = {}
        self._inherited_from: tuple[Mapping[str, str], Mapping[str, str]] | None = None

    def check(self, resource: Resource, proposed: Mapping[str, str], existing: Mapping[str, str]) -> None:
        """Check changed names and values alone, then values that depend on each other.

        Existing settings stay, known or not: a newer node may have written them. As in Kafka, broker settings are
        refused with INVALID_REQUEST, the others with INVALID_CONFIG. An unknown broker setting is stored and has no
        effect."""
        if resource.type != BROKER_RESOURCE and not resource.name:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"the name of a {_KINDS[resource.type]} is empty")
        if resource.type == TOPIC_RESOURCE:
            check_topic_name(resource.name)
        changed = {name: text for name, text in proposed.items() if existing.get(name) != text}
        if resource.type == BROKER_RESOURCE:
            _check_updates(resource, changed)
        for name, text in changed.items():
            if resource.type == BROKER_RESOURCE:
                _check_of_broker(name, text)
            else:
                _check_value(resource, name, text)
        if resource.type == BROKER_RESOURCE:
            self._check_addresses(proposed)
            self._check_cleaner(proposed)
        if resource.type == TOPIC_RESOURCE:
            self._check_lags(proposed)
        if resource.type == GROUP_RESOURCE:
            self._check_group(proposed)

    def _check_addresses(self, proposed: Mapping[str, str]) -> None:
        """Refuse a limit with which no client could connect to change it back."""
        limit, exceptions = (broker_value(name, BrokerLayers(proposed, static=self._static)).value
                             for name in ("max.connections.per.ip", "max.connections.per.ip.overrides"))
        if limit == 0 and not exceptions and "max.connections.per.ip" in proposed:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "max.connections.per.ip: 0 lets no address connect; it needs "
                                                          "max.connections.per.ip.overrides beside it")

    def _check_cleaner(self, proposed: Mapping[str, str]) -> None:
        """Refuse more threads of the cleaner than its memory is for, as Kafka does."""
        if CLEANER_BYTES not in proposed and CLEANER_THREADS not in proposed:
            return
        layers = BrokerLayers(proposed, static=self._static)
        total, threads = broker_integer(CLEANER_BYTES, layers), broker_integer(CLEANER_THREADS, layers)
        if total // max(threads, 1) <= CLEANER_THREAD_BYTES_MIN:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{CLEANER_BYTES}: {total} must be above "
                                                          f"{CLEANER_THREAD_BYTES_MIN} for each of {threads} threads")

    def _check_lags(self, proposed: Mapping[str, str]) -> None:
        layers = BrokerLayers(static=self._static)
        shortest, longest = (topic_value(name, proposed, layers).value
                             for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
        if isinstance(shortest, int) and isinstance(longest, int) and shortest > longest:
            raise RefusedError(ErrorCode.INVALID_CONFIG,
                               f"min.compaction.lag.ms {shortest} is above max.compaction.lag.ms {longest}")

    def _check_group(self, proposed: Mapping[str, str]) -> None:
        """Check that a group's settings are within the node's `group.*.min.*` and `group.*.max.*`. Messages begin with
        Kafka's words."""
        layers = BrokerLayers(static=self._static)
        for name in filter(tables.section("group").__contains__, proposed):
            value = group_value(name, proposed, layers).value
            for bound, (keeps, must_be) in zip(_bounds_of(name), _BOUNDS, strict=True):
                if bound not in tables.broker_settings() or not isinstance(value, int):
                    continue
                if not keeps(value, limit := broker_integer(bound, layers)):
                    raise RefusedError(ErrorCode.INVALID_CONFIG, f"{name} must be {must_be} {bound}: {value}, {limit}")
        for kind in GROUP_KINDS:
            heartbeat, session = (group_value(f"{kind}.{name}", proposed, layers).value
                                  for name in ("heartbeat.interval.ms", "session.timeout.ms"))
            assert isinstance(heartbeat, int)
            assert isinstance(session, int)
            if heartbeat >= session:
                raise RefusedError(ErrorCode.INVALID_CONFIG, f"{kind}.session.timeout.ms must be greater than "
                                                             f"{kind}.heartbeat.interval.ms: {session}, {heartbeat}")

    def is_list(self, resource_type: int, name: str) -> bool:
        setting = settings_of(resource_type).get(name)
        return setting is not None and setting.type == "list"

    def default(self, resource_type: int, name: str) -> str | None:
        setting = settings_of(resource_type).get(name)
        return None if setting is None else setting.format(setting.default)

    def topic_value(
        self, name: str, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> str:
        inherited = self._inheritance(broker, cluster)
        if (text := topic.get(name)) is None:
            return inherited[name].value or ""
        value = self._overridden.get((name, text))
        if value is None:
            found = topic_value(name, topic, BrokerLayers(broker, cluster, self._static))
            value = found.setting.format(found.value) or ""
            if len(self._overridden) < OVERRIDES_MAX:
                self._overridden[name, text] = value
        return value

    def topic_values(
        self, topic: Mapping[str, str], broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Sequence[EffectiveConfig]:
        inherited = self._inheritance(broker, cluster)
        layers = BrokerLayers(broker, cluster, self._static)
        known = tables.section("topic")
        values = {**inherited, **{
            name: _reported(topic_value(name, topic, layers)) for name in topic if name in known}}
        return [value for name, value in values.items() if name in topic or not known[name].internal]

    def _inheritance(
        self, broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> Mapping[str, EffectiveConfig]:
        if self._inherited_from != (broker, cluster):
            layers = BrokerLayers(broker, cluster, self._static)
            self._inherited = {name: _reported(topic_value(name, {}, layers)) for name in tables.section("topic")}
            self._overridden.clear()
            self._inherited_from = (broker, cluster)
        return self._inherited


def _bounds_of(name: str) -> tuple[str, str]:
    """Return the names of the broker settings that bound a group's setting, whether or not they exist."""
    kind, rest = name.split(".", 1)
    rest = rest.removeprefix("num.")
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


def _reported(effective: Effective) -> EffectiveConfig:
    setting = effective.setting
    return EffectiveConfig(setting.name, setting.format(effective.value), int(effective.source),
                           sensitive=setting.sensitive)


def _check_value(resource: Resource, name: str, text: str) -> None:
    """Check a setting of a topic, a group or a client-metrics subscription."""
    setting = settings_of(resource.type).get(name)
    if setting is None:
        is_request = resource.type == CLIENT_METRICS_RESOURCE
        raise RefusedError(ErrorCode.INVALID_REQUEST if is_request else ErrorCode.INVALID_CONFIG,
                           f"{_UNKNOWN[resource.type]}: {shortened(name)}")
    try:
        value = setting.parse(text)
        check_supported(setting, value)
    except InvalidConfigError as error:
        raise RefusedError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if resource.type != CLIENT_METRICS_RESOURCE:
        return
    if name == "interval.ms" and value not in PUSH_INTERVALS_MS:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"interval.ms: {value} is not in {PUSH_INTERVALS_MS.start} to "
                                                      f"{PUSH_INTERVALS_MS.stop - 1}")
    if name == "match" and isinstance(value, list):
        for pattern in value:
            selector, separator, expression = pattern.partition("=")
            if selector.strip() not in SELECTORS or not separator or not expression.strip():
                raise RefusedError(ErrorCode.INVALID_CONFIG,
                                   str(setting.refuse(pattern, f"is not NAME=PATTERN with a name of "
                                                               f"{', '.join(SELECTORS)}")))


def _check_updates(resource: Resource, names: Iterable[str]) -> None:
    """Refuse with INVALID_REQUEST, in Kafka's words, settings that only the node's file can hold, and cluster defaults
    for settings of a single broker."""
    known = tables.broker_settings()
    settings = {name: known[key] for name in names if (key := base_of(name) or name) in known}
    fixed = [name for name, each in settings.items() if not each.update or each.name in READ_AT_START]
    if fixed:
        raise RefusedError(ErrorCode.INVALID_REQUEST,
                           f"Cannot update these configs dynamically: [{', '.join(fixed[:NAMED_MAX])}]")
    of_one = [name for name, each in settings.items() if each.update == "per-broker"]
    if of_one and not resource.name:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Cannot update these configs at default cluster level, broker id "
                                                      f"must be specified: [{', '.join(of_one[:NAMED_MAX])}]")


def _check_of_broker(name: str, text: str) -> None:
    """Check one setting of one broker or of all: INVALID_REQUEST for every fault."""
    if name.startswith(LISTENER_PREFIX):
        _check_of_listener(name, text)
        return
    setting = tables.broker_settings().get(name)
    if setting is None:
        return                         # of a plug-in, of a later version, or a mistake: as in Kafka it is stored
    try:
        value = setting.parse(text)
        if not name.startswith(STORED_ONLY):
            check_supported(setting, value)
    except InvalidConfigError as error:
        raise RefusedError(ErrorCode.INVALID_REQUEST, str(error)) from None
    if name.startswith("ssl."):
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{name} can be changed for one listener only, as "
                                                      f"{LISTENER_PREFIX}NAME.{name}")


def _check_of_listener(key: str, text: str) -> None:
    try:
        check_listener_setting(key, text, tables.broker_settings())
        check_of_listener(key, text)
    except InvalidConfigError as error:
        raise RefusedError(ErrorCode.INVALID_REQUEST, str(error)) from None
    if base_of(key) is None:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{key}]")
