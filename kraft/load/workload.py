"""A workload, and the requests of each of its connections.

The positions of fields in requests and replies are found with the codecs. A message is encoded twice with one field
changed, and the first byte that differs is the field's. So the native core needs no knowledge of any API.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kraft.client import Connection
from kraft.client.fetcher import Limits, fetch_request
from kraft.client.producer import PRODUCE_VERSION_MAX, produce_request
from kraft.load.errors import InvalidWorkloadError
from kraft.load.payload import (
    POOL_BATCHES_MAX,
    POOL_BYTES_MAX,
    RECORD_OVERHEAD_BYTES,
    STAMP_BYTES,
    Batch,
    batches,
    keys_of,
    parse_keys,
    values_of,
)
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.headers import encode_response_header
from kraft.protocol.message import Message
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft.protocol.messages.alter_client_quotas_response import EntryData as AnswerEntry
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.fetch_request import FetchRequest
from kraft.protocol.messages.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from kraft.protocol.messages.produce_request import ProduceRequest
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from kraft_native.batch.batch import HEADER_BYTES
from kraft_native.bench.load_generator import LoadFrame, LoadSpec

KINDS: Final = ("ping", "produce", "fetch", "end-to-end", "commit")
FETCH_VERSION_MAX: Final = 11        # the last whose records have a plain length and whose topics have names
PING_VERSION_MAX: Final = 3
COMMIT_VERSION_MAX: Final = 1
COMMIT_LIMIT: Final = "controller_mutation_rate"
PRODUCE_TIMEOUT_MS: Final = 30_000
# Limits of which only the lower half of the mantissa differs: the generator writes a number there.
_LOWEST_LIMIT, _HIGHEST_LIMIT = struct.unpack(">2d", bytes.fromhex("409000000000000040900000ffffffff"))


class Place(NamedTuple):
    """A partition, and how many its topic has."""

    topic: str
    partition: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Workload:
    """One load.

    `record_bytes` is the size of a record's value (8 to 64 Mi), `batch_bytes` the approximate size of a batch; a batch
    has at least one record. `rate` is requests per second over all connections, 0 for a closed loop with `in_flight`
    requests on each. `fetch_bytes` is max.bytes of a Fetch, which reads with read_committed if `committed`. Several
    `topics` have names with a number. `groups` read every partition beside the producers. With `spread` a connection
    is a producer of one topic, with a connection to each broker, that sends to all of its partitions.

    `keys` is a distribution (see `payload.parse_keys`). Values are the lines of `payload_file`, or its content with
    `whole_file`. They have the lengths in `payload_lengths`, or else `record_bytes`. `random_share` is the part of a
    value that is random. `pool` is the number of different batches of a connection, 0 for as many as keys and values
    need. Raises `InvalidWorkloadError`, which names the invalid setting.
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
    topics: int = 1
    groups: int = 1
    spread: bool = False
    keys: str = "none"
    payload_file: str = ""
    payload_lengths: str = ""
    whole_file: bool = False
    random_share: float = 1.0
    pool: int = 0

    def __post_init__(self) -> None:
        limits = {"connections": (1, 10_000), "in_flight": (1, 1 << 16), "record_bytes": (STAMP_BYTES, 64 << 20),
                  "batch_bytes": (0, 1 << 30), "fetch_bytes": (1, 1 << 30), "rate": (0, 100_000_000),
                  "topics": (1, 1_000), "groups": (1, 1_000), "random_share": (0, 1), "pool": (0, POOL_BATCHES_MAX)}
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
        if self.groups > 1 and self.kind != "end-to-end":
            raise InvalidWorkloadError(f"groups: {self.groups}, but only end-to-end has groups of readers")
        if self.payload_file and self.payload_lengths:
            raise InvalidWorkloadError("payload_lengths: the values are those of the payload_file already")
        if self.spread and self.kind == "fetch":
            raise InvalidWorkloadError("spread: only producers spread over partitions")
        if self.topics > self.connections and self.kind in ("produce", "end-to-end", "fetch"):
            raise InvalidWorkloadError(f"connections: {self.connections} is below {self.topics}, the number of topics")
        parse_keys(self.keys)

    @property
    def topic_names(self) -> list[str]:
        """Return the topics: the name itself, or with a number behind it when there are several."""
        width = len(str(self.topics - 1))       # all names have the same length: see `produce_spec`
        return [self.topic] if self.topics == 1 else [f"{self.topic}-{number:0{width}}" for number in
                                                      range(self.topics)]

    @property
    def has_varied_records(self) -> bool:
        """Return whether the batches of a connection differ."""
        has_lines = bool(self.payload_file) and not self.whole_file
        return bool(self.pool or self.payload_lengths) or has_lines or parse_keys(self.keys).number > 1

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

    def batches(self, place: Place, *, places: int = 1, stamped: bool = False) -> list[Batch]:
        """Build the pool of batches for one of a connection's `places`, the same for the same seed. All connections
        together have at most `POOL_BATCHES_MAX` batches, and each place has one."""
        wanted = self.pool or (POOL_BATCHES_MAX if self.has_varied_records else 1)
        values = values_of(self.record_bytes, self.random_share, self.payload_file, self.payload_lengths, self.seed,
                           whole_file=self.whole_file)
        keys = keys_of(self.keys, place.partition, place.partitions, self.seed)
        is_sized = self.batch_bytes and (self.payload_file or self.payload_lengths) and not self.whole_file
        return batches(values, keys, self.codec, self.batch_bytes,
                       records=0 if is_sized else self.records_per_batch if self.batch_bytes else 1,
                       count=max(1, min(wanted, POOL_BATCHES_MAX // (self.connections * places))),
                       bytes_max=POOL_BYTES_MAX // (self.connections * places), stamped=stamped)


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


def produce_spec(workload: Workload, connection: Connection, places: Sequence[Place], *, share: float | None = None,
                 stamped: bool = False) -> LoadSpec:
    """Spec that sends batches to the partitions, one after the other. `share` is the part of the workload's rate that
    is due on this connection; None is an equal one. All names of the topics have the same length, or there is one
    place."""
    version = connection.version(ProduceRequest.API_KEY, PRODUCE_VERSION_MAX)
    pools = [workload.batches(place, places=len(places), stamped=stamped) for place in places]
    frames = []
    for number in range(max(map(len, pools))):
        for place, pool in zip(places, pools, strict=True):
            batch = pool[number % len(pool)]
            request = produce_request({(place.topic, place.partition): batch.data}, workload.acks, PRODUCE_TIMEOUT_MS)
            frame = connection.frame(request, version)
            frames.append(LoadFrame(frame, frame.index(batch.data) - 4 if stamped else -1, len(batch.data), batch.stamp,
                                    batch.records))

    def answer(code: int) -> ProduceResponse:
        part = PartitionProduceResponse(index=places[0].partition, error_code=code)
        return ProduceResponse(responses=[TopicProduceResponse(name=places[0].topic, partition_responses=[part])])

    interval_ns = workload.interval_ns if share is None or not workload.rate else round(1e9 / workload.rate / share)
    first = frames[0]
    return LoadSpec(connection.socket.fileno(), first.frame, workload.in_flight, interval_ns,
                    no_reply=workload.acks == 0, error_position=_code_position(answer, version),
                    batch_position=first.batch_position, batch_bytes=first.batch_bytes,
                    stamp_position=first.stamp_position, records=first.records, more=frames[1:])


def fetch_spec(workload: Workload, connection: Connection, place: Place, first_offset: int, *, wait_ms: int = 500,
               wrap: bool = True, stamped: bool = False) -> LoadSpec:
    """Spec that reads one partition from `first_offset` on; with `wrap` it begins there again at the log's end."""
    limits = Limits(workload.fetch_bytes, workload.fetch_bytes, wait_ms=0 if wrap else wait_ms)

    def answer(code: int) -> FetchResponse:
        part = PartitionData(partition_index=place.partition, error_code=code, aborted_transactions=None, records=b"")
        return FetchResponse(responses=[FetchableTopicResponse(topic=place.topic, partitions=[part])])

    version = connection.version(FetchRequest.API_KEY, FETCH_VERSION_MAX)
    frames = [connection.frame(fetch_request(place.topic, place.partition, offset, limits,
                                             committed=workload.committed), version)
              for offset in (0, -1)]
    return LoadSpec(
        connection.socket.fileno(), frames[0], error_position=_code_position(answer, version),
        fetch_offset_position=_first_difference(*frames) - 4,
        records_position=len(_reply(answer(0), version)) - 4, first_offset=first_offset, wrap=wrap,
        reads_stamps=stamped)


def _reply(response: Message, version: int) -> bytes:
    return encode_response_header(API_BY_KEY[response.API_KEY], version, 0) + response.encode(version)


def _code_position(answer: Callable[[int], Message], version: int) -> int:
    return _first_difference(_reply(answer(0), version), _reply(answer(-1), version))


def _first_difference(one: bytes, other: bytes) -> int:
    return next(place for place, (left, right) in enumerate(zip(one, other, strict=True)) if left != right)
