"""Messages between brokers, clients and controllers. Controllers' requests and answers are Kafka's own messages. A
follower's Fetch is sent as the bytes of its compiled fetcher. A client's Fetch and Produce are translated to and from
bytes where the broker receives them (`frames`)."""

from collections.abc import Callable
from typing import NamedTuple

from kraft.broker.isr import Key
from kraft.protocol.message import Message
from kraft.testing.brokers.log_view import Batch


class ToController(NamedTuple):
    """A request to the controller, answered with its response or with `NotController`."""

    request: Message
    version: int


class NotController(NamedTuple):
    """The answer of a node that is not the active controller."""


class Check(NamedTuple):
    """An ApiVersions request that shows whether the process runs, answered with `Running`."""


class Running(NamedTuple):
    """The process runs."""


class Call(NamedTuple):
    """Any request of a client as the frame that the broker reads. `decode` reads the frame of the answer, which the
    client receives as a `Message`."""

    frame: bytes
    decode: Callable[[bytes], Message]


class FetchPart(NamedTuple):
    """One partition of a Fetch."""

    key: Key
    leader_epoch: int
    fetch_offset: int


class Fetch(NamedTuple):
    """A consumer's Fetch, answered with `Fetched`."""

    parts: tuple[FetchPart, ...]


class FetchedPart(NamedTuple):
    """One partition of a Fetch answer."""

    key: Key
    error: int
    high_watermark: int = -1
    log_start: int = -1
    batches: tuple[Batch, ...] = ()


class Fetched(NamedTuple):
    parts: tuple[FetchedPart, ...]


class Bounds(NamedTuple):
    """A ListOffsets request, answered with `BoundsAre`."""

    key: Key
    leader_epoch: int


class BoundsAre(NamedTuple):
    """Start and end of a log."""

    error: int
    start: int = -1
    end: int = -1


class Produce(NamedTuple):
    """A Produce request with acks=all and one batch, answered with `Produced`."""

    key: Key
    producer: int
    producer_epoch: int
    sequence: int
    value: int
    records: int


class Produced(NamedTuple):
    error: int
    end_offset: int = -1
