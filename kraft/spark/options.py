"""Options of a read: names and rules of Spark's Kafka connector, and a few of our own.

Spark passes names in lower case. Every error is an `InvalidArgumentError` that names the option, the value and what is
allowed. An unknown name is refused too, because it is most likely misspelt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from kraft.log_dir import TopicPartition
from kraft.spark.client_options import client_settings
from kraft.spark.patterns import java_pattern
from kraft_native.base.errors import InvalidArgumentError

EARLIEST: Final = -2
LATEST: Final = -1

SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
OTHERS: Final = (
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
    "maxRecordsPerPartition", "groupIdPrefix", "includeHeaders", "path", "maxBytesPerPartition", "publishOffsets",
    "cleanupPolicy", "bootstrap.servers",
)
NAMES: Final = {name.lower(): name for name in (*SUBSCRIPTIONS, *STARTS, *ENDS, *OTHERS)}

ISOLATIONS: Final = ("read_uncommitted", "read_committed")
CLEANUP_POLICIES: Final = ("delete", "compact")
DURATION: Final = re.compile(r"(?P<count>\d+)\s*(?P<unit>us|ms|s|m|min|h|d|)")
UNIT_MS: Final = {"us": 0.001, "": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}

Kind = Literal["earliest", "latest", "offsets", "times", "time"]


@dataclass(frozen=True, slots=True)
class Bound:
    """Start or end of a read. `by_partition` has offsets (or `EARLIEST`, `LATEST`) or times; `time_ms` is the time for
    all partitions. `option` is the option that sets it."""

    kind: Kind
    option: str = ""
    by_partition: Mapping[TopicPartition, int] = field(default_factory=dict)
    time_ms: int = -1


@dataclass(frozen=True, slots=True)
class Subscription:
    """Topics or partitions to read. `partitions` for assign, `topics` for subscribe, `pattern` for subscribePattern;
    none of them: all topics."""

    kind: str
    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    def wants(self, topic: str) -> bool:
        """Return whether the subscription includes the topic's partitions (for assign: some of them)."""
        if self.kind == "assign":
            return any(each.topic == topic for each in self.partitions)
        if self.kind == "subscribe":
            return topic in self.topics
        if self.pattern is not None:
            return self.pattern.fullmatch(topic) is not None
        return not topic.startswith("__")


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read, each with its default filled in."""

    subscription: Subscription
    start: Bound
    end: Bound
    paths: tuple[str, ...] = ()
    client: Mapping[str, str] = field(default_factory=dict)
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    missing_time: Literal["error", "latest"] = "error"
    cleanup_policy: Literal["delete", "compact"] = "delete"
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int | None = None
    records_per_partition_max: int | None = None
    bytes_per_partition_max: int | None = None
    offsets_per_trigger_max: int | None = None
    offsets_per_trigger_min: int | None = None
    trigger_delay_max_ms: int = 900_000
    timeout_ms: int = 120_000
    offset_retries: int = 3
    offset_retry_interval_ms: int = 10
    group_id: str | None = None
    group_id_prefix: str = "spark-kafka-source"
    publish_offsets: str | None = None


def read_options(given: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Return the options of a batch or streaming read. Raise `InvalidArgumentError` for wrong ones."""
    options = _named(given)
    client = client_settings(given)
    isolation = client.pop("isolation.level", "read_uncommitted")
    if isolation not in ISOLATIONS:
        raise _wrong("kafka.isolation.level", isolation, " or ".join(ISOLATIONS))
    bootstrap = client.get("bootstrap.servers") or options.get("bootstrap.servers")
    paths = tuple(part.strip() for part in options.get("path", "").split(",") if part.strip())
    if bool(bootstrap) == bool(paths):
        raise InvalidArgumentError("one of the options kafka.bootstrap.servers (a cluster) and path (log directories) "
                                   f"must be given{', not both' if paths else ''}")
    if bootstrap:
        client["bootstrap.servers"] = bootstrap
    if paths and options.get("publishOffsets"):
        raise InvalidArgumentError("option publishOffsets: offsets of a group are kept by a cluster, not in a path")
    if bootstrap and options.get("cleanupPolicy"):
        raise InvalidArgumentError("option cleanupPolicy: it says how logs in a path are kept; a cluster knows itself")
    group_id = client.pop("group.id", None)
    strategy = _one_of(options, "startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    return ReadOptions(
        subscription=_subscription(options, needed=not paths),
        start=_start(options, streaming=streaming), end=_end(options, streaming=streaming), paths=paths,
        client=client, isolation=isolation, missing_time=strategy,  # type: ignore[arg-type]
        cleanup_policy=_one_of(options, "cleanupPolicy", CLEANUP_POLICIES, "delete"),  # type: ignore[arg-type]
        fail_on_data_loss=flag(options, "failOnDataLoss", True),
        include_headers=flag(options, "includeHeaders", False),
        min_partitions=_count(options, "minPartitions"),
        records_per_partition_max=_count(options, "maxRecordsPerPartition"),
        bytes_per_partition_max=_count(options, "maxBytesPerPartition"),
        offsets_per_trigger_max=_count(options, "maxOffsetsPerTrigger"),
        offsets_per_trigger_min=_count(options, "minOffsetsPerTrigger"),
        trigger_delay_max_ms=duration_ms("maxTriggerDelay", options.get("maxTriggerDelay", "15m")),
        timeout_ms=_count(options, "kafkaConsumer.pollTimeoutMs") or 120_000,
        offset_retries=_count(options, "fetchOffset.numRetries", minimum=0, default=3) or 0,
        offset_retry_interval_ms=_count(options, "fetchOffset.retryIntervalMs", minimum=0, default=10) or 0,
        group_id=group_id, group_id_prefix=options.get("groupIdPrefix", "spark-kafka-source"),
        publish_offsets=options.get("publishOffsets"),
    )


def _named(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options that are not the client's, by the names that users write."""
    named = {}
    for key, value in given.items():
        name = key.lower()
        if name.startswith("kafka.") or value is None:
            continue
        if name not in NAMES:
            raise InvalidArgumentError(f"option {key}: there is no such option; there are {', '.join(NAMES.values())} "
                                       "and the client's, kafka.*")
        named[NAMES[name]] = value
    return named


def _subscription(options: Mapping[str, str], *, needed: bool) -> Subscription:
    given = [name for name in SUBSCRIPTIONS if name in options]
    if len(given) > 1 or (needed and not given):
        raise InvalidArgumentError(f"exactly one of the options {', '.join(SUBSCRIPTIONS)} must be given, "
                                   f"not {' and '.join(given) or 'none'}")
    if not given:
        return Subscription("all")
    name = given[0]
    text = options[name].strip()
    if name == "assign":
        assigned = _by_topic(name, text, '{"topic":[0,1]}',
                             lambda value: [(number, 0) for number in value] if isinstance(value, list) else None)
        if not assigned:
            raise _wrong(name, text, 'partitions, such as {"topic":[0,1]}')
        return Subscription(name, partitions=tuple(sorted(assigned)))
    if name == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not topics:
            raise _wrong(name, text, "topics, with commas between them")
        return Subscription(name, topics=topics)
    if not text:
        raise _wrong(name, text, "a regular expression")
    try:
        return Subscription(name, pattern=java_pattern(text))
    except re.error as error:
        raise _wrong(name, text, f"a regular expression of Java's that Python has, too: {error}") from error


def _start(options: Mapping[str, str], *, streaming: bool) -> Bound:
    bound = _bound(options, STARTS, "latest" if streaming else "earliest")
    if not streaming and (bound.kind == "latest" or LATEST in _offsets(bound)):
        raise _wrong("startingOffsets", options["startingOffsets"], "earliest or offsets: a batch query cannot start "
                     "at the latest offset")
    return bound


def _end(options: Mapping[str, str], *, streaming: bool) -> Bound:
    given = [name for name in ENDS if name in options]
    if streaming and given:
        raise InvalidArgumentError(f"option {given[0]}: a streaming query has no end")
    bound = _bound(options, ENDS, "latest")
    if bound.kind == "earliest" or EARLIEST in _offsets(bound):
        raise _wrong("endingOffsets", options["endingOffsets"], "latest or offsets: a query cannot end at the earliest "
                     "offset")
    return bound


def _offsets(bound: Bound) -> Iterable[int]:
    return bound.by_partition.values() if bound.kind == "offsets" else ()


def _bound(options: Mapping[str, str], names: tuple[str, str, str], default: Kind) -> Bound:
    """Return the bound of the first of the three options that is given, as in the connector."""
    for_all, by_time, by_offset = names
    if (text := options.get(for_all)) is not None:
        return Bound("time", for_all, time_ms=_number(for_all, text))
    if (text := options.get(by_time)) is not None:
        return Bound("times", by_time, _partition_numbers(by_time, text, 0))
    text = options.get(by_offset, default).strip()
    if text.lower() in ("earliest", "latest"):
        return Bound("earliest" if text.lower() == "earliest" else "latest", by_offset)
    return Bound("offsets", by_offset, _partition_numbers(by_offset, text, EARLIEST))


def _partition_numbers(name: str, text: str, minimum: int) -> dict[TopicPartition, int]:
    example = '{"topic":{"0":23,"1":45}}'
    found = _by_topic(name, text, example, lambda value: value.items() if isinstance(value, dict) else None)
    for number in found.values():
        if number < minimum:
            raise _wrong(name, text, f"{example} with numbers of at least {minimum}")
    return found


def _by_topic(name: str, text: str, example: str,
              pairs: Callable[[Any], Iterable[tuple[Any, Any]] | None]) -> dict[TopicPartition, int]:
    wrong = _wrong(name, text, f"JSON such as {example}")
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise wrong from error
    if not isinstance(parsed, dict):
        raise wrong
    found = {}
    for topic, value in parsed.items():
        entries = pairs(value)
        if entries is None:
            raise wrong
        for partition, number in entries:
            if isinstance(number, bool) or not isinstance(number, int) or not re.fullmatch(r"\d{1,10}", str(partition)):
                raise wrong
            found[TopicPartition(topic, int(partition))] = number
    return found


def duration_ms(name: str, text: str) -> int:
    """Parse a duration as Spark writes it: `15m`, `500ms`, `1h`."""
    found = DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise _wrong(name, text, "a time such as 500ms, 30s, 15m, 1h")
    return int(int(found["count"]) * UNIT_MS[found["unit"]])


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"\s*\d{1,18}\s*", text):
        raise _wrong(name, text, "a time in milliseconds since 1970")
    return int(text)


def _count(options: Mapping[str, str], name: str, *, minimum: int = 1, default: int | None = None) -> int | None:
    text = options.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\s*[+-]?\d{1,19}\s*", text) or not minimum <= int(text) < 2**63:
        raise _wrong(name, text, f"a whole number, at least {minimum}")
    return int(text)


def flag(options: Mapping[str, str], name: str, default: bool) -> bool:
    """Return an option that is `true` or `false`. Raise `InvalidArgumentError` for anything else."""
    return _one_of(options, name, ("true", "false"), str(default).lower()) == "true"


def flag_or_auto(options: Mapping[str, str], name: str) -> bool | None:
    """Return an option that is `true`, `false` or `auto` (None), its default. Raise `InvalidArgumentError` for anything
    else."""
    return {"true": True, "false": False}.get(_one_of(options, name, ("auto", "true", "false"), "auto"))


def _one_of(options: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    text = options.get(name, default).strip().lower()
    if text not in allowed:
        raise _wrong(name, text, " or ".join(allowed))
    return text


def _wrong(name: str, value: str, allowed: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"option {name}: {value!r} is not allowed; it is {allowed}")
