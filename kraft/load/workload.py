"""A workload, and the requests of each of its connections.

The positions of fields in requests and replies are found with the codecs. A message is encoded twice with one field
changed, and the first byte that differs is the field's. So the native core needs no knowledge of any API.
"""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kraft.client import Cluster, Connection, RefusedError
from kraft.client.fetcher import Limits, fetch_request
from kraft.client.producer import PRODUCE_VERSION_MAX, produce_request
from kraft.load.errors import InvalidWorkloadError
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import encode_response_header
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.alter_client_quotas_response import EntryData as AnswerEntry
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kraft_native.batch.batch import HEADER_BYTES
from kraft_native.batch.records import BatchBuilder
from kraft_native.bench.load_generator import LoadSpec

KINDS: Final = ("ping", "produce", "fetch", "end-to-end", "commit")
FETCH_VERSION_MAX: Final = 11        # the last whose records have a plain length and whose topics have names
PING_VERSION_MAX: Final = 3
COMMIT_VERSION_MAX: Final = 1
COMMIT_LIMIT: Final = "controller_mutation_rate"
PRODUCE_TIMEOUT_MS: Final = 30_000
STAMP_BYTES: Final = 8
RECORD_OVERHEAD_BYTES: Final = 12
# Limits of which only the lower half of the mantissa differs: the generator writes a number there.
_LOWEST_LIMIT, _HIGHEST_LIMIT = struct.unpack(">2d", bytes.fromhex("409000000000000040900000ffffffff"))
_STAMP_MARK: Final = bytes(range(0xA0, 0xA8))


@dataclass(frozen=True, slots=True)
class Workload:
    """One load.

    `record_bytes` is the size of a record's value (8 to 64 Mi), `batch_bytes` the approximate size of a batch; a batch
    has at least one record. `rate` is requests per second over all connections, 0 for a closed loop with `in_flight`
    requests on each. `fetch_bytes` is max.bytes of a Fetch, which reads with read_committed if `committed`. Raises
    `InvalidWorkloadError`, which names the invalid setting.
    """

    kind: str
    connections: int = 1
    in_flight: int = 1
    rate: float = 0.0
    record_bytes: int = 100
    batch_bytes: int = 0
    acks: int = 1
    codec: str = "none"
    fetch_bytes: int = 1 << 20
    committed: bool = False
    topic: str = "kraft-bench"
    seed: int = 1

    def __post_init__(self) -> None:
        limits = {"connections": (1, 10_000), "in_flight": (1, 1 << 16), "record_bytes": (STAMP_BYTES, 64 << 20),
                  "batch_bytes": (0, 1 << 30), "fetch_bytes": (1, 1 << 30), "rate": (0, 100_000_000)}
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidWorkloadError(f"{name}: {value} is not in {low} to {high}")
        if self.kind not in KINDS:
            raise InvalidWorkloadError(f"kind: {self.kind!r} is not one of {', '.join(KINDS)}")
        if self.acks not in (0, 1, -1):
            raise InvalidWorkloadError(f"acks: {self.acks} is not 0, 1 or -1")
        if self.acks == 0 and self.rate == 0 and self.kind not in ("ping", "commit"):
            raise InvalidWorkloadError("acks: 0 has no replies, so it needs a rate")
        if self.kind == "fetch" and self.in_flight != 1:
            raise InvalidWorkloadError(f"in_flight: {self.in_flight}, but a Fetch reads on from its last reply: only 1")
        if self.kind == "end-to-end" and self.codec != "none":
            raise InvalidWorkloadError("codec: end-to-end stamps records, which it cannot inside a compressed batch")

    @property
    def records_per_batch(self) -> int:
        room = self.batch_bytes - HEADER_BYTES
        return max(1, room // (self.record_bytes + RECORD_OVERHEAD_BYTES))

    @property
    def interval_ns(self) -> int:
        """Time between two requests of one connection; 0 in a closed loop."""
        return round(1e9 * self.connections / self.rate) if self.rate else 0

    @property
    def loop(self) -> str:
        """Description of how requests are started."""
        if self.rate:
            return f"open: {self.rate:,.0f} requests/s are due, at most {self.in_flight} open per connection"
        return f"closed: {self.in_flight} open per connection, the next when a reply comes"

    def batch(self) -> bytes:
        """Build a batch of random values, the same for the same seed. The first value begins with room for a stamp."""
        values = random.Random(self.seed)
        builder = BatchBuilder(self.codec)
        for number in range(self.records_per_batch):
            mark = _STAMP_MARK if number == 0 else values.randbytes(STAMP_BYTES)
            builder.append(mark + values.randbytes(self.record_bytes - STAMP_BYTES), timestamp_ms=-1)
        return builder.build()


def ping_spec(workload: Workload, connection: Connection) -> LoadSpec:
    """Spec of ApiVersions, which costs a server next to nothing: it shows the price of a request itself."""
    request = ApiVersionsRequest(client_software_name="kraft-bench", client_software_version="1")
    version = connection.version(request.API_KEY, PING_VERSION_MAX)
    return LoadSpec(connection.socket.fileno(), connection.frame(request, version), workload.in_flight,
                    workload.interval_ns, error_position=4)


def commit_spec(workload: Workload, connection: Connection, client_id: str) -> LoadSpec:
    """Spec of AlterClientQuotas, each with another limit of one client id: one record in the metadata log."""
    version = connection.version(AlterClientQuotasRequest.API_KEY, COMMIT_VERSION_MAX)
    frames = [connection.frame(_limit_request(client_id, limit), version) for limit in (_LOWEST_LIMIT, _HIGHEST_LIMIT)]

    def answer(code: int) -> AlterClientQuotasResponse:
        return AlterClientQuotasResponse(entries=[AnswerEntry(error_code=code)])

    return LoadSpec(connection.socket.fileno(), frames[0], workload.in_flight, workload.interval_ns,
                    error_position=_code_position(answer, version), counter_position=_first_difference(*frames) - 4)


def forget_request(client_ids: Sequence[str]) -> AlterClientQuotasRequest:
    """Request that removes the limits of `commit_spec`."""
    return AlterClientQuotasRequest(entries=[entry for client_id in client_ids
                                             for entry in _limit_request(client_id, None).entries])


def _limit_request(client_id: str, limit: float | None) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=[EntryData(
        entity=[EntityData(entity_type="client-id", entity_name=client_id)],
        ops=[OpData(key=COMMIT_LIMIT, value=limit or 0.0, remove=limit is None)])])


def produce_spec(workload: Workload, connection: Connection, partition: int, *, stamped: bool = False) -> LoadSpec:
    """Spec that sends one batch to one partition repeatedly."""
    batch = workload.batch()
    request = produce_request({(workload.topic, partition): batch}, workload.acks, PRODUCE_TIMEOUT_MS)
    version = connection.version(request.API_KEY, PRODUCE_VERSION_MAX)
    frame = connection.frame(request, version)

    def answer(code: int) -> ProduceResponse:
        part = PartitionProduceResponse(index=partition, error_code=code)
        return ProduceResponse(responses=[TopicProduceResponse(name=workload.topic, partition_responses=[part])])

    spec = LoadSpec(connection.socket.fileno(), frame, workload.in_flight, workload.interval_ns,
                    no_reply=workload.acks == 0, error_position=_code_position(answer, version),
                    batch_bytes=len(batch), records=workload.records_per_batch)
    if stamped:
        spec = spec._replace(batch_position=frame.index(batch) - 4, stamp_position=batch.index(_STAMP_MARK))
    return spec


def fetch_spec(workload: Workload, connection: Connection, partition: int, first_offset: int, *, wait_ms: int = 500,
               wrap: bool = True, stamped: bool = False) -> LoadSpec:
    """Spec that reads one partition from `first_offset` on; with `wrap` it begins there again at the log's end."""
    limits = Limits(workload.fetch_bytes, workload.fetch_bytes, wait_ms=0 if wrap else wait_ms)

    def answer(code: int) -> FetchResponse:
        part = PartitionData(partition_index=partition, error_code=code, aborted_transactions=None, records=b"")
        return FetchResponse(responses=[FetchableTopicResponse(topic=workload.topic, partitions=[part])])

    version = connection.version(FetchRequest.API_KEY, FETCH_VERSION_MAX)
    frames = [connection.frame(fetch_request(workload.topic, partition, offset, limits,
                                             committed=workload.committed), version)
              for offset in (0, -1)]
    return LoadSpec(
        connection.socket.fileno(), frames[0], error_position=_code_position(answer, version),
        fetch_offset_position=_first_difference(*frames) - 4,
        records_position=len(_reply(answer(0), version)) - 4, first_offset=first_offset, wrap=wrap,
        reads_stamps=stamped)


def partitions_of(workload: Workload, cluster: Cluster) -> list[tuple[Connection, int]]:
    """Open, for each of the workload's connections, its own connection to the leader of a partition, round robin.
    Raises `RefusedError` for a partition without a leader. No connection stays open after an error."""
    nodes = {node.node_id: node for node in cluster.nodes()}
    partitions = sorted(cluster.topic(workload.topic).partitions, key=lambda each: each.partition_index)
    chosen = [partitions[number % len(partitions)] for number in range(workload.connections)]
    for each in chosen:
        if each.leader_id not in nodes:
            raise RefusedError(f"partition {workload.topic}-{each.partition_index}", ErrorCode.LEADER_NOT_AVAILABLE)
    opened: list[tuple[Connection, int]] = []
    try:
        for each in chosen:
            leader = nodes[each.leader_id]
            opened.append((cluster.connect(leader.host, leader.port), each.partition_index))
    except BaseException:
        for connection, _ in opened:
            connection.close()
        raise
    return opened


def _reply(response: Message, version: int) -> bytes:
    return encode_response_header(API_BY_KEY[response.API_KEY], version, 0) + response.encode(version)


def _code_position(answer: Callable[[int], Message], version: int) -> int:
    return _first_difference(_reply(answer(0), version), _reply(answer(-1), version))


def _first_difference(one: bytes, other: bytes) -> int:
    return next(place for place, (left, right) in enumerate(zip(one, other, strict=True)) if left != right)
