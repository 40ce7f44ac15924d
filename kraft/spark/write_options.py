"""Options of a write, and the columns that it may have: as in Spark's Kafka connector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructType

from kraft.client.security import Security
from kraft.spark.client_options import check_settings, client_settings, own_security
from kraft.spark.options import flag, flag_or_auto
from kraft.spark.schema import HEADER
from kraft_native.base.errors import InvalidArgumentError

DELIVERIES: Final = ("exactly-once", "at-least-once")
NAMES: Final = {name.lower(): name for name in (
    "topic", "includeHeaders", "delivery", "stagingLocation", "transactions", "bootstrap.servers", "checkpointLocation",
    "path", "queryName")}
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
# The library's name for the partitioning that `RowEncoder` does too.
PARTITIONERS: Final = ("murmur2_random",)
ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}
TEXT: Final = (StringType().simpleString(), BinaryType().simpleString())

COLUMNS: Final = {"topic": TEXT[:1], "key": TEXT, "value": TEXT, "partition": (IntegerType().simpleString(),),
                  "headers": (ArrayType(HEADER).simpleString(),)}


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, each with its default filled in. `transactions`: whether exactly-once requires or
    excludes them; None: it uses them where the cluster has them."""

    bootstrap: str
    topic: str | None = None
    include_headers: bool = True
    delivery: Literal["exactly-once", "at-least-once"] = "at-least-once"
    staging: str | None = None
    codec: str = "none"
    acks: int = -1
    timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    topic_wait_ms: int = 30_000
    batch_bytes: int = 1_000_000
    transactions: bool | None = None
    transaction_timeout_ms: int = 300_000
    client: Mapping[str, str] = field(default_factory=dict)

    @property
    def security(self) -> Security | None:
        """Security of our own connections; None where only the client library supports the settings."""
        return own_security(self.client)


def write_options(given: Mapping[str, str], schema: StructType, *, streaming: bool) -> WriteOptions:
    """Return the options of a batch or streaming write of rows of `schema`. Raise `InvalidArgumentError` for wrong
    ones."""
    options = {}
    for key, value in given.items():
        if not key.lower().startswith("kafka."):
            if key.lower() not in NAMES:
                raise InvalidArgumentError(f"option {key}: there is no such option for a write; there are topic, "
                                           "includeHeaders, delivery, stagingLocation, transactions and the client's, "
                                           "kafka.*")
            options[NAMES[key.lower()]] = value
    client = client_settings(given)
    bootstrap = client.get("bootstrap.servers") or options.get("bootstrap.servers")
    if not bootstrap:
        raise InvalidArgumentError("option kafka.bootstrap.servers: it must be given, to write to a cluster")
    client["bootstrap.servers"] = bootstrap
    _check_columns(schema, options.get("topic"))
    delivery = options.get("delivery", DELIVERIES[0] if streaming else DELIVERIES[1])
    if delivery not in DELIVERIES or (delivery == DELIVERIES[0] and not streaming):
        raise InvalidArgumentError(f"option delivery: {delivery!r} is not allowed; a streaming query has "
                                   f"{' or '.join(DELIVERIES)}, a batch query {DELIVERIES[1]}")
    codec = _one_of("compression.type", client.get("compression.type", "none"), CODECS)
    acks = ACKS[_one_of("acks", client.get("acks", "all"), tuple(ACKS))]
    _one_of("partitioner", client.get("partitioner", PARTITIONERS[0]), PARTITIONERS)
    check_settings(client)
    batch_bytes = max(_number("batch.size", client.get("batch.size", "1000000")), 16_384)
    found = WriteOptions(
        bootstrap=bootstrap, topic=options.get("topic"), delivery=delivery,  # type: ignore[arg-type]
        include_headers=flag(options, "includeHeaders", True), transactions=flag_or_auto(options, "transactions"),
        staging=options.get("stagingLocation") or options.get("checkpointLocation"), codec=codec, acks=acks,
        timeout_ms=_number("delivery.timeout.ms", client.get("delivery.timeout.ms", "120000")),
        request_timeout_ms=_number("request.timeout.ms", client.get("socket.timeout.ms", "30000")),
        topic_wait_ms=_number("max.block.ms", client.get("topic.metadata.propagation.max.ms", "30000")),
        transaction_timeout_ms=_number("transaction.timeout.ms", client.get("transaction.timeout.ms", "300000")),
        batch_bytes=min(batch_bytes, _number("max.request.size", client.get("message.max.bytes", str(batch_bytes)))),
        client=client)
    if found.delivery == "exactly-once":
        _check_exactly_once(found)
    return found


def _check_exactly_once(options: WriteOptions) -> None:
    if options.staging is None:
        raise InvalidArgumentError("option stagingLocation: where a query's checkpoint is not given as its option "
                                   "checkpointLocation, a directory that all executors see must be, to write exactly "
                                   "once; or set delivery to at-least-once")
    scheme, separator, _ = options.staging.partition(":/")
    if separator and scheme != "file":
        raise InvalidArgumentError(f"option stagingLocation: {options.staging} is not a path of files that all "
                                   "executors see; give one, or set delivery to at-least-once")
    if options.security is None and options.transactions is False:
        raise InvalidArgumentError("option transactions: exactly-once is not possible without them where only the "
                                   "client library has the security that is wanted; leave it, or set delivery to "
                                   "at-least-once")
    if options.acks != -1:
        raise InvalidArgumentError("option kafka.acks: to write exactly once it is all")


def _check_columns(schema: StructType, topic: str | None) -> None:
    types = {each.name: each.dataType.simpleString() for each in schema.fields}
    if topic is None and "topic" not in types:
        raise InvalidArgumentError("option topic: it is required when the data has no column topic")
    if "value" not in types:
        raise InvalidArgumentError("column value: it is required, and the data has none")
    for name, allowed in COLUMNS.items():
        if name in types and types[name] not in allowed:
            raise InvalidArgumentError(f"column {name}: it is {types[name]}, and must be {' or '.join(allowed)}")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value.lower() not in allowed:
        raise InvalidArgumentError(f"option kafka.{name}: {value!r} is not one of {', '.join(allowed)}")
    return value.lower()


def _number(name: str, value: str) -> int:
    if not value.strip().isdecimal():
        raise InvalidArgumentError(f"option kafka.{name}: {value!r} is not a whole number")
    return int(value)
