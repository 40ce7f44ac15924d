"""Idempotent writes to partitions: a batch is stored once, however often it is sent, also by another process later.

A producer id is just a number, and a broker refuses a sequence that it already has. A writer that keeps the id and
produces the same batches with the same sequences may therefore restart at any time. It queries its progress and
continues from there, and the broker recognizes repeated batches. No transaction is needed, and two processes that do
the same work are harmless.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kraft.client import AuthenticationError, Cluster, ConnectionFailedError, RefusedError
from kraft.client.partitions import EARLIEST, LATEST, list_all_offsets
from kraft.client.producing import PASSING, PRODUCE_VERSION_MAX, RETRY_PAUSE_SECONDS
from kraft.client.refusals import check
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kraft.protocol.messages.describe_producers_response import DescribeProducersResponse
from kraft.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kraft.protocol.messages.fetch_response import FetchResponse
from kraft.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import ProduceResponse
from kraft_native.base.errors import KraftError
from kraft_native.batch.batch import follow_batches, walk

ACKS_ALL: Final = -1
PRODUCE_TIMEOUT_MS: Final = 30_000
FETCH_BYTES: Final = 8 << 20
FETCH_VERSION_MAX: Final = 12      # the newest that names topics


class IngestError(KraftError):
    """The records cannot be written exactly once; the message gives the reason."""


class Appended(NamedTuple):
    """End of a producer's records in a partition, as their number (`end`). `known`: the broker knows the producer, so
    it would detect a repeated batch. Otherwise the records were counted in the log."""

    end: int
    known: bool


class Writer:
    """Writer of one producer's batches to the partitions of a topic. One thread; a sequence for each partition.

    `starts` are offsets of the partitions from before the producer's first batch.
    """

    def __init__(self, cluster: Cluster, topic: str, producer: tuple[int, int], starts: Mapping[int, int]) -> None:
        self.cluster = cluster
        self.topic = topic
        self.producer = producer
        self.starts = starts

    def appended(self) -> dict[int, Appended]:
        """Return what each partition has of this producer. `IngestError` when that cannot be determined any more."""
        return {partition: self._appended(partition) for partition in self.starts}

    def _appended(self, partition: int) -> Appended:
        request = DescribeProducersRequest(topics=[TopicRequest(name=self.topic, partition_indexes=[partition])])
        answer = self.cluster.leader(self.topic, partition).send(request, DescribeProducersResponse)
        found = answer.topics[0].partitions[0]
        check(f"producers of {self.topic}-{partition}", found.error_code, found.error_message)
        for each in found.active_producers:
            if each.producer_id == self.producer[0]:
                return Appended(each.last_sequence + 1, True)
        return Appended(self._scanned(partition), False)

    def _scanned(self, partition: int) -> int:
        """Count the same in the log: a broker forgets a producer that was inactive for long."""
        metadata = [self.cluster.topic(self.topic)]
        name = (self.topic, partition)
        log_start = list_all_offsets(self.cluster, metadata, {name: EARLIEST})[name]
        end = list_all_offsets(self.cluster, metadata, {name: LATEST})[name]
        if log_start > self.starts[partition]:
            raise IngestError(f"{self.topic}-{partition}: the log starts at offset {log_start} by now, and the broker "
                              "has forgotten this job's producer: nobody knows what it wrote from "
                              f"{self.starts[partition]} on")
        offset, count = self.starts[partition], 0
        leader = self.cluster.leader(self.topic, partition)
        version = leader.version(FetchRequest.API_KEY, FETCH_VERSION_MAX)
        while offset < end:
            part = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            request = FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=-1,
                                   topics=[FetchTopic(topic=self.topic, partitions=[part])])
            found = leader.send(request, FetchResponse, version=version).responses[0].partitions[0]
            check(f"{self.topic}-{partition} at offset {offset}", found.error_code)
            data = memoryview(found.records or b"")
            whole, reached = follow_batches(data, offset, gaps=True)
            for batch in walk(data[:whole], check_crc=False):
                if batch.producer_id == self.producer[0] and not batch.is_control:
                    count = batch.base_sequence + batch.record_count
            if reached <= offset:
                break
            offset = reached
        return count

    def send(self, batches: Mapping[int, bytes]) -> None:
        """Append a signed batch to each of these partitions, and return when all replicas have them.

        A batch without an answer or a leader is sent again until the cluster's time-out; an existing batch is treated
        as sent. Raises `RefusedError` or `ConnectionFailedError`: then some batches may be stored."""
        left = dict(batches)
        deadline = time.monotonic() + self.cluster.timeout
        while left:
            failure: KraftError | None = None
            for leader, partitions in self._by_leader(left).items():
                try:
                    done = self._send_to(leader, {each: left[each] for each in partitions})
                except AuthenticationError:
                    raise
                except ConnectionFailedError as error:
                    failure = error
                    self.cluster.close()
                    break
                for partition, code in done.items():
                    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                        del left[partition]
                    else:
                        failure = RefusedError(f"{self.topic}-{partition}", code)
                        if code not in PASSING:
                            raise failure
            if left:
                if failure is None:    # nothing was refused, and nothing was sent
                    failure = RefusedError(f"{self.topic}-{min(left)}", ErrorCode.LEADER_NOT_AVAILABLE)
                if time.monotonic() > deadline:
                    raise failure
                time.sleep(RETRY_PAUSE_SECONDS)

    def _by_leader(self, partitions: Iterable[int]) -> dict[int, list[int]]:
        """Return partitions by the id of their leader; those without one are omitted and tried again."""
        found: dict[int, list[int]] = {}
        leaders = {each.partition_index: each.leader_id for each in self.cluster.topic(self.topic).partitions}
        for partition in partitions:
            if leaders.get(partition, -1) >= 0:
                found.setdefault(leaders[partition], []).append(partition)
        return found

    def _send_to(self, node_id: int, batches: Mapping[int, bytes]) -> dict[int, int]:
        """Send batches to one node. Return error codes by partition."""
        data = [PartitionProduceData(index=partition, records=batch) for partition, batch in batches.items()]
        request = ProduceRequest(acks=ACKS_ALL, timeout_ms=PRODUCE_TIMEOUT_MS,
                                 topic_data=[TopicProduceData(name=self.topic, partition_data=data)])
        leader = self.cluster.node(node_id)
        answer = leader.send(request, ProduceResponse, version=leader.version(request.API_KEY, PRODUCE_VERSION_MAX))
        return {each.index: each.error_code for each in answer.responses[0].partition_responses}
