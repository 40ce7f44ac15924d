"""`metadata`: the `__cluster_metadata` log as tables: the cluster at one moment, and its events.

A node's own code replays the log, from the oldest snapshot that is needed, batch by batch. The changes of one batch are
one step. The log must be read in order, so each log is one task of one worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import pyarrow as pa

from kraft.files.partition_files import PartitionFiles
from kraft.log_dir import METADATA_TOPIC
from kraft.metadata.delta import MetadataDelta, PartitionChange
from kraft.metadata.image import EMPTY, RESOURCE_NAMES, MetadataImage
from kraft.metadata.replay import Replayer, logged_records
from kraft.metadata.snapshot import decode_snapshot
from kraft.protocol.ids import id_text
from kraft_native.base.errors import CorruptLogError, InvalidArgumentError
from kraft_native.batch.batch import Batch, walk
from kraft_native.file import file_io

DIRECTORY: Final = f"{METADATA_TOPIC}-0"
TIME: Final = pa.timestamp("ms", "UTC")
IDS: Final = pa.list_(pa.int32())

# Position of an event in the log.
PLACE: Final = {"offset": pa.int64(), "epoch": pa.int32(), "time": TIME}
PARTITION: Final = {"topic": pa.string(), "partition": pa.int32()}

# Tables of a moment.
STATE_TABLES: Final[dict[str, dict[str, pa.DataType]]] = {
    "topics": {"topic": pa.string(), "topic_id": pa.string(), "partitions": pa.int32()},
    "partitions": {**PARTITION, "leader": pa.int32(), "leader_epoch": pa.int32(), "partition_epoch": pa.int32(),
                   "replicas": IDS, "isr": IDS, "adding": IDS, "removing": IDS, "elr": IDS,
                   "recovering": pa.bool_()},
    "configs": {"resource": pa.string(), "name": pa.string(), "key": pa.string(), "value": pa.string()},
    "brokers": {"broker": pa.int32(), "broker_epoch": pa.int64(), "rack": pa.string(), "fenced": pa.bool_(),
                "shutting_down": pa.bool_(), "endpoints": pa.list_(pa.string())},
    "features": {"feature": pa.string(), "level": pa.int32()},
}
# Tables of events.
EVENT_TABLES: Final[dict[str, dict[str, pa.DataType]]] = {
    "topic_events": {**PLACE, "topic": pa.string(), "topic_id": pa.string(), "event": pa.string()},
    "leader_changes": {**PLACE, **PARTITION, "before": pa.int32(), "leader": pa.int32(), "leader_epoch": pa.int32(),
                       "isr": IDS, "unclean": pa.bool_()},
    "isr_changes": {**PLACE, **PARTITION, "before": IDS, "isr": IDS, "left": IDS, "joined": IDS},
    "isr_flaps": {**PARTITION, "broker": pa.int32(), "left_offset": pa.int64(), "left_time": TIME,
                  "back_offset": pa.int64(), "back_time": TIME, "seconds": pa.float64()},
    "broker_events": {**PLACE, "broker": pa.int32(), "event": pa.string()},
    "config_changes": {**PLACE, "resource": pa.string(), "name": pa.string(), "key": pa.string(),
                       "before": pa.string(), "value": pa.string()},
}
TABLES: Final = (*STATE_TABLES, *EVENT_TABLES)

Row = tuple[Any, ...]


@dataclass(slots=True)
class Place:
    """Position of a step in the log: its last record."""

    offset: int
    epoch: int
    time_ms: int

    def row(self) -> Row:
        return self.offset, self.epoch, self.time_ms


@dataclass(slots=True)
class History:
    """Events so far. `departed`: brokers that left the ISR of a partition, and the place where they did."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in EVENT_TABLES})
    departed: dict[tuple[UUID, int, int], Place] = field(default_factory=dict)

    def add(self, delta: MetadataDelta, place: Place) -> None:
        """Note the changes of one step."""
        for event, topics in (("created", delta.created_topics()), ("deleted", delta.removed_topics())):
            self.rows["topic_events"] += [(*place.row(), each.name, id_text(each.topic_id), event) for each in topics]
        for change in delta.partition_changes():
            self._partition(change, place)
        self._brokers(delta, place)
        self._configs(delta, place)

    def _partition(self, change: PartitionChange, place: Place) -> None:
        before, after = change.before, change.after
        name = (change.topic.name, change.index)
        if after is None:
            return
        if before is None or (before.leader, before.leader_epoch) != (after.leader, after.leader_epoch):
            unclean = before is not None and after.leader >= 0 and after.leader not in (*before.isr, *before.elr)
            self.rows["leader_changes"].append((*place.row(), *name, None if before is None else before.leader,
                                                after.leader, after.leader_epoch, after.isr, unclean))
        if before is None or before.isr == after.isr:
            return
        left = [each for each in before.isr if each not in after.isr]
        joined = [each for each in after.isr if each not in before.isr]
        self.rows["isr_changes"].append((*place.row(), *name, before.isr, after.isr, left, joined))
        for broker in left:
            self.departed[change.topic.topic_id, change.index, broker] = place
        for broker in joined:
            since = self.departed.pop((change.topic.topic_id, change.index, broker), None)
            if since is not None:
                self.rows["isr_flaps"].append((*name, broker, since.offset, since.time_ms, place.offset, place.time_ms,
                                               (place.time_ms - since.time_ms) / 1000))

    def _brokers(self, delta: MetadataDelta, place: Place) -> None:
        for broker in delta.brokers.touched:
            before, after = delta.brokers.before.get(broker), delta.brokers.now.get(broker)
            events = []
            if after is None:
                events.append("unregistered")
            else:
                if before is None or before.epoch != after.epoch:
                    events.append("registered")
                if before is not None and before.fenced != after.fenced:
                    events.append("fenced" if after.fenced else "unfenced")
                if before is not None and after.in_controlled_shutdown and not before.in_controlled_shutdown:
                    events.append("shutting down")
            self.rows["broker_events"] += [(*place.row(), broker, event) for event in events]

    def _configs(self, delta: MetadataDelta, place: Place) -> None:
        for resource in delta.configs.touched:
            before, after = delta.configs.before.get(resource, {}), delta.configs.now.get(resource, {})
            for key in dict.fromkeys([*before, *after]):
                if before.get(key) != after.get(key):
                    self.rows["config_changes"].append((*place.row(), resource_text(resource.type), resource.name, key,
                                                        before.get(key), after.get(key)))


class MetadataTask(NamedTuple):
    """One log for one worker: the arguments of `read_metadata`."""

    directory: Path
    until_offset: int | None = None
    until_ms: int | None = None


def read_task(task: MetadataTask) -> dict[str, pa.Table]:
    """Run `read_metadata` in a worker."""
    return read_metadata(task.directory, until_offset=task.until_offset, until_ms=task.until_ms)


def read_metadata(directory: Path, *, until_offset: int | None = None,
                  until_ms: int | None = None) -> dict[str, pa.Table]:
    """Return all tables by name: the cluster after the last included record, and the events since the log begins.

    `directory` is the metadata log's, or the one that it lies in. Records up to `until_offset`, inclusive, are
    included, or batches whose records are not younger than `until_ms`. Without either, all records are included; the
    last ones may not be committed yet. `InvalidArgumentError` when the log begins after that, `CorruptLogError` for
    damage.
    """
    partition = PartitionFiles(directory if directory.name == DIRECTORY else directory / DIRECTORY)
    replayer = Replayer(_first_image(partition))
    history = History()
    for batch in _batches(partition):
        if batch.last_offset <= replayer.offset:
            continue
        if (until_offset is not None and batch.base_offset > until_offset) or (
                until_ms is not None and batch.max_timestamp_ms > until_ms):
            break
        for record in logged_records(batch):
            if replayer.offset < record.offset and (until_offset is None or record.offset <= until_offset):
                replayer.replay_logged(record)
        for delta, image in replayer.take():
            history.add(delta, Place(image.offset, image.epoch, image.timestamp_ms))
    reached = replayer.image
    if (until_offset is not None and reached.offset > until_offset) or (
            until_ms is not None and reached.timestamp_ms > until_ms):
        raise InvalidArgumentError(f"{partition.directory}: what is left of the log begins with the state at offset "
                                   f"{reached.offset}; what was before that is not known")
    found = {name: table_of(schema, list(STATE_ROWS[name](reached))) for name, schema in STATE_TABLES.items()}
    return found | {name: table_of(schema, history.rows[name]) for name, schema in EVENT_TABLES.items()}


def _first_image(partition: PartitionFiles) -> MetadataImage:
    """Return the state where the log begins: that of the oldest snapshot from which the log continues."""
    start = partition.segments[0].base_offset
    if start == 0:
        return EMPTY
    snapshots = {int(path.name[:20]): path for path in partition.directory.glob("[0-9]*-[0-9]*.checkpoint")}
    ends = [end for end in snapshots if end >= start]
    if not ends:
        raise InvalidArgumentError(f"{partition.directory}: the log begins at offset {start}, and no snapshot says "
                                   "what was before")
    path = snapshots[min(ends)]
    return decode_snapshot(file_io.read_file(path)).image(min(ends), int(path.name[21:31]))


def _batches(partition: PartitionFiles) -> Iterator[Batch]:
    for segment in partition.segments:
        audit = partition.audit(segment)
        if audit is None:
            continue
        with audit:
            while audit.step():
                audit.take_events()
                yield from walk(audit.stretch(), check_crc=False)
            for position, _, offset, next_offset, what in audit.damage:
                if next_offset >= 0 or not segment.is_last:
                    raise CorruptLogError(str(segment.path(".log")), position, offset, next_offset, what)


def table_of(schema: dict[str, pa.DataType], rows: list[Row]) -> pa.Table:
    """Return rows as a table with these columns."""
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in schema]
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.values(), strict=True)],
                    names=list(schema))


def resource_text(kind: int) -> str:
    return RESOURCE_NAMES.get(kind, str(kind))


def _topic_rows(image: MetadataImage) -> Iterator[Row]:
    return ((each.name, id_text(each.topic_id), len(each.partitions)) for each in image.topics.values())


def _partition_rows(image: MetadataImage) -> Iterator[Row]:
    for topic, index, each in image.partitions():
        yield (topic.name, index, each.leader, each.leader_epoch, each.partition_epoch, each.replicas, each.isr,
               each.adding_replicas, each.removing_replicas, each.elr, bool(each.leader_recovery_state))


def _config_rows(image: MetadataImage) -> Iterator[Row]:
    for resource, values in image.configs.items():
        for key, value in values.items():
            yield resource_text(resource.type), resource.name, key, value


def _broker_rows(image: MetadataImage) -> Iterator[Row]:
    for each in image.brokers.values():
        yield (each.broker_id, each.epoch, each.rack, each.fenced, each.in_controlled_shutdown,
               [f"{point.name}://{point.host}:{point.port}" for point in each.endpoints])


def _feature_rows(image: MetadataImage) -> Iterator[Row]:
    return iter(image.features.items())


STATE_ROWS: Final[dict[str, Callable[[MetadataImage], Iterator[Row]]]] = {
    "topics": _topic_rows, "partitions": _partition_rows, "configs": _config_rows, "brokers": _broker_rows,
    "features": _feature_rows,
}
