"""From a topic's settings in force to the settings of its logs."""

from typing import Final

from kraft.config import tables
from kraft.config.effective import BrokerLayers, broker_value, topic_value
from kraft_native.config import FIELDS, LogConfig

NEVER: Final = (1 << 63) - 1

# Kafka's topic settings that the engine has under the same name.
ENGINE_SETTINGS: Final = tuple(field.kafka_name for field in FIELDS
                               if field.kafka_name is not None and field.kafka_name in tables.section("topic"))


def log_config(topic_overrides: dict[str, str], layers: BrokerLayers, *, replicated: bool = False) -> LogConfig:
    """The settings of a topic's logs. `flush.messages` and `flush.ms` become the durability: 1 message is a flush of
    every append, any other bound a flush that appends share, none leaves flushing to the operating system.
    `replicated`: the high watermark waits for other brokers."""
    texts: dict[str, str] = {}
    for name in ENGINE_SETTINGS:
        effective = topic_value(name, topic_overrides, layers)
        text = effective.setting.format(effective.value)
        assert text is not None, name
        texts[name] = text or "delete"  # an empty cleanup.policy keeps everything: see below
    if not topic_value("cleanup.policy", topic_overrides, layers).value:
        texts |= {"retention.ms": "-1", "retention.bytes": "-1"}
    internal = topic_value("internal.segment.bytes", topic_overrides, layers).value
    if internal is not None:
        texts["segment.bytes"] = str(internal)
    texts["high_watermark"] = "manual" if replicated else "auto"
    texts["durability"] = _durability(topic_overrides, layers)
    for ours, name in (("flush_bytes", "kraft.flush.bytes"), ("flush_interval_us", "kraft.flush.interval.us"),
                       ("producer.id.expiration.ms", "producer.id.expiration.ms")):
        texts[ours] = str(broker_value(name, layers).value)
    return LogConfig.from_kafka(texts)


def _durability(overrides: dict[str, str], layers: BrokerLayers) -> str:
    messages = topic_value("flush.messages", overrides, layers).value
    interval_ms = topic_value("flush.ms", overrides, layers).value
    if messages == 1 or interval_ms == 0:
        return "per-append"
    return "page-cache" if messages == NEVER and interval_ms == NEVER else "group-commit"
