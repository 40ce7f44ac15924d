"""Producing: records of requests go to the cluster through one producer, and every request waits for its own.

All records are acknowledged by all in-sync replicas, and the producer is idempotent: a retry of its own does not store
a record twice.
"""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kraft.gateway.errors import RequestError, library_failure
from kraft.gateway.records import Outgoing

POLL_SECONDS: Final = 0.1
QUEUED_KIB: Final = 65_536
LINGER_MS: Final = 2
RECORDS_AT_ONCE: Final = 500
"""Records that are handed over before other tasks run."""


class Stored(NamedTuple):
    """A record that is stored, or why it is not."""

    partition: int
    offset: int
    error: RequestError | None = None

    @property
    def body(self) -> dict[str, object]:
        """The answer's part for this record."""
        if self.error is not None:
            return self.error.body
        return {"partition": self.partition, "offset": self.offset}


def producer_settings(settings: dict[str, Any], body_bytes: int, seconds: float) -> dict[str, Any]:
    """Return the settings of a producer on top of those of connections. The partition of a key is that of Kafka's own
    clients."""
    return {**settings, "enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": LINGER_MS,
            "message.max.bytes": max(body_bytes, 1_000), "queue.buffering.max.kbytes": QUEUED_KIB,
            "delivery.timeout.ms": int(seconds * 1000)}


class Producing:
    """Producer of one identity. Created and used on the loop's thread; `close` blocks until the thread has ended."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.records = 0
        self.is_broken = False
        """The library has given up: it stores nothing any more."""
        self._cause: KafkaError | None = None
        """The error after which it did."""
        self._loop = asyncio.get_running_loop()
        self._producer = Producer(settings)
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="kraft producer", daemon=True)
        self._thread.start()

    async def send(self, topic: str, records: Sequence[Outgoing]) -> list[Stored]:
        """Send records in their order, and return where each is stored once all have their answer. Raises
        `RequestError` when the queue has no room for the first one."""
        futures: list[asyncio.Future[Stored]] = []
        for number, record in enumerate(records, 1):
            if not number % RECORDS_AT_ONCE:
                await asyncio.sleep(0)
            future: asyncio.Future[Stored] = self._loop.create_future()
            try:
                self._hand_over(topic, record, future)
            except (BufferError, KafkaException) as error:
                self._note(error.args[0] if isinstance(error, KafkaException) else None)
                failure = _failure(topic, error)
                if not futures:
                    raise failure from error
                future.set_result(Stored(-1, -1, failure))
            futures.append(future)
        return await asyncio.gather(*futures)

    def close(self) -> None:
        """Wait for the records on their way, and end the thread. Blocks."""
        self._producer.flush(POLL_SECONDS * 50)
        self._stopping = True
        self._thread.join()

    def _hand_over(self, topic: str, record: Outgoing, future: "asyncio.Future[Stored]") -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            self._note(error)
            found = Stored(message.partition() or 0, message.offset() or 0) if error is None else \
                Stored(-1, -1, library_failure(f"topic {topic}", self._cause_of(error)))
            with suppress(RuntimeError):        # the loop has ended
                self._loop.call_soon_threadsafe(self._complete, future, found)

        self._producer.produce(topic, record.value, record.key, partition=record.partition,
                               timestamp=record.timestamp_ms, headers=list(record.headers) or None,
                               on_delivery=delivered)

    def _note(self, error: KafkaError | None) -> None:
        if error is not None and (error.fatal() or error.code() == KafkaError._FATAL):
            self.is_broken = True

    def _cause_of(self, error: KafkaError) -> KafkaError:
        """Return what is wrong with a record: not that it was purged, but why."""
        is_purged = error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
        return self._cause if is_purged and self._cause is not None else error

    def _complete(self, future: "asyncio.Future[Stored]", found: Stored) -> None:
        self.records += found.error is None
        if not future.done():
            future.set_result(found)

    def _work(self) -> None:
        while not self._stopping:
            try:
                self._producer.poll(POLL_SECONDS)
            except KafkaException as error:     # the library raises what it does not survive, once
                self._give_up(error.args[0])

    def _give_up(self, cause: KafkaError) -> None:
        """Answer the records that are queued, such as those of a user without a right to a producer id. The
        library would keep them until their time is up."""
        self._cause = cause
        self.is_broken = True
        self._producer.purge()


def _failure(topic: str, error: BufferError | KafkaException) -> RequestError:
    if isinstance(error, BufferError):
        return RequestError(503, "THROTTLING_QUOTA_EXCEEDED", "the queue of records is full", retry_after=1)
    return library_failure(f"topic {topic}", error.args[0])
