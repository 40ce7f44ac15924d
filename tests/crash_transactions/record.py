"""Record of a run that all client threads write: the history and the names of its partitions."""

import struct
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import confluent_kafka

from kraft.testing.transactions.history import NOT_OURS, History, Log, Transaction

VALUE: Final = struct.Struct(">qi")
"""Code of the append and number of its partition; padding follows."""
FILLER: Final = b"." * 200


@dataclass
class Record:
    """History of one chapter. `topics` has the number of partitions of each; `exclusive` is the topic whose writers
    hold `lock` for a whole transaction. `timeout_seconds` is the time-out of all transactions."""

    topics: Mapping[str, int]
    exclusive: str
    timeout_seconds: float
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.places = [(topic, index) for topic, count in self.topics.items() for index in range(count)]
        self.numbers = {place: number for number, place in enumerate(self.places)}
        self.history = History([f"{topic}-{index}" for topic, index in self.places], [Log() for _ in self.places],
                               exclusive=[topic == self.exclusive for topic, _ in self.places])
        self._guard = threading.Lock()

    def of_topic(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions."""
        return [number for number, (name, _) in enumerate(self.places) if name == topic]

    def new_producer(self, name: str) -> int:
        """Return the number of another producer. Each has a transactional id of its own."""
        with self._guard:
            number = len(self.history.producers)
            self.history.producers.append(f"{number} of {name}")
            return number

    def begin(self, producer: int) -> tuple[int, Transaction]:
        """Add a transaction and return its number with it."""
        with self._guard:
            found = self.history.begin(producer, time.monotonic())
            return len(self.history.transactions) - 1, found


def encode(code: int, partition: int) -> bytes:
    return VALUE.pack(code, partition) + FILLER[:code % len(FILLER)]


def code_in(message: confluent_kafka.Message, partition: int) -> int:
    """Return the code of a record, or `NOT_OURS` if it was not sent to this partition."""
    return code_of_value(message.value() or b"", partition)


def code_of_value(value: bytes, partition: int) -> int:
    """Return the code in a record's value, or `NOT_OURS` if it was not sent to this partition."""
    if len(value) < VALUE.size:
        return NOT_OURS
    code, sent_to = VALUE.unpack_from(value)
    return int(code) if sent_to == partition else NOT_OURS
