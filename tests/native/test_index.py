"""Offset index and time index: against their oracles, against Kafka's files, and against damaged files."""

from pathlib import Path

import pytest

from kraft_native.index import OffsetIndex, TimeIndex
from tests.golden import GoldenPartition, needs_golden, partitions



@needs_golden
@pytest.mark.parametrize("partition", partitions(), ids=str)
def test_kafka_indexes_decode_as_kafka_dumps_them_and_encode_to_the_same_bytes(
    partition: GoldenPartition, tmp_path: Path
) -> None:
    for name, facts in partition.files.items():
        source = partition.directory / name
        base_offset = int(name.split(".")[0]) if name[0].isdigit() else 0
        copy = tmp_path / name
        if name.endswith(".index"):
            expected = [(entry["offset"], entry["position"]) for entry in facts["entries"]]
            offset_index = OffsetIndex.open_sealed(source, base_offset)
            assert list(offset_index) == expected
            offset_index.check(source.with_suffix(".log").stat().st_size)
            written = OffsetIndex.create(copy, base_offset, 1 << 20)
            for offset, position in expected:
                written.append(offset, position)
            written.seal()
        elif name.endswith(".timeindex"):
            expected = [(entry["timestamp"], entry["offset"]) for entry in facts["entries"]]
            time_index = TimeIndex.open_sealed(source, base_offset)
            assert list(time_index) == expected
            time_index.check()
            times = TimeIndex.create(copy, base_offset, 1 << 20)
            for timestamp, offset in expected:
                assert times.maybe_append(timestamp, offset) == 1
            times.seal()
        else:
            continue
        assert copy.read_bytes() == source.read_bytes()
