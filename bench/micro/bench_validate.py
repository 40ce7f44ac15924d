"""The leader's validation of batches of 100 B records, called as compiled code calls it, beside the CRC alone."""

import ctypes

import pytest

from kraft_native.base import crc
from kraft_native.batch import validate
from kraft_native.batch.batch import ATTRIBUTES_AT
from kraft_native.batch.records import BatchBuilder
from kraft_native.file import buffer
from tests import capi

NOW = 1_700_000_000_000


class Options(ctypes.Structure):
    """`ValidateOptions` of `batch/validate.pxd`."""

    _fields_ = [
        ("now_ms", ctypes.c_int64), ("before", ctypes.c_int64), ("after", ctypes.c_int64),
        ("bytes_max", ctypes.c_int64), ("ratio_max", ctypes.c_int64), ("batch_bytes_max", ctypes.c_int32),
        ("target_codec", ctypes.c_int32), ("target_level", ctypes.c_int32), ("timestamp_type", ctypes.c_int8),
        ("origin", ctypes.c_int8), ("key_required", ctypes.c_int),
    ]


def batch_of(size, codec="none"):
    builder = BatchBuilder(codec)
    while len(builder) == 0 or builder.size_in_bytes < size - 112:
        builder.append(b"v" * 100, None, NOW + len(builder) // 10)
    return builder.build(), len(builder)


@pytest.mark.parametrize("size", [64, 16384, 1 << 20])
@pytest.mark.parametrize("late", [False, True], ids=["CreateTime", "LogAppendTime"])
def test_validate(benchmark, size, late):
    benchmark.group = f"validate {size:7} bytes"
    data, count = batch_of(size)
    call = capi.function(validate, "validate_batch", ctypes.c_int, ctypes.c_char_p, ctypes.c_ssize_t, ctypes.c_void_p,
                         ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
    options = Options(NOW, 2**63 - 1, 3_600_000, 1 << 30, 1 << 15, 1 << 30, -1, 0, int(late), 0, 0)
    prepared = ctypes.create_string_buffer(512)
    arguments = (data, len(data), ctypes.addressof(options), buffer.Scratch(), buffer.Scratch(),
                 ctypes.addressof(prepared))
    assert benchmark(call, *arguments) == 0
    if benchmark.stats:             # not with --benchmark-disable
        benchmark.extra_info["GB/s"] = round(len(data) / benchmark.stats.stats.min / 1e9, 2)
        benchmark.extra_info["ns/record"] = round(benchmark.stats.stats.min / count * 1e9, 1)


@pytest.mark.parametrize("size", [64, 16384, 1 << 20])
def test_crc_alone(benchmark, size):
    benchmark.group = f"validate {size:7} bytes"
    data, _ = batch_of(size)
    benchmark(crc.checksum, data[ATTRIBUTES_AT:])


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed(benchmark, codec):
    """Measure through Python: decompression dominates."""
    benchmark.group = "validate 16 KiB of records, compressed"
    data, _ = batch_of(16384, codec)
    benchmark(validate.validate, data, now_ms=NOW)
