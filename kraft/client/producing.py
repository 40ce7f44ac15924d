"""What every idempotent producer does: a producer id of its own, and its numbers in each batch's header.

A broker refuses a sequence that it has had, so who keeps the id and makes the same batches again may send them as often
as need be.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Final, TypeVar

from kraft.client.cluster import Cluster
from kraft.client.connection import ConnectionFailedError
from kraft.client.refusals import RefusedError, check
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft_native import crc

Answer = TypeVar("Answer")

RETRY_PAUSE_SECONDS: Final = 0.1
SEQUENCES: Final = 1 << 31

# The newest version of Produce that names topics, and the newest that adds no partition to a transaction by itself.
PRODUCE_VERSION_MAX: Final = 12
TRANSACTIONAL_VERSION_MAX: Final = 11

# Where the checksum, the attributes' low byte and the producer's fields stand in a batch's header, and where what is
# checked begins.
CRC_POSITION: Final = 17
CHECKED_POSITION: Final = 21
ATTRIBUTES_POSITION: Final = 22
TRANSACTIONAL: Final = 0x10
PRODUCER: Final = struct.Struct(">qhi")
PRODUCER_POSITION: Final = 43

# What passes when a leader or a coordinator has moved, replicas are away for a while, a coordinator is still loading,
# the markers of a transaction that ended are still being written, or a topic was made a moment ago: whoever made it
# was answered by the controller, and brokers hear of it later.
PASSING: Final = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
})


def new_producer(cluster: Cluster, timeout: float) -> tuple[int, int]:
    """A producer id of our own, and its epoch. What passes is waited for, for `timeout` seconds; then, and for
    what does not pass at once, `RefusedError` or `ConnectionFailedError`."""
    def ask() -> tuple[int, int]:
        found = cluster.any().send(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
        check("a producer id", found.error_code)
        return found.producer_id, found.producer_epoch

    return persist(timeout, ask, cluster.close)


def persist(timeout: float, act: Callable[[], Answer], reset: Callable[[], None] = lambda: None) -> Answer:
    """What `act` gives, tried again for `timeout` seconds while it fails for what passes, each time after `reset` (a
    cluster's `close`, where connections are to be new). Then, and for what does not pass at once, `RefusedError` or
    `ConnectionFailedError`."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return act()
        except (ConnectionFailedError, RefusedError) as error:
            if time.monotonic() > deadline or (isinstance(error, RefusedError) and error.code not in PASSING):
                raise
        reset()
        time.sleep(RETRY_PAUSE_SECONDS)


def stamped(batch: bytes, producer: tuple[int, int], sequence: int, *, transactional: bool = False) -> bytes:
    """The batch with a producer's id and epoch, and the sequence of its first record, in its header; as part of a
    transaction when it is `transactional`."""
    data = bytearray(batch)
    if transactional:
        data[ATTRIBUTES_POSITION] |= TRANSACTIONAL
    PRODUCER.pack_into(data, PRODUCER_POSITION, *producer, sequence % SEQUENCES)
    with memoryview(data) as view:
        checksum = crc.checksum(view[CHECKED_POSITION:])
    struct.pack_into(">I", data, CRC_POSITION, checksum)
    return bytes(data)
