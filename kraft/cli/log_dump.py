"""`kraft log dump`: the content of a partition, as text or as one JSON object per line.

Records are what a read_uncommitted consumer sees: from the log start to the high watermark, without control records but
with those of aborted transactions. The high watermark is the owner's. For a log at rest it is the one in the checkpoint
beside its directory; without a checkpoint the log is shown to its end. In JSON records have the form of
`kraft consume --json`, so that `kraft produce --json` reads them. Batches, control records and indexes at rest are
shown to their end. Damage is reported on standard error and skipped, never shown.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from kraft.cli.examine import Finding
from kraft.cli.record_lines import json_line, name_bytes, record_fields
from kraft.files.indexes import read_entries
from kraft.files.partition_files import EPOCH_CHECKPOINT, PartitionFiles
from kraft.log_dir import TopicPartition
from kraft_native.base.errors import CorruptFileError, CorruptRecordError, MessageTooLargeError
from kraft_native.batch.batch import Batch, walk
from kraft_native.batch.control import control_records
from kraft_native.batch.records import Record, records
from kraft_native.segment import producer_snapshots
from kraft_native.segment.audit import SegmentAudit
from kraft_native.segment.txn_index import TransactionIndex

# With --digest, longer values are shown as length and SHA-256.
WHOLE_VALUE_BYTES_MAX = 64

Complain = Callable[[str], None]
Progress = Callable[[int], None]


class Range:
    """Offsets to show: [start, end), at most `count` items. `progress` is called with the bytes that were read."""

    def __init__(self, start: int, end: int | None, count: int | None,
                 progress: Progress = lambda _: None) -> None:
        self.start = start
        self.end = end if end is not None else 1 << 63
        self.left = count if count is not None else 1 << 63
        self.progress = progress

    def take(self) -> None:
        self.left -= 1


def stretches(partition: PartitionFiles, wanted: Range, complain: Complain) -> Iterator[tuple[SegmentAudit, bytes]]:
    """Yield sound batches of the wanted offsets, about a megabyte at a time, each with its walk."""
    for segment in partition.segments:
        if 0 <= segment.next_base <= wanted.start or segment.base_offset >= wanted.end or wanted.left <= 0:
            continue
        audit = partition.audit(segment)
        name = segment.path(".log").name
        if audit is None:
            complain(f"{name}: removed by the log's owner before it was read")
            continue
        with audit:
            reported = done = 0
            going = True
            while going and wanted.left > 0:
                going = audit.step()
                audit.take_events()
                wanted.progress(audit.position - done)
                done = audit.position
                for position, _, offset, next_offset, what in audit.damage[reported:]:
                    complain(f"damaged: {Finding(name, position, offset, what, next_offset, unreadable=True)}")
                reported = len(audit.damage)
                if going and audit.next_offset > wanted.start:
                    yield audit, audit.stretch()


def batches(partition: PartitionFiles, wanted: Range, complain: Complain) -> Iterator[tuple[SegmentAudit, int, Batch]]:
    """Yield wanted batches with their walk and their position in the file."""
    for audit, data in stretches(partition, wanted, complain):
        position = audit.stretch_position
        for batch in walk(data, check_crc=False):
            if batch.base_offset >= wanted.end or wanted.left <= 0:
                return
            if batch.last_offset >= wanted.start:
                yield audit, position, batch
            position += batch.size_in_bytes


def wanted_records(partition: PartitionFiles, wanted: Range, complain: Complain) -> Iterator[list[Record]]:
    """Yield the records of the wanted offsets, a batch at a time."""
    for audit, position, batch in batches(partition, wanted, complain):
        if batch.is_control:
            continue
        try:
            found = list(records(batch, check_crc=False))
        except (CorruptRecordError, MessageTooLargeError) as error:
            name = audit.path.rpartition(b"/")[2].decode()
            lost = Finding(name, position, batch.base_offset, str(error), batch.next_offset, unreadable=True)
            complain(f"damaged: {lost}")
            continue
        if batch.base_offset < wanted.start or batch.next_offset > wanted.end or len(found) > wanted.left:
            found = [record for record in found if wanted.start <= record.offset < wanted.end][:wanted.left]
        wanted.left -= len(found)
        yield found


def quoted(data: bytes | None) -> str:
    """Format a field as JSON: hex, or null."""
    return "null" if data is None else f'"{data.hex()}"'


def value_field(value: bytes | None) -> str:
    if value is not None and len(value) > WHOLE_VALUE_BYTES_MAX:
        return f'"value_ref":{{"len":{len(value)},"sha256":"{hashlib.sha256(value).hexdigest()}"}}'
    return f'"value":{quoted(value)}'


def digest_json(record: Record) -> str:
    """Format a record for the comparison of logs: fields in hex, a long value as its length and SHA-256."""
    headers = ",".join(f"[{json.dumps(name, ensure_ascii=False)},{quoted(value)}]" for name, value in record.headers)
    return (f'{{"offset":{record.offset},"timestamp":{record.timestamp_ms},"timestamp_type":"{record.timestamp_type}",'
            f'"leader_epoch":{record.leader_epoch},"key":{quoted(record.key)},'
            f'{value_field(record.value)},"headers":[{headers}]}}')


def plain_json(record: Record, source: TopicPartition | None) -> str:
    """Format a record as `kraft consume --json` does, with two fields that only the log knows. `source` is the
    partition; None for a directory that is not named after one."""
    topic, partition = source or (None, None)
    return json_line({
        **record_fields(record.offset, record.timestamp_ms, record.key, record.value, record.headers),
        "timestamp_type": record.timestamp_type, "leader_epoch": record.leader_epoch,
        "topic": topic, "partition": partition})


def shown(data: bytes | None) -> str:
    """Format a field for people, as text where it is text."""
    if data is None:
        return "null"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return json.dumps(text, ensure_ascii=False) if text.isprintable() else data.hex()


def shown_name(name: str) -> str:
    """Format a header's name for people, as hex where its bytes are not text."""
    return name if name.isprintable() else name_bytes(name).hex()


def record_text(record: Record) -> str:
    headers = "".join(f" {shown_name(name)}={shown(value)}" for name, value in record.headers)
    return f"{record.offset} {record.timestamp_ms} {shown(record.key)} {shown(record.value)}{headers}"


def batch_fields(audit: SegmentAudit, position: int, batch: Batch) -> dict[str, Any]:
    return {
        "file": audit.path.rpartition(b"/")[2].decode(), "position": position, "size": batch.size_in_bytes,
        "base_offset": batch.base_offset, "last_offset": batch.last_offset, "count": batch.record_count,
        "leader_epoch": batch.leader_epoch, "magic": batch.magic, "crc": batch.crc, "codec": batch.codec,
        "timestamp_type": batch.timestamp_type, "max_timestamp": batch.max_timestamp_ms,
        "producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence, "last_sequence": batch.last_sequence,
        "transactional": batch.is_transactional, "control": batch.is_control,
        "delete_horizon": batch.delete_horizon_ms,
    }


def control_fields(batch: Batch) -> Iterator[dict[str, Any]]:
    """Yield the control records of one control batch."""
    for record in control_records(batch, check_crc=False):
        yield {
            "offset": record.offset, "timestamp": record.timestamp_ms, "leader_epoch": record.leader_epoch,
            "type": record.type_name, "version": record.key_version, "producer_id": record.producer_id,
            "producer_epoch": record.producer_epoch, "coordinator_epoch": record.coordinator_epoch,
            "value": record.value.hex() if record.value is not None else None,
        }


def index_fields(partition: PartitionFiles, complain: Complain) -> Iterator[dict[str, Any]]:
    """Yield every entry of all index files, snapshots and the epoch checkpoint, in the order of the files' offsets."""
    for segment in partition.segments:
        for suffix in (".index", ".timeindex"):
            data = segment.read(suffix)
            name = segment.path(suffix).name
            if data is None:
                complain(f"{name}: missing")
                continue
            index = read_entries(suffix, data, preallocated=segment.is_last)
            for defect in index.defects:
                complain(f"{name}: {defect}")
            for entry in zip(*index.columns.values(), strict=True):
                fields = dict(zip(index.columns, entry, strict=True))
                fields["offset"] += segment.base_offset
                yield {"file": name, **fields}
        yield from txn_index_fields(segment.path(".txnindex"), segment.base_offset, complain)
    for path in partition.snapshots():
        try:
            for state in producer_snapshots.read_snapshot(path):
                yield {"file": path.name, **state._asdict()}
        except CorruptFileError as error:
            complain(f"{path.name}: {error}")
    try:
        for epoch, start_offset in partition.leader_epochs() or ():
            yield {"file": EPOCH_CHECKPOINT, "leader_epoch": epoch, "start_offset": start_offset}
    except CorruptFileError as error:
        complain(f"{EPOCH_CHECKPOINT}: {error}")


def txn_index_fields(path: Any, base_offset: int, complain: Complain) -> Iterator[dict[str, Any]]:
    try:
        for producer_id, first_offset, last_offset, last_stable_offset in TransactionIndex(path, base_offset):
            yield {"file": path.name, "producer_id": producer_id, "first_offset": first_offset,
                   "last_offset": last_offset, "last_stable_offset": last_stable_offset}
    except CorruptFileError as error:
        complain(f"{path.name}: {error}")


def fields_text(fields: dict[str, Any]) -> str:
    return " ".join(f"{name}={'-' if value is None else value}" for name, value in fields.items())


def fields_json(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))
