"""Record batches of hostile producers, sent through the wire to a real node. The node replies with Kafka's code and the
records that are wrong, appends nothing, and continues to serve. Each row is one check."""

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zstandard

from kraft.client import Cluster
from kraft.client.partitions import offset_of
from kraft.client.producer import produce_request
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.produce_request import ProduceRequest, TopicProduceData
from kraft.protocol.messages.produce_response import PartitionProduceResponse, ProduceResponse
from kraft_native.batch.batch import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    CRC_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    MAGIC_AT,
    OVERHEAD_BYTES,
    RECORD_COUNT_AT,
)
from kraft_native.batch.records import BatchBuilder
from tests.integration.admin import create
from tests.integration.hostile import Peer, peak_bytes, request
from tests.integration.process import NodeProcess
from tests.oracle import batch as oracle

MIB = 1 << 20
CORRUPT, TOO_LARGE, INVALID_TIMESTAMP, INVALID_RECORD, UNSUPPORTED_CODEC = 2, 10, 32, 87, 76
LATEST = -1
CODECS = oracle.CODECS
COMPRESSED = CODECS[1:]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(codec: str = "none", count: int = 3, key: bytes | None = b"k", **options: Any) -> bytes:
    now = now_ms()
    items = [oracle.OracleRecord(b"value %d" % index, key, now, [(b"h", b"x")]) for index in range(count)]
    return oracle.encode(items, codec, **options)


def patched(data: bytes, position: int, form: str, value: int, *, fix_crc: bool = True) -> bytes:
    """Return `data` with a field changed, and with the matching checksum."""
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    if fix_crc:
        struct.pack_into(">I", changed, CRC_AT, oracle.crc32c(bytes(changed[ATTRIBUTES_AT:])))
    return bytes(changed)


def raw(body: bytes, codec: str = "none", count: int = 1) -> bytes:
    """Build a batch of `count` records around any bytes."""
    return oracle.assemble(oracle.compress(codec, body), CODECS.index(codec), count - 1, now_ms(), now_ms(), count)


def record(value: bytes = b"v", **options: Any) -> bytes:
    return oracle.encode_record(oracle.OracleRecord(value, **options), 0, 0)


def with_header_count(count: bytes) -> bytes:
    """Build a record whose header count does not match what follows."""
    body = record(headers=[])
    assert body[-1:] == b"\0"
    body = body[1:-1] + count
    return oracle.encode_varint(len(body)) + body


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeProcess, Cluster]]:
    """A node with a topic that accepts anything and a compacted one."""
    node = NodeProcess(tmp_path_factory.mktemp("records") / "data")
    node.start()
    with Cluster(node.address) as cluster:
        create(node, "events")
        create(node, "state", config={"cleanup.policy": "compact"})
        yield node, cluster
    node.stop()
    assert node.alarms() == []


def produce(cluster: Cluster, records: bytes, topic: str = "events", version: int = 9) -> PartitionProduceResponse:
    request = produce_request({(topic, 0): records}, -1, 5000)
    return cluster.leader(topic, 0).send(request, ProduceResponse, version=version).responses[0].partition_responses[0]


def refused(served: tuple[NodeProcess, Cluster], records: bytes, code: int, wrong: list[int] | None = None,
            topic: str = "events") -> PartitionProduceResponse:
    """Check that the batch is refused with `code` and the positions of the wrong records, that nothing is appended, and
    that a good batch is appended afterwards."""
    node, cluster = served
    end = offset_of(cluster, topic, 0, LATEST)
    answer = produce(cluster, records, topic)
    assert (answer.error_code, answer.base_offset) == (code, -1)
    assert [each.batch_index for each in answer.record_errors] == (wrong or [])
    if code in (INVALID_RECORD, INVALID_TIMESTAMP):
        assert answer.error_message
    assert all(each.batch_index_error_message for each in answer.record_errors)
    assert offset_of(cluster, topic, 0, LATEST) == end
    good = produce(cluster, batch(count=1), topic)
    assert (good.error_code, good.base_offset) == (ErrorCode.NONE, end)
    assert node.running
    return answer


Served = tuple[NodeProcess, Cluster]


@pytest.mark.parametrize("codec", CODECS)
def test_wrong_checksum(served: Served, codec: str) -> None:
    data = batch(codec)
    refused(served, data[:-1] + bytes([data[-1] ^ 1]), CORRUPT)


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 14, 48])
def test_smaller_than_its_header(served: Served, length: int) -> None:
    refused(served, patched(batch()[:max(HEADER_BYTES, OVERHEAD_BYTES + length)], LENGTH_AT, ">i", length), CORRUPT)


@pytest.mark.parametrize(("magic", "code"), [(3, CORRUPT), (-1, CORRUPT), (127, CORRUPT),
                                             (0, INVALID_RECORD), (1, INVALID_RECORD)])
def test_other_formats(served: Served, magic: int, code: int) -> None:
    """Clients may not send the old formats; newer formats are unknown."""
    refused(served, patched(batch(), MAGIC_AT, ">b", magic), code)


@pytest.mark.parametrize("data", [b"", b"\0", batch()[:60], batch()[:-1]], ids=len)
def test_no_whole_batch(served: Served, data: bytes) -> None:
    refused(served, data, INVALID_RECORD)


@pytest.mark.parametrize("codec", CODECS)
def test_several_batches(served: Served, codec: str) -> None:
    refused(served, batch(codec) + batch(codec), INVALID_RECORD)


@pytest.mark.parametrize("offset", [1, -1, 2**62])
def test_base_offset(served: Served, offset: int) -> None:
    refused(served, patched(batch(), BASE_OFFSET_AT, ">q", offset), INVALID_RECORD)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("count", "last_delta"), [(0, 2), (-1, 2), (2, 2), (4, 2), (3, 1), (3, -1), (2**31 - 1, 2),
                                                   (2**31 - 1, 2**31 - 2)])
def test_count_that_the_offsets_contradict(served: Served, codec: str, count: int, last_delta: int) -> None:
    wrong = patched(batch(codec), RECORD_COUNT_AT, ">i", count)
    refused(served, patched(wrong, LAST_OFFSET_DELTA_AT, ">i", last_delta), INVALID_RECORD)


def test_control_batch(served: Served) -> None:
    refused(served, batch(attributes=oracle.CONTROL), INVALID_RECORD)


@pytest.mark.parametrize("sequence", [-1, -(2**31)])
def test_negative_sequence_of_an_idempotent_producer(served: Served, sequence: int) -> None:
    refused(served, batch(producer_id=1, producer_epoch=0, base_sequence=sequence), INVALID_RECORD)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(served: Served, codec: int) -> None:
    refused(served, patched(batch(), ATTRIBUTES_AT, ">h", codec), CORRUPT)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("data", [b"", b"\x01rubbish that is no stream", bytes(100)], ids=["nothing", "text", "zeros"])
def test_payload_that_is_not_compressed(served: Served, codec: str, data: bytes) -> None:
    refused(served, batch(codec, compressed=data), CORRUPT)


@pytest.mark.parametrize("codec", CODECS)
def test_malformed_records(served: Served, codec: str) -> None:
    good = record()
    for body in (b"", good[:-1], b"\x01" + good, good + b"\0", b"\xff" * 20, b"\x02" + good[1:]):
        refused(served, raw(body, codec), INVALID_RECORD)


@pytest.mark.parametrize("count", [oracle.encode_varint(1), oracle.encode_varint(2**31 - 1), oracle.encode_varint(-1),
                                   b"\xff" * 10], ids=["one", "many", "negative", "no-varint"])
def test_header_count_beyond_the_rest(served: Served, count: bytes) -> None:
    refused(served, raw(with_header_count(count)), INVALID_RECORD)


@pytest.mark.parametrize("inner", ["gzip", "none"])
def test_batch_inside_a_batch(served: Served, inner: str) -> None:
    """A compressed batch is not a record: its bytes are malformed as one."""
    refused(served, raw(batch(inner), "gzip"), INVALID_RECORD)


@pytest.mark.parametrize("codec", CODECS)
def test_missing_key_on_a_compacted_topic(served: Served, codec: str) -> None:
    now = now_ms()
    items = [oracle.OracleRecord(b"v", key, now) for key in (b"k", None, b"", None)]
    refused(served, oracle.encode(items, codec), INVALID_RECORD, [1, 3], topic="state")


def test_timestamps_out_of_range(served: Served) -> None:
    now = now_ms()
    items = [oracle.OracleRecord(b"v", b"k", time_ms) for time_ms in (now, now + 7_200_000, now, now + 10**10)]
    refused(served, oracle.encode(items), INVALID_TIMESTAMP, [1, 3])


def test_larger_than_allowed(served: Served) -> None:
    refused(served, oracle.encode([oracle.OracleRecord(bytes(MIB + 100), b"k", now_ms())]), TOO_LARGE)


def bomb_gzip() -> bytes:
    return oracle.compress("gzip", bytes(256 * MIB))


def bomb_zstd() -> bytes:
    press = zstandard.ZstdCompressor(level=1).compressobj()
    zeros = bytes(16 * MIB)
    return b"".join([*(press.compress(zeros) for _ in range(256)), press.flush()])


@pytest.mark.parametrize(("codec", "make"), [("gzip", bomb_gzip), ("zstd", bomb_zstd)])
def test_decompression_bomb(served: Served, codec: str, make: Callable[[], bytes]) -> None:
    """256 MiB and 4 GiB of zeros are refused after a bounded part of them was decompressed, in bounded memory and
    time."""
    node, cluster = served
    before = peak_bytes(node)
    data = batch(codec, compressed=make())
    assert len(data) < MIB
    began = time.monotonic()
    assert produce(cluster, data).error_code == TOO_LARGE
    assert time.monotonic() - began < 10
    assert peak_bytes(node) - before < 160 * MIB
    assert produce(cluster, batch()).error_code == ErrorCode.NONE


def test_topic_name_that_is_no_text(served: Served) -> None:
    """The name would come back in the answer, which no client could read."""
    node, _ = served
    body = ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name="XX")]).encode(7)
    for name in (b"\xc3\x28", b"\xff\xff", b"\xed\xa0", b"A\x80"):
        with Peer(node) as peer:
            peer.send(request("Produce", 7, body.replace(b"XX", name)))
            assert peer.rest() == b""


def test_several_refusals_in_one_request(served: Served) -> None:
    """Each partition has its own answer; the good ones among them are appended."""
    _, cluster = served
    builder = BatchBuilder()
    builder.append(b"good", b"key")
    parts = {("events", 0): builder.build(), ("state", 0): batch(key=None), ("nowhere", 0): batch()}
    answer = cluster.leader("events", 0).send(produce_request(parts, -1, 5000), ProduceResponse, version=9)
    codes = {each.name: each.partition_responses[0].error_code for each in answer.responses}
    assert codes == {"events": ErrorCode.NONE, "state": INVALID_RECORD, "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
