"""Overhead of the engine's layer above the file system, and the cost of replacing a whole file."""

import pytest

from kraft_native.file import file_io

DATA = bytes(4_096)


@pytest.mark.parametrize("durable", [False, True], ids=["page-cache", "durable"])
def test_write_atomic(benchmark, tmp_path, durable):
    benchmark.pedantic(lambda: file_io.write_atomic(tmp_path / "file", DATA, durable=durable), rounds=100)


def test_read_file(benchmark, tmp_path):
    (tmp_path / "file").write_bytes(DATA)
    assert benchmark(file_io.read_file, tmp_path / "file") == DATA
