"""Digests of the replicas of a partition, read from each broker by Fetch: equal replicas have equal digests.

Brokers serve consumers from followers (KIP-392), so that the bytes come from each replica's own log. A batch belongs to
the block of its last offset, wherever answers end. Compaction runs on each replica at its own time, so a compacted
topic may differ without a fault.
"""

import time
from collections.abc import Iterator
from typing import Final, NamedTuple

import xxhash

from kraft.client import Cluster
from kraft.client.connection import Connection
from kraft.client.fetcher import FETCH_VERSION_MAX, Limits, fetch_request
from kraft.client.refusals import RefusedError, check
from kraft.console.parts import Part, attempt
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft_native.batch.batch import Batch, follow_batches, walk

BLOCK_OFFSETS: Final = 10_000
SECONDS: Final = 2.0
FETCH: Final = Limits(4 << 20, 4 << 20, wait_ms=100)


class Block(NamedTuple):
    """Batches whose last offset lies in block `number`: their count, their bytes, and XXH3 of those."""

    number: int
    batches: int
    size_bytes: int
    digest: str


class ReplicaDigest(NamedTuple):
    """One replica: its blocks, or why they could not be read. `end` is the offset up to which it was read."""

    broker: int
    blocks: Part[tuple[Block, ...]]
    end: int


class Comparison(NamedTuple):
    """Replicas of a partition over [start, end). `differing`: numbers of the blocks whose digests differ. The last
    block that was not read whole on every replica is not compared."""

    start: int
    end: int
    replicas: tuple[ReplicaDigest, ...]
    differing: tuple[int, ...]
    compared: int


def compare_replicas(cluster: Cluster, topic: str, partition: int, start: int, end: int,
                     brokers: tuple[int, ...]) -> Comparison:
    """Read [start, end) from each broker, for at most `SECONDS` each, and compare the blocks."""
    found = []
    for broker in brokers:
        blocks: list[Block] = []
        at = [start]
        part = attempt(lambda broker=broker, blocks=blocks, at=at: _read(  # type: ignore[misc]
            cluster.node(broker), topic, partition, at, end, blocks))
        found.append(ReplicaDigest(broker, Part(tuple(blocks)) if part.problem is None else Part(problem=part.problem),
                                   at[0]))
    read = [each for each in found if each.blocks.value is not None]
    limit = min((each.end for each in read), default=start)
    whole = limit // BLOCK_OFFSETS if limit < end else -(-end // BLOCK_OFFSETS)
    by_replica = [{block.number: block.digest for block in each.blocks.value or () if block.number < whole}
                  for each in read]
    numbers = sorted({number for each in by_replica for number in each})
    differing = tuple(number for number in numbers if len({each.get(number) for each in by_replica}) > 1)
    return Comparison(start, end, tuple(found), differing, len(numbers))


def _read(connection: Connection, topic: str, partition: int, at: list[int], end: int, blocks: list[Block]) -> None:
    """Append the blocks of one replica, and record in `at` how far it was read."""
    deadline = time.monotonic() + SECONDS
    hasher, number, batches, size = xxhash.xxh3_64(), at[0] // BLOCK_OFFSETS, 0, 0
    for batch in _batches(connection, topic, partition, at, end, deadline):
        if batch.last_offset // BLOCK_OFFSETS != number:
            if batches:
                blocks.append(Block(number, batches, size, hasher.hexdigest()))
            hasher, number, batches, size = xxhash.xxh3_64(), batch.last_offset // BLOCK_OFFSETS, 0, 0
        data = bytes(batch)
        hasher.update(data)
        batches, size = batches + 1, size + len(data)
    if batches:
        blocks.append(Block(number, batches, size, hasher.hexdigest()))


def _batches(connection: Connection, topic: str, partition: int, at: list[int], end: int,
             deadline: float) -> Iterator[Batch]:
    version = connection.version(FetchRequest.API_KEY, FETCH_VERSION_MAX)
    while at[0] < end and time.monotonic() < deadline:
        request = fetch_request(topic, partition, at[0], FETCH)
        answer = connection.send(request, FetchResponse, version=version)
        check("replica", answer.error_code)
        part = answer.responses[0].partitions[0]
        check("replica", part.error_code)
        if part.preferred_read_replica >= 0:
            raise RefusedError("replica", ErrorCode.NOT_LEADER_OR_FOLLOWER, "the broker sends readers elsewhere")
        data = memoryview(part.records or b"")
        whole, next_offset = follow_batches(data, at[0], gaps=True)
        if next_offset <= at[0]:
            return
        for batch in walk(data[:whole], check_crc=True):
            if batch.last_offset >= end:
                at[0] = end
                return
            yield batch
        at[0] = next_offset
