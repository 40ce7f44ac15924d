"""Conversion of a topic's settings in force to the settings of its logs."""

from collections.abc import Mapping
from itertools import chain
from typing import Final, NamedTuple

from kraft.config import tables
from kraft.config.effective import BrokerLayers, Effective, Fault, Source, broker_value, topic_value
from kraft_native.segment.config import FIELDS, LogConfig

NEVER: Final = (1 << 63) - 1
FIELDS_BY_NAME: Final = {field.name: field for field in FIELDS}

SEGMENT_BYTES_MIN: Final = FIELDS_BY_NAME["segment_bytes"].allowed[0]
KEEP_ALL: Final = ("retention.ms", "retention.bytes")
"""Settings that let data be deleted: with an unusable value nothing is deleted."""
LAGS: Final = ("min_compaction_lag_ms", "max_compaction_lag_ms")
BROKER_SETTINGS: Final = {"flush_bytes": "kraft.flush.bytes", "flush_interval_us": "kraft.flush.interval.us",
                          "producer.id.expiration.ms": "producer.id.expiration.ms"}
"""Settings of the broker, by the engine's name."""

# Kafka's topic settings that the engine has under the same name.
ENGINE_SETTINGS: Final = tuple(field.kafka_name for field in FIELDS
                               if field.kafka_name is not None and field.kafka_name in tables.section("topic"))


class LogSettings(NamedTuple):
    """Settings of a topic's logs. `faults`: values set for the topic that cannot be used. `unusable`: the engine's
    names of the settings for which such a value is set, for the topic or the broker."""

    config: LogConfig
    faults: tuple[Fault, ...] = ()
    unusable: tuple[str, ...] = ()

    def over(self, current: LogConfig) -> LogConfig:
        """Return the settings for a log that has `current` ones: settings without a usable value keep their current
        value."""
        if not self.unusable:
            return self.config
        kept = {name: getattr(current, name) for name in self.unusable}
        shortest, longest = (kept.get(name, getattr(self.config, name)) for name in LAGS)
        return self.config.replace(**kept | {LAGS[1]: max(shortest, longest)})


def log_settings(topic_overrides: Mapping[str, str], layers: BrokerLayers, *, replicated: bool = False) -> LogSettings:
    """Return the settings of a topic's logs. `flush.messages` and `flush.ms` become the durability: 1 message is a
    flush of every append, any other bound a flush that appends share, none leaves flushing to the operating system.
    `replicated`: the high watermark waits for other brokers.

    Never raises. An unusable value is replaced by the one of the next level. Unusable retention instead deletes
    nothing.

    A `max.compaction.lag.ms` below `min.compaction.lag.ms` is raised to it: a record younger than the minimum is not
    compacted, whatever the maximum is.
    """
    effective = {name: topic_value(name, topic_overrides, layers) for name in tables.section("topic")}
    brokers = {name: broker_value(name, layers) for name in BROKER_SETTINGS.values()}
    texts: dict[str, str] = {}
    for name in ENGINE_SETTINGS:
        found = effective[name]
        text = found.setting.format(found.value)
        assert text is not None, name
        texts[name] = text or "delete"  # an empty cleanup.policy keeps everything: see below
        if found.faults and name in KEEP_ALL:
            texts[name] = "-1"
    if not effective["cleanup.policy"].value or effective["cleanup.policy"].faults:
        texts |= dict.fromkeys(KEEP_ALL, "-1")
    if isinstance(internal := effective["internal.segment.bytes"].value, int):
        texts["segment.bytes"] = str(max(internal, SEGMENT_BYTES_MIN))
    if int(texts["max.compaction.lag.ms"]) < int(texts["min.compaction.lag.ms"]):
        texts["max.compaction.lag.ms"] = texts["min.compaction.lag.ms"]
    texts["high_watermark"] = "manual" if replicated else "auto"
    texts["durability"] = _durability(effective)
    for ours, name in BROKER_SETTINGS.items():
        texts[ours] = str(brokers[name].value)
    faults = {name: found.faults for name, found in (*effective.items(), *brokers.items()) if found.faults}
    unusable = dict.fromkeys(name.replace(".", "_") for name in faults if name in ENGINE_SETTINGS)
    if "cleanup_policy" in unusable:
        unusable |= dict.fromkeys(name.replace(".", "_") for name in KEEP_ALL)
    if any(name.startswith("flush.") for name in faults):
        unusable["durability"] = None
    own = tuple(fault for fault in chain.from_iterable(faults.values()) if fault.source == Source.TOPIC)
    return LogSettings(LogConfig.from_kafka(texts), own, tuple(unusable))


def _durability(effective: Mapping[str, Effective]) -> str:
    messages, interval_ms = effective["flush.messages"].value, effective["flush.ms"].value
    if messages == 1 or interval_ms == 0:
        return "per-append"
    return "page-cache" if messages == NEVER and interval_ms == NEVER else "group-commit"
