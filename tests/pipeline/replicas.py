"""Data directories of several nodes for tests: the same batches, in segments of different sizes."""

from collections.abc import Iterable
from pathlib import Path

from kraft import LogConfig, LogDir
from kraft.log_dir import HIGH_WATERMARKS
from kraft_native.batch.records import BatchBuilder
from kraft_native.segment.checkpoints import read_offsets, write_offsets

START_MS = 1_700_000_000_000


def batches(count: int, *, records: int = 5, value: bytes = b"value") -> list[bytes]:
    """Return batches with consecutive offsets, equal in every call."""
    found = []
    for number in range(count):
        builder = BatchBuilder()
        for index in range(records):
            builder.append(b"%s %d" % (value, number * records + index), b"k%d" % index,
                           START_MS + number * 1000 + index)
        found.append(builder.build())
    return found


def write(directory: Path, node_id: int, data: Iterable[bytes], *, topic: str = "orders", partition: int = 0,
          segment_bytes: int = 1 << 20) -> Path:
    """Append the batches to a partition in a node's data directory, and stop cleanly."""
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=128)
    with LogDir(directory, node_id=node_id) as logs:
        log = logs.log(topic, partition, config=config)
        for batch in data:
            log.append(batch)
    return directory / f"{topic}-{partition}"


def set_high_watermark(directory: Path, offset: int, *, topic: str = "orders", partition: int = 0) -> None:
    marks = read_offsets(directory / HIGH_WATERMARKS)
    write_offsets(directory / HIGH_WATERMARKS, {**marks, (topic, partition): offset})
