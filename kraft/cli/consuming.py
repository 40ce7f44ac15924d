"""State of the partitions that `kraft consume` reads: the position in each, and those that return nothing."""

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kraft.cli.record_lines import Headers
from kraft.client import Cluster, ConnectionFailedError, RefusedError
from kraft.client.fetcher import AT_ONCE, Fetcher
from kraft.client.library_errors import library_error
from kraft.protocol.error_codes import ErrorCode
from kraft_native.base.errors import KraftError

Place = tuple[str, int]

# Errors after which the library retries by itself.
PASSING: Final = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._RESOLVE,
                  KafkaError._MAX_POLL_EXCEEDED)


class Places:
    """The partitions that are read. With `until_end` each must reach its end, and none may return nothing for more than
    `timeout` seconds before that."""

    def __init__(self, consumer: Consumer, timeout: float, *, until_end: bool) -> None:
        self.consumer = consumer
        self.timeout = timeout
        self.until_end = until_end
        self.group: str | None = None
        self._ends: dict[Place, int | None] = {}
        self._silent: dict[Place, float] = {}
        self._unassigned = 0.0

    def assign(self, places: Iterable[Place]) -> None:
        """Read these partitions. Their ends are fixed now: later records do not move them.

        Raises `RefusedError` or `ConnectionFailedError` for a partition whose end cannot be determined.
        """
        if self.until_end:
            self._ends = {place: range_of(self.consumer, place, self.timeout)[1] for place in places}
            self._silent = dict.fromkeys(self._ends, 0.0)

    def subscribe(self, group: str, places: Iterable[Place]) -> None:
        """Read those of these partitions that the group assigns."""
        self.group = group
        if self.until_end:
            self._ends = dict.fromkeys(places)
            self._silent = dict.fromkeys(self._ends, 0.0)

    def reached(self, place: Place, next_offset: int) -> None:
        """Record that everything before `next_offset` was printed."""
        end = self._ends.get(place)
        if end is not None and next_offset >= end:
            self.ended(place)
        elif place in self._silent:
            self._silent[place] = 0.0

    def ended(self, place: Place) -> None:
        """Record that the partition has nothing more for now."""
        self._ends.pop(place, None)
        self._silent.pop(place, None)

    def are_read(self, waited: float) -> bool:
        """Return whether every end is reached, after `waited` more seconds of waiting for records.

        Raises the error of a partition that returned nothing for too long. Never true unless the ends are wanted.
        """
        if not self.until_end:
            return False
        unread = self._unread(waited)
        if not unread:
            return self._unassigned == 0.0
        for place in unread:
            self._silent[place] += waited
            if self._silent[place] > self.timeout:
                raise self._cause(place)
        return False

    def _unread(self, waited: float) -> list[Place]:
        """Return the partitions of this consumer whose end was not reached."""
        if self.group is None:
            return list(self._ends)
        mine = [(each.topic, each.partition) for each in self.consumer.assignment()]
        self._unassigned = 0.0 if mine else self._unassigned + max(waited, 1e-9)
        if self._unassigned > self.timeout:
            raise ConnectionFailedError(f"group {self.group}: it assigned no partition to this member within "
                                        f"{self.timeout:g} s")
        return [place for place in mine if place in self._ends]

    def _cause(self, place: Place) -> KraftError:
        what = f"partition {place[0]}-{place[1]}"
        try:
            low, high = range_of(self.consumer, place, self.timeout)
        except KraftError as error:
            return error
        return ConnectionFailedError(f"{what}: nothing came within {self.timeout:g} s, although its leader has "
                                     f"offsets {low} to {high}")


def range_of(consumer: Consumer, place: Place, timeout: float) -> tuple[int, int]:
    """Return the first offset of a partition and the one after its last.

    Raises `RefusedError` when it has no leader or the leader refuses, `ConnectionFailedError` when no node answers.
    """
    what = f"partition {place[0]}-{place[1]}"
    try:
        found = consumer.list_topics(place[0], timeout=timeout).topics[place[0]].partitions.get(place[1])
        if found is not None and found.leader < 0:
            raise RefusedError(what, ErrorCode.LEADER_NOT_AVAILABLE)
        return consumer.get_watermark_offsets(TopicPartition(*place), timeout=timeout)
    except KafkaException as error:
        raise library_error(what, error.args[0]) from error


class ExactHeaders:
    """Headers of messages, with names of any bytes. The client library cannot return a name that is not UTF-8: then
    `cluster` fetches the record again."""

    def __init__(self, cluster: Cluster) -> None:
        self._fetcher = Fetcher(cluster, AT_ONCE, stall_seconds=0)
        self._fetched: dict[tuple[str, int, int], Headers] = {}

    def of(self, message: Message) -> Headers:
        """Return the headers of a message. Raises what `Fetcher.records` raises."""
        try:
            found: Any = message.headers()
        except (SystemError, UnicodeDecodeError):
            return self._exact(message.topic() or "", message.partition() or 0, message.offset() or 0)
        return found or ()

    def _exact(self, topic: str, partition: int, offset: int) -> Headers:
        if (topic, partition, offset) not in self._fetched:
            self._fetched = {(topic, partition, each.offset): each.headers
                             for each in self._fetcher.records(topic, partition, offset)}
        return self._fetched[topic, partition, offset]
