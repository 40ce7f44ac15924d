"""Records that one client writes and every other client reads unchanged: bytes, keys, nulls, headers, times, sizes,
codecs."""

import random
from collections.abc import Sequence

import pytest

from tests.integration.clients import (
    CLIENTS,
    CODECS,
    START_MS,
    Client,
    Read,
    Record,
    librdkafka_produce,
    librdkafka_read,
)
from tests.integration.process import NodeProcess

SPECIAL = (
    Record(None, b"no key", (), START_MS),
    Record(b"no value", None, (), START_MS + 1),
    Record(None, None, (), START_MS + 2),
    Record(b"", b"", (), START_MS + 3),
    Record(b"k", b"headers", (("a", b"1"), ("a", b"2"), ("empty", b""), ("\u00fc", bytes(range(256)))), START_MS - 5),
    Record(b"\x00\xff", "\u20ac".encode(), (("n", None),), START_MS + 4),
)


def plain(count: int, seed: int) -> list[Record]:
    """Create records of random, compressible content."""
    source = random.Random(seed)
    return [Record(b"k%d" % (i % 7), source.choice("abcdef").encode() * source.randrange(200), (), START_MS + i)
            for i in range(count)]


def numbered(records: Sequence[Record], start: int = 0) -> list[Read]:
    """Return the records as they come back from an empty partition."""
    return [Read(start + i, record) for i, record in enumerate(records)]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_by_every_client_is_read_by_every_client(node: NodeProcess, name: str, codec: str) -> None:
    records = []
    for seed, client in enumerate(CLIENTS):
        more = plain(40, seed)
        assert client.produce(node, name, more, codec) == list(range(len(records), len(records) + len(more)))
        records += more
    for client in CLIENTS:
        assert client.read(node, name, len(records)) == numbered(records)


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_null_keys_null_values_and_headers(node: NodeProcess, name: str, client: Client) -> None:
    # The two other clients refuse to send a record that has neither key nor value, and null headers.
    sent = [each for each in SPECIAL if client.name == "librdkafka"
            or (each[:2] != (None, None) and ("n", None) not in each.headers)]
    client.produce(node, name, sent)
    for reader in CLIENTS:
        assert reader.read(node, name, len(sent)) == numbered(sent)


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_idempotent_producers(node: NodeProcess, name: str, client: Client) -> None:
    records = plain(200, 5)
    assert client.produce(node, name, records, "lz4", idempotent=True) == list(range(200))
    assert client.produce(node, name, records, "lz4", idempotent=True) == list(range(200, 400))
    assert librdkafka_read(node, name, 400) == numbered(records * 2)


@pytest.mark.parametrize("client", CLIENTS, ids=str)
def test_large_records(node: NodeProcess, name: str, client: Client) -> None:
    records = [Record(b"small", b"1"), Record(b"large", random.Random(1).randbytes(1_000_000)), Record(b"small", b"2")]
    client.produce(node, name, records)
    assert client.read(node, name, 3) == numbered(records)


def test_many_records_in_many_batches(node: NodeProcess, name: str) -> None:
    records = plain(20_000, 9)
    librdkafka_produce(node, name, records, "zstd", batch_num_messages=97)
    assert librdkafka_read(node, name, len(records)) == numbered(records)


def test_acks_0_and_1(node: NodeProcess, name: str) -> None:
    records = plain(50, 3)
    librdkafka_produce(node, name, records, acks=1)
    librdkafka_produce(node, name, records, acks=0)
    assert librdkafka_read(node, name, 100) == numbered(records * 2)
