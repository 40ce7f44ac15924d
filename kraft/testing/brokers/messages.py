"""Messages between brokers, clients and controllers. Controllers' requests and answers are Kafka's own messages. Fetch
and Produce carry only the fields that replication reads."""

from typing import Final, NamedTuple

from kraft.broker.isr import Key
from kraft.protocol.message import Message
from kraft.testing.brokers.log import Batch

CONSUMER: Final = -1
"""Replica id of a consumer's Fetch."""


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


class FetchPart(NamedTuple):
    """One partition of a Fetch. `last_epoch`: -1 when the client does not send it."""

    key: Key
    leader_epoch: int
    fetch_offset: int
    last_epoch: int


class Fetch(NamedTuple):
    """A Fetch, answered with `Fetched`. `broker_id` may be `CONSUMER`. `only_new`: the previous request is still
    parked, and this one has other partitions."""

    broker_id: int
    broker_epoch: int
    parts: tuple[FetchPart, ...]
    only_new: bool


class FetchedPart(NamedTuple):
    """One partition of a Fetch answer. `diverging`: (epoch, end offset) in the leader's log where the follower's log
    diverges."""

    key: Key
    error: int
    high_watermark: int = -1
    log_start: int = -1
    batches: tuple[Batch, ...] = ()
    diverging: tuple[int, int] | None = None


class Fetched(NamedTuple):
    parts: tuple[FetchedPart, ...]


class Bounds(NamedTuple):
    """A ListOffsets request, answered with `BoundsAre`."""

    key: Key
    leader_epoch: int


class BoundsAre(NamedTuple):
    """Start and end of a log. `start_chain` is not in any real message: it gives the judges the chain of a restarted
    log."""

    error: int
    start: int = -1
    end: int = -1
    start_chain: int | None = None


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
