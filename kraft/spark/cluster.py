"""Topics of a cluster with Kafka's API. Metadata, offsets and groups come through the client library (librdkafka).
Records come through our own Fetch, or through the library if the cluster requires TLS or SASL."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, OffsetSpec

from kraft.client import Cluster, RefusedError
from kraft.client.library_errors import library_error
from kraft.client.retries import persist
from kraft.log_dir import TopicPartition
from kraft.protocol.error_codes import ErrorCode
from kraft.spark.client_options import library_settings, own_security
from kraft.spark.fetch import RangeReader
from kraft.spark.library_fetch import LibraryReader
from kraft.spark.options import ReadOptions
from kraft.spark.positions import check_missing
from kraft.spark.splits import Range

if TYPE_CHECKING:
    from kraft.spark.positions import RecordColumns

# Assumed size of a record of unknown size.
RECORD_BYTES_GUESS: Final = 250
QUERY_SECONDS: Final = 30.0
# Time that a broker may take to restart before its address is reported as wrong.
REACH_SECONDS: Final = 3.0

EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]

Answer = TypeVar("Answer")


def check_reachable(client: Mapping[str, str], timeout: float) -> None:
    """Check that the cluster answers, because the library does not say why it cannot connect. Retry for some seconds
    when no broker answers. Raise what `Cluster.any` raises."""
    security = own_security(client)
    if security is not None:
        with Cluster(client["bootstrap.servers"], timeout=timeout, security=security) as cluster:
            persist(REACH_SECONDS, cluster.check_access, cluster.close)


class ClusterTopics:
    """Topics of a cluster, as a source reads them. Used by one thread at a time; it connects on first use."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._reader: RangeReader | LibraryReader | None = None

    @cached_property
    def _admin(self) -> AdminClient:
        check_reachable(self.options.client, self._seconds)
        try:
            return AdminClient(library_settings(self.options.client))
        except KafkaException as error:
            raise library_error("options kafka.*", error.args[0]) from error

    def partitions(self) -> list[TopicPartition]:
        subscription = self.options.subscription
        topics = self._query("topics", lambda: self._admin.list_topics(timeout=self._seconds).topics)
        found = sorted(TopicPartition(name, number) for name, topic in topics.items() if subscription.wants(name)
                       for number in topic.partitions)
        missing = [topic for topic in subscription.topics if topic not in topics]
        if subscription.kind == "assign":
            missing = [each.directory_name for each in subscription.partitions if each not in found]
            found = [each for each in found if each in subscription.partitions]
        if missing:
            check_missing(subscription.kind, missing, self.options.fail_on_data_loss,
                          RefusedError(f"option {subscription.kind}: {', '.join(missing)}",
                                       ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return found

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def at_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        found = self._offsets({each: OffsetSpec.for_timestamp(time_ms) for each, time_ms in times_ms.items()})
        return {each: offset if offset >= 0 else None for each, offset in found.items()}

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        names = sorted({each.topic for each in partitions})
        if not names:
            return {}
        futures = self._query("topic ids", lambda: {name: found.result() for name, found in self._admin.describe_topics(
            TopicCollection(names), request_timeout=self._seconds).items()})
        return {name: str(uuid.UUID(int=(found.topic_id.get_most_significant_bits() % 2**64 << 64)
                                    | found.topic_id.get_least_significant_bits() % 2**64))
                for name, found in futures.items()}

    def ranges(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> list[Range]:
        return [Range(each.topic, each.partition, start, end, (end - start) * RECORD_BYTES_GUESS)
                for each, (start, end) in spans.items() if start < end]

    def read(self, piece: Range, columns: Sequence[str]) -> Iterator[RecordColumns]:
        if self._reader is None:
            security = own_security(self.options.client)
            self._reader = LibraryReader(self.options) if security is None else RangeReader(self.options, security)
        return self._reader.read(piece, columns)

    def refresh(self) -> None:
        """Do nothing: nothing is cached, each call queries the cluster."""

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    @property
    def _seconds(self) -> float:
        return min(QUERY_SECONDS, self.options.timeout_ms / 1000)

    def _offsets(self, wanted: Mapping[TopicPartition, OffsetSpec]) -> dict[TopicPartition, int]:
        if not wanted:
            return {}
        level = (IsolationLevel.READ_COMMITTED if self.options.isolation == "read_committed"
                 else IsolationLevel.READ_UNCOMMITTED)
        futures = {confluent_kafka.TopicPartition(each.topic, each.partition): spec for each, spec in wanted.items()}
        found = self._query("offsets", lambda: {
            TopicPartition(each.topic, each.partition): answer.result().offset for each, answer in
            self._admin.list_offsets(futures, isolation_level=level, request_timeout=self._seconds).items()})
        return {each: found[each] for each in wanted}

    def _query(self, what: str, question: Callable[[], Answer]) -> Answer:
        """Return the cluster's answer. Retry as often as the options allow."""
        retries = self.options.offset_retries
        while True:
            try:
                return question()
            except KafkaException as error:
                if retries <= 0:
                    raise library_error(f"{self.options.client['bootstrap.servers']}: {what}", error.args[0]) from error
            retries -= 1
            time.sleep(self.options.offset_retry_interval_ms / 1000)
