"""Settings of one log.

One entry per setting in `FIELDS`: name, unit, default, allowed values, effect. Names are Kafka's topic settings with
`_` for `.`; settings without a Kafka name are the engine's own. All of it is read from `log_settings.json`, which the
node and its controller read too: a value that one of them accepts, all accept. The documentation and the checks both
come from this table, and `log_fields` is made from it.
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
    allowed: tuple[Any, ...]
    doc: str
    lowest: int | float | None = None


cdef object kafka_field(dict entry, dict fact):
    """Build the field of a Kafka setting. `smallest` and `largest` in the entry: where the engine's range is wider than
    Kafka's."""
    name, unit = entry["name"].replace(".", "_"), entry.get("unit", "")
    default, text = fact["default"], fact.get("range", "")
    if fact["type"] == "list":
        words = text.strip("[]").split(", ")
        allowed = tuple(",".join(each) for count in range(len(words)) for each in permutations(words, count + 1))
        return Field(name, fact["name"], unit, ",".join(default), allowed, entry["effect"])
    if fact["type"] == "string":
        return Field(name, fact["name"], unit, default, tuple(text.strip("[]").split(", ")), entry["effect"])
    low, high = NUMBERS[fact["type"]]
    lowest = None
    if found := BOUNDS.fullmatch(text):
        low = entry.get("smallest", int(found[1]))
        high = high if found[2] is None else int(found[2])
        if found[3] is not None:
            low, lowest = int(found[3]), low
    high = entry.get("largest", high)
    if isinstance(default, float):
        low, high = float(low), float(high)
    return Field(name, fact["name"], unit, default, (low, high), entry["effect"], lowest)


cdef object own_field(dict entry):
    return Field(entry["name"], None, entry.get("unit", ""), entry["default"], tuple(entry["allowed"]), entry["effect"])


cdef tuple read_fields():
    """Read the settings that the engine uses, Kafka's and its own."""
    with open(os.path.join(os.path.dirname(__file__), "log_settings.json"), "rb") as file:
        sections = json.load(file)
    facts = {fact["name"]: fact for name in ("topic", "broker") for fact in sections[name]}
    return tuple([kafka_field(entry, facts[entry["name"]]) if entry["name"] in facts else own_field(entry)
                  for entry in sections["engine"]])


FIELDS: tuple[Field, ...] = read_fields()

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
cdef class LogConfig(LogFields):
    """Settings of one log: `LogConfig(segment_bytes=1 << 20)`. See `FIELDS` for names, units, defaults and ranges.

    Immutable. Raises `InvalidArgumentError` for an unknown name or a value outside its range.
    """

    def __init__(self, **settings: Unpack[LogSettings]):
        unknown = [name for name in settings if name not in BY_NAME]
        if unknown:
            raise InvalidArgumentError(f"unknown setting {unknown[0]!r}; known: {', '.join(BY_NAME)}")
        value = {name: checked(field, settings.get(name, field.default)) for name, field in BY_NAME.items()}
        self.fill(value)
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
    def from_kafka(settings: Mapping[str, str]) -> LogConfig:
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

    def replace(self, **changes: Unpack[LogSettings]) -> LogConfig:
        """A copy with these settings changed."""
        return LogConfig(**(self.as_dict() | changes))

    def as_dict(self) -> dict[str, Any]:
        """Every setting by name."""
        return {name: getattr(self, name) for name in BY_NAME}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogConfig):
            return NotImplemented
        return self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        return hash(tuple(self.as_dict().values()))

    def __repr__(self) -> str:
        changed = [f"{name}={value!r}" for name, value in self.as_dict().items() if value != BY_NAME[name].default]
        return f"LogConfig({', '.join(changed)})"
