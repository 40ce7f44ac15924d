"""Rows of Spark as record batches of their partitions, without an object per row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kraft.log_dir import TopicPartition
from kraft.spark.write_options import WriteOptions
from kraft_native.base.errors import InvalidArgumentError
from kraft_native.base.murmur import murmur2_partitions
from kraft_native.columns.encoder import encode_columns

GATHER_BYTES: Final = 1 << 20

Encoded = tuple[TopicPartition, bytes]


class RowEncoder:
    """Rows gathered by partition. A partition's rows are encoded when they are enough for a batch.

    `partitions_of` returns the number of partitions of a topic. A row goes to the partition in its column `partition`,
    else to that of its key, as with Kafka's default partitioner. Rows without a key go to another partition with each
    record batch of rows, in rotation.
    """

    def __init__(self, options: WriteOptions, partitions_of: Callable[[str], int]) -> None:
        self.options = options
        self._partitions_of = partitions_of
        self._waiting: dict[TopicPartition, list[pa.RecordBatch]] = {}
        self._waiting_bytes: dict[TopicPartition, int] = {}
        self._next_unkeyed = 0

    def add(self, rows: pa.RecordBatch) -> Iterator[Encoded]:
        """Accept rows; yield the batches that became ready to be sent."""
        for topic, part in self._by_topic(rows):
            places = self._places(topic, part)
            order = np.argsort(places, kind="stable")
            ordered = part.take(pa.array(order))
            bounds = np.flatnonzero(np.diff(places[order], prepend=-1, append=-1))
            for start, end in pairwise(bounds.tolist()):
                place = TopicPartition(topic, int(places[order[start]]))
                piece = ordered.slice(start, end - start)
                self._waiting.setdefault(place, []).append(piece)
                size = self._waiting_bytes.get(place, 0) + piece.nbytes
                self._waiting_bytes[place] = size
                if size >= GATHER_BYTES:
                    yield from self._encode(place)

    def finish(self) -> Iterator[Encoded]:
        """Yield the remaining batches."""
        for place in list(self._waiting):
            yield from self._encode(place)

    def _by_topic(self, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if not len(rows):
            return
        if self.options.topic is not None:
            yield self.options.topic, rows
            return
        column = rows["topic"]
        if column.null_count:
            raise InvalidArgumentError("column topic: a row has none; the option topic sets one for all rows")
        for topic in pc.unique(column):
            yield topic.as_py(), rows.filter(pc.equal(column, topic))

    def _places(self, topic: str, rows: pa.RecordBatch) -> np.ndarray:
        count = self._partitions_of(topic)
        places = self._by_key(rows, count)
        if "partition" in rows.schema.names:
            given = rows["partition"]
            there = given.is_valid().to_numpy(zero_copy_only=False)
            chosen = given.fill_null(0).to_numpy()
            wrong = there & ((chosen < 0) | (chosen >= count))
            if wrong.any():
                raise InvalidArgumentError(f"column partition: {int(chosen[wrong][0])} is not one of topic {topic}'s "
                                           f"{count} partitions")
            places = np.where(there, chosen, places)
        return places

    def _by_key(self, rows: pa.RecordBatch, count: int) -> np.ndarray:
        self._next_unkeyed = (self._next_unkeyed + 1) % count
        places = np.full(len(rows), self._next_unkeyed, np.int32)
        if "key" in rows.schema.names:
            keys = rows["key"].cast(pa.binary())
            keyed = keys.is_valid().to_numpy(zero_copy_only=False)
            _, offsets, data = keys.buffers()
            starts = np.frombuffer(offsets, np.int32)[keys.offset:keys.offset + len(keys) + 1]
            hashed = np.empty(len(rows), np.int32)
            murmur2_partitions(starts.data, np.frombuffer(data or b"", np.uint8).data, count, hashed.data)
            places = np.where(keyed, hashed, places)
        return places

    def _encode(self, place: TopicPartition) -> Iterator[Encoded]:
        rows = pa.Table.from_batches(self._waiting.pop(place)).combine_chunks().to_batches()[0]
        self._waiting_bytes.pop(place)
        names = rows.schema.names
        headers = None
        if self.options.include_headers and "headers" in names:
            headers = rows["headers"]
            if headers.null_count:
                headers = pc.fill_null(headers, pa.scalar([], headers.type))
        for batch in encode_columns(rows["value"], keys=rows["key"] if "key" in names else None, headers=headers,
                                    codec=self.options.codec, batch_bytes_max=self.options.batch_bytes):
            yield place, batch
