"""Settings of one log.

One line per setting in `FIELDS`: name, unit, default, allowed values, effect. Names are Kafka's topic settings with `_`
for `.`; settings without a Kafka name are the engine's own. Defaults and ranges of Kafka's settings are read from
`log_settings.json`, which the node and its controller read too: a value that one of them accepts, all accept. The
documentation and the checks both come from this table.
"""

import json
import os
import re
from itertools import permutations
from typing import NamedTuple

cimport cython
from kraft_native.base.limits cimport (
    CODEC_GZIP, CODEC_LZ4, CODEC_NONE, CODEC_SNAPPY, CODEC_ZSTD, TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME,
)
from kraft_native.batch.codecs cimport CODEC_LEVEL_DEFAULT

from kraft_native.base.errors import InvalidArgumentError

cdef int64_t INT64_MAX_VALUE = 0x7FFFFFFFFFFFFFFF
cdef int64_t SEGMENT_BYTES_MIN = 14
# Room for two entries of the time index, the last of which stays free: a segment holds one indexed batch at least.
cdef int64_t INDEX_BYTES_MIN = 24

cdef dict NUMBERS = {"int": (-(1 << 31), (1 << 31) - 1), "long": (-(1 << 63), (1 << 63) - 1), "double": (None, None)}
cdef object BOUNDS = re.compile(r"\[(-?[0-9]+),\.\.\.(?:,(-?[0-9]+))?\](?: or (-?[0-9]+))?")


class Field(NamedTuple):
    """One setting. `allowed` is a (smallest, largest) pair for numbers, or a tuple of words. `lowest`: the smallest
    number but one, where numbers in between are not allowed; None where all are."""

    name: str
    kafka_name: str | None
    unit: str
    default: int | float | str
    allowed: tuple
    doc: str
    lowest: int | float | None = None


cdef dict read_facts():
    """Read Kafka's facts about the settings of logs, by name."""
    with open(os.path.join(os.path.dirname(__file__), "log_settings.json"), "rb") as file:
        sections = json.load(file)
    return {fact["name"]: fact for section in sections.values() for fact in section}


cdef dict FACTS = read_facts()


def _kafka(name, unit, doc, smallest=None, largest=None) -> Field:
    """Define a Kafka setting. `smallest` and `largest`: where the engine's range is wider than Kafka's."""
    fact = FACTS[name.replace("_", ".")]
    default, text = fact["default"], fact.get("range", "")
    if fact["type"] == "list":
        words = text.strip("[]").split(", ")
        allowed = tuple(",".join(each) for count in range(len(words)) for each in permutations(words, count + 1))
        return Field(name, fact["name"], unit, ",".join(default), allowed, doc)
    if fact["type"] == "string":
        return Field(name, fact["name"], unit, default, tuple(text.strip("[]").split(", ")), doc)
    low, high = NUMBERS[fact["type"]]
    lowest = None
    if found := BOUNDS.fullmatch(text):
        low = int(found[1]) if smallest is None else smallest
        high = high if found[2] is None else int(found[2])
        if found[3] is not None:
            low, lowest = int(found[3]), low
    high = high if largest is None else largest
    if isinstance(default, float):
        low, high = float(low), float(high)
    return Field(name, fact["name"], unit, default, (low, high), doc, lowest)


def _own(name, unit, default, allowed, doc) -> Field:
    return Field(name, None, unit, default, allowed, doc)


FIELDS: tuple[Field, ...] = (
    _kafka("segment_bytes", "bytes", "size at which a new segment is begun", smallest=SEGMENT_BYTES_MIN),
    _kafka("segment_ms", "ms", "record time after which a new segment is begun"),
    _kafka("segment_jitter_ms", "ms", "largest random reduction of segment.ms"),
    _kafka("segment_index_bytes", "bytes", "size of an index that begins a new segment; below 24: as 24"),
    _kafka("index_interval_bytes", "bytes", "bytes of batches between two index entries"),
    _kafka("retention_bytes", "bytes", "size of the log to keep; below 0: no limit"),
    _kafka("retention_ms", "ms", "age of segments to keep; -1: no limit"),
    _kafka("max_message_bytes", "bytes", "largest batch that a leader accepts"),
    _kafka("message_timestamp_before_max_ms", "ms", "how far before the clock a record's time may lie"),
    _kafka("message_timestamp_after_max_ms", "ms", "how far after the clock a record's time may lie"),
    _kafka("message_timestamp_type", "", "whose clock records carry"),
    _kafka("cleanup_policy", "", "how old data goes: whole segments, or superseded records of a key"),
    _kafka("compression_type", "", "codec that batches are stored with; producer: as they come"),
    _kafka("compression_gzip_level", "", "gzip level, 1 to 9; -1: the library's default"),
    _kafka("compression_lz4_level", "", "lz4 level"),
    _kafka("compression_zstd_level", "", "zstd level"),
    _kafka("delete_retention_ms", "ms", "how long a cleaner keeps tombstones"),
    _kafka("min_compaction_lag_ms", "ms", "age that a record has before it is compacted"),
    _kafka("max_compaction_lag_ms", "ms", "age after which a record must be compacted"),
    _kafka("min_cleanable_dirty_ratio", "", "share of uncompacted bytes that starts a compaction"),
    _own("durability", "", "page-cache", ("page-cache", "group-commit", "per-append"),
         "when an append counts as durable: at once, after a shared flush, after a flush of its own"),
    _own("crash_damage", "", "keep", ("keep", "cut"),
         "damage before sound batches after a crash that was not known to be durable: kept and refused, or the end"),
    _own("flush_bytes", "bytes", 1 << 20, (1, INT64_MAX_VALUE), "group commit: unflushed bytes that start a flush"),
    _own("flush_interval_us", "us", 1000, (0, 60_000_000), "group commit: age of unflushed bytes that starts a flush"),
    _own("high_watermark", "", "auto", ("auto", "manual"),
         "auto: follows what is durable; manual: set by the program that replicates the log"),
    _own("decompressed_bytes_max", "bytes", 128 << 20, (1, 1 << 40), "largest decompressed size of one batch"),
    _own("decompress_ratio_max", "", 10_000, (1, INT64_MAX_VALUE),
         "largest decompressed over compressed size, where that is more than 1 MiB"),
    _kafka("producer_id_expiration_ms", "ms", "idle time after which an idempotent producer is forgotten",
           largest=INT64_MAX_VALUE),
)

cdef dict BY_NAME = {field.name: field for field in FIELDS}
cdef dict BY_KAFKA_NAME = {field.kafka_name: field for field in FIELDS if field.kafka_name}
cdef dict CODECS = {"producer": -1, "uncompressed": CODEC_NONE, "gzip": CODEC_GZIP, "snappy": CODEC_SNAPPY,
                    "lz4": CODEC_LZ4, "zstd": CODEC_ZSTD}
cdef dict DURABILITIES = {"page-cache": DURABILITY_PAGE_CACHE, "group-commit": DURABILITY_GROUP_COMMIT,
                          "per-append": DURABILITY_PER_APPEND}


cdef object checked(object field, object value):
    """Convert the value to the field's type, or raise an error that names field, value and range."""
    allowed = field.allowed
    unit = f" {field.unit}" if field.unit else ""
    if isinstance(field.default, str):
        if value not in allowed:
            raise InvalidArgumentError(f"{field.name}: {value!r} is not one of {', '.join(allowed)}")
        return value
    kinds = (int, float) if isinstance(field.default, float) else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise InvalidArgumentError(f"{field.name}: {value!r} is not a number{unit and ' of' + unit}")
    if not allowed[0] <= value <= allowed[1]:
        raise InvalidArgumentError(f"{field.name}: {value}{unit} is outside {allowed[0]} to {allowed[1]}")
    if field.lowest is not None and allowed[0] < value < field.lowest:
        raise InvalidArgumentError(f"{field.name}: {value} is outside {field.lowest} to {allowed[1]} and is not "
                                   f"{allowed[0]}")
    return float(value) if isinstance(field.default, float) else value


@cython.final
cdef class LogConfig:
    """Settings of one log: `LogConfig(segment_bytes=1 << 20)`. See `FIELDS` for names, units, defaults and ranges.

    Immutable. Raises `InvalidArgumentError` for an unknown name or a value outside its range.
    """

    def __init__(self, **settings):
        unknown = [name for name in settings if name not in BY_NAME]
        if unknown:
            raise InvalidArgumentError(f"unknown setting {unknown[0]!r}; known: {', '.join(BY_NAME)}")
        value = {name: checked(field, settings.get(name, field.default)) for name, field in BY_NAME.items()}
        self.segment_bytes = value["segment_bytes"]
        self.segment_ms = value["segment_ms"]
        self.segment_jitter_ms = value["segment_jitter_ms"]
        self.segment_index_bytes = value["segment_index_bytes"]
        self.index_interval_bytes = value["index_interval_bytes"]
        self.retention_bytes = value["retention_bytes"]
        self.retention_ms = value["retention_ms"]
        self.max_message_bytes = value["max_message_bytes"]
        self.message_timestamp_before_max_ms = value["message_timestamp_before_max_ms"]
        self.message_timestamp_after_max_ms = value["message_timestamp_after_max_ms"]
        self.message_timestamp_type = value["message_timestamp_type"]
        self.cleanup_policy = value["cleanup_policy"]
        self.compression_type = value["compression_type"]
        self.compression_gzip_level = value["compression_gzip_level"]
        self.compression_lz4_level = value["compression_lz4_level"]
        self.compression_zstd_level = value["compression_zstd_level"]
        self.delete_retention_ms = value["delete_retention_ms"]
        self.min_compaction_lag_ms = value["min_compaction_lag_ms"]
        self.max_compaction_lag_ms = value["max_compaction_lag_ms"]
        self.min_cleanable_dirty_ratio = value["min_cleanable_dirty_ratio"]
        self.durability = value["durability"]
        self.crash_damage = value["crash_damage"]
        self.flush_bytes = value["flush_bytes"]
        self.flush_interval_us = value["flush_interval_us"]
        self.high_watermark = value["high_watermark"]
        self.decompressed_bytes_max = value["decompressed_bytes_max"]
        self.decompress_ratio_max = value["decompress_ratio_max"]
        self.producer_id_expiration_ms = value["producer_id_expiration_ms"]
        self.derive()

    cdef int derive(self) except -1:
        """Fill the derived values, and check the settings that depend on each other."""
        if self.max_compaction_lag_ms < self.min_compaction_lag_ms:
            raise InvalidArgumentError(f"max_compaction_lag_ms: {self.max_compaction_lag_ms} ms is below "
                                       f"min_compaction_lag_ms, {self.min_compaction_lag_ms} ms")
        self.index_bytes_max = max(self.segment_index_bytes, INDEX_BYTES_MIN)
        self.durability_kind = DURABILITIES[self.durability]
        self.compact = "compact" in self.cleanup_policy
        self.delete = "delete" in self.cleanup_policy
        self.high_watermark_auto = self.high_watermark == "auto"
        self.validation.now_ms = 0
        self.validation.origin = 0
        self.validation.timestamp_before_max_ms = self.message_timestamp_before_max_ms
        self.validation.timestamp_after_max_ms = self.message_timestamp_after_max_ms
        self.validation.limits.bytes_max = self.decompressed_bytes_max
        self.validation.limits.ratio_max = self.decompress_ratio_max
        self.validation.batch_bytes_max = <int32_t>self.max_message_bytes
        self.validation.target_codec = CODECS[self.compression_type]
        self.validation.target_level = self.level()
        self.validation.timestamp_type = (TIMESTAMP_LOG_APPEND_TIME if self.message_timestamp_type == "LogAppendTime"
                                          else TIMESTAMP_CREATE_TIME)
        self.validation.key_required = self.compact
        self.validation.bounded = False
        return 0

    cdef int32_t level(self) except? -1:
        """The level for `compression_type`, on the codec's own scale."""
        if self.compression_type == "gzip" and self.compression_gzip_level != -1:
            return <int32_t>self.compression_gzip_level
        if self.compression_type == "lz4":
            return <int32_t>self.compression_lz4_level
        if self.compression_type == "zstd":
            return <int32_t>self.compression_zstd_level
        return CODEC_LEVEL_DEFAULT

    @staticmethod
    def from_kafka(settings) -> LogConfig:
        """Convert Kafka's topic settings given as strings: `{"segment.bytes": "1048576"}`. The engine's own settings
        may be among them under their own names. Raises `InvalidArgumentError` for unknown names."""
        values = {}
        for name, text in settings.items():
            field = BY_KAFKA_NAME.get(name) or BY_NAME.get(name)
            if field is None:
                raise InvalidArgumentError(f"unknown setting {name!r}; known: {', '.join(BY_KAFKA_NAME)}")
            if isinstance(field.default, str):
                values[field.name] = text.replace(" ", "")
                continue
            try:
                values[field.name] = type(field.default)(text)
            except ValueError:
                raise InvalidArgumentError(f"{name}: {text!r} is not a number") from None
        return LogConfig(**values)

    def replace(self, **changes) -> LogConfig:
        """A copy with these settings changed."""
        return LogConfig(**(self.as_dict() | changes))

    def as_dict(self) -> dict:
        """Every setting by name."""
        return {name: getattr(self, name) for name in BY_NAME}

    def __eq__(self, other) -> bool:
        if not isinstance(other, LogConfig):
            return NotImplemented
        return self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.as_dict().values()))

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in self.as_dict().items() if value != BY_NAME[name].default]
        return f"LogConfig({', '.join(changed)})"
