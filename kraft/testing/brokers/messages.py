"""What goes over connections of brokers, clients and controllers. Controllers' requests and answers are Kafka's own
messages; of Fetch and Produce only what replication looks at is carried."""

from typing import Final, NamedTuple

from kraft.broker.isr import Key
from kraft.protocol.message import Message
from kraft.testing.brokers.log import Batch

CONSUMER: Final = -1
"""The replica id of a Fetch that is no replica's."""


class ToController(NamedTuple):
    """Answered with the controller's response, or with `NotController`."""

    request: Message
    version: int


class NotController(NamedTuple):
    """The node that was asked is not the active controller."""


class Check(NamedTuple):
    """Answered with `Running`: an ApiVersions request that shows whether the process runs."""


class Running(NamedTuple):
    """The process runs."""


class FetchPart(NamedTuple):
    """One partition of a Fetch. `last_epoch`: -1 when who asks does not tell it."""

    key: Key
    leader_epoch: int
    fetch_offset: int
    last_epoch: int


class Fetch(NamedTuple):
    """Answered with `Fetched`. `broker_id` may be `CONSUMER`. `only_new`: the request before is held back still, and
    this one has other partitions."""

    broker_id: int
    broker_epoch: int
    parts: tuple[FetchPart, ...]
    only_new: bool


class FetchedPart(NamedTuple):
    """`diverging`: (epoch, end offset) of the leader's log where the follower's leaves it."""

    key: Key
    error: int
    high_watermark: int = -1
    log_start: int = -1
    batches: tuple[Batch, ...] = ()
    diverging: tuple[int, int] | None = None


class Fetched(NamedTuple):
    parts: tuple[FetchedPart, ...]


class Bounds(NamedTuple):
    """ListOffsets: answered with `BoundsAre`."""

    key: Key
    leader_epoch: int


class BoundsAre(NamedTuple):
    """`start_chain` is not on any wire: with it the judges know what a log begins with that begins anew."""

    error: int
    start: int = -1
    end: int = -1
    start_chain: int | None = None


class Produce(NamedTuple):
    """acks=all, one batch; answered with `Produced`."""

    key: Key
    producer: int
    producer_epoch: int
    sequence: int
    value: int
    records: int


class Produced(NamedTuple):
    error: int
    end_offset: int = -1
