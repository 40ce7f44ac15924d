"""Clients of librdkafka for one identity: their settings, the events of their records, and their errors."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kraft.client.sasl import library_settings
from kraft.gateway.errors import library_failure
from kraft.gateway.feed import Entry
from kraft.gateway.records import record_json
from kraft.gateway.text import event_data

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from kraft.gateway.identity import Identity
    from kraft.gateway.settings import Settings

Place = tuple[str, int]

SILENT: Final = logging.getLogger("kraft.gateway.librdkafka")
# Errors after which the library retries by itself, and one about groups, which the readers have none of: it would end
# them for users without rights on groups.
PASSING: Final = (KafkaError.GROUP_AUTHORIZATION_FAILED,
                  KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE,
                  KafkaError._MAX_POLL_EXCEEDED)
OUT_OF_RANGE: Final = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def base_settings(settings: "Settings", identity: "Identity") -> dict[str, Any]:
    """Return the library's settings of connections for this identity. It logs nothing; its errors are answered."""
    if not SILENT.handlers:
        SILENT.addHandler(logging.NullHandler())
        SILENT.propagate = False
    found = {"bootstrap.servers": settings.bootstrap, "client.id": "kraft-gateway", "logger": SILENT}
    security = settings.security
    if identity.token:
        security = replace(security, username="", password="", token=None, mechanism="OAUTHBEARER")
        return {**found, **library_settings(security), "oauth_cb": lambda _config: (identity.token, identity.expiry_s)}
    if identity.user:
        security = replace(security, username=identity.user, password=identity.password, token=None)
    return {**found, **library_settings(security)}


def consumer_settings(settings: "Settings", identity: "Identity", queued_kib: int) -> dict[str, Any]:
    """Return those of a consumer without a group, which reads committed records only and never skips by itself."""
    return {**base_settings(settings, identity), "group.id": "kraft-gateway", "enable.auto.commit": False,
            "enable.auto.offset.store": False, "auto.offset.reset": "error", "isolation.level": "read_committed",
            "queued.max.messages.kbytes": queued_kib, "fetch.queue.backoff.ms": 20, "fetch.error.backoff.ms": 100,
            "topic.metadata.refresh.interval.ms": 10_000}


def range_of(consumer: "Consumer", place: Place, seconds: float) -> tuple[int, int]:
    """Return the first offset of a partition and the one after its last. Raises `RequestError`."""
    try:
        return consumer.get_watermark_offsets(TopicPartition(*place), timeout=seconds)
    except KafkaException as error:
        raise library_failure(f"partition {place[0]}-{place[1]}", error.args[0]) from error


def partitions_of(consumer: "Consumer", topic: str, seconds: float) -> list[int]:
    """Return the numbers of a topic's partitions. Raises `RequestError`."""
    try:
        found = consumer.list_topics(topic, timeout=seconds).topics[topic]
    except KafkaException as error:
        raise library_failure(f"topic {topic}", error.args[0]) from error
    if found.error is not None:
        raise library_failure(f"topic {topic}", found.error)
    return sorted(found.partitions)


def offsets_at(consumer: "Consumer", topic: str, times: Mapping[int, int], seconds: float) -> dict[int, int]:
    """Return for each partition the offset of its first record with that time or a later one, or its end. Raises
    `RequestError`."""
    wanted = [TopicPartition(topic, partition, time_ms) for partition, time_ms in times.items()]
    try:
        found = consumer.offsets_for_times(wanted, timeout=seconds)
    except KafkaException as error:
        raise library_failure(f"topic {topic}", error.args[0]) from error
    offsets = {}
    for each in found:
        if each.error is not None:
            raise library_failure(f"partition {topic}-{each.partition}", each.error)
        offsets[each.partition] = each.offset if each.offset >= 0 else range_of(consumer, (topic, each.partition),
                                                                               seconds)[1]
    return offsets


def entry_of(message: "Message") -> Entry:
    """Return the entry of a record. The library returns names of headers only in UTF-8; the headers of a record with
    others are omitted."""
    try:
        headers: Any = message.headers() or ()
    except (SystemError, UnicodeDecodeError):
        headers = ()
    key, value = _bytes(message.key()), _bytes(message.value())
    offset = message.offset() or 0
    fields = record_json(message.partition() or 0, offset, message.timestamp()[1], key, value, headers)
    return Entry(offset, key, event_data(fields))


def _bytes(field: str | bytes | None) -> bytes | None:
    return field.encode() if isinstance(field, str) else field
