"""Batches to columns and back: 100-byte values, 16 KiB batches, in records per round (see `extra_info`)."""

import os

import numpy as np
import pytest

from kraft_native.columns.encoder import encode_columns
from kraft_native.columns.reader import DEFAULT_COLUMNS, ColumnReader

RECORDS = 100_000
VALUE_BYTES = 100


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    return np.frombuffer(os.urandom(RECORDS * VALUE_BYTES), "uint8").reshape(RECORDS, VALUE_BYTES)


@pytest.fixture(scope="module")
def keys() -> np.ndarray:
    return np.array([b"key-%07d" % i for i in range(RECORDS)], "S11")


def encode(values, keys, codec="none"):
    times = np.arange(1_700_000_000_000, 1_700_000_000_000 + len(values))
    return encode_columns(values, keys=keys, timestamps=times, codec=codec, batch_bytes_max=16384)


@pytest.mark.parametrize("crc", [True, False], ids=["crc", "no-crc"])
@pytest.mark.parametrize("columns", [DEFAULT_COLUMNS, ("value",), ("offset",)], ids=["all", "value", "offset"])
def test_read(benchmark, values, keys, columns, crc):
    data = b"".join(encode(values, keys))
    reader = ColumnReader(columns, check_crc=crc)
    benchmark.extra_info["records"] = RECORDS
    assert len(benchmark(reader.read, data)) == RECORDS


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_read_compressed(benchmark, values, keys, codec):
    data = b"".join(encode(values, keys, codec))
    reader = ColumnReader()
    benchmark.extra_info["records"] = RECORDS
    assert len(benchmark(reader.read, data)) == RECORDS


def test_encode(benchmark, values, keys):
    benchmark.extra_info["records"] = RECORDS
    assert benchmark(lambda: sum(len(batch) for batch in encode(values, keys))) > RECORDS * VALUE_BYTES


def test_encode_values_only(benchmark, values):
    benchmark.extra_info["records"] = RECORDS
    encoded = benchmark(lambda: sum(len(batch) for batch in encode_columns(values, timestamps=0)))
    assert encoded > RECORDS * VALUE_BYTES
