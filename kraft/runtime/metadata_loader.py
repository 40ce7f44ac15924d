"""What a metadata log's directory says: the newest snapshot, replayed on by the log behind it."""

from dataclasses import dataclass
from pathlib import Path

from kraft.metadata.errors import MetadataLogError
from kraft.metadata.quorum import QuorumRecords, control_message
from kraft.metadata.replay import Replayer
from kraft.metadata.snapshot import decode_snapshot
from kraft.protocol.record_frames import decode_record
from kraft.runtime.snapshot_files import SnapshotId, list_snapshots
from kraft_native import fileio
from kraft_native.batch import walk
from kraft_native.control import control_records
from kraft_native.errors import CorruptRecordError
from kraft_native.log import Log
from kraft_native.records import records

READ_BYTES = 8 << 20


@dataclass(slots=True)
class LoadedMetadata:
    """`replayer` is at the end of the log; `snapshot` is what it began with (None: the empty image); `unreadable` are
    newer snapshots that were passed over, with the reason; `replayed_bytes` of log came behind the snapshot."""

    replayer: Replayer
    quorum: QuorumRecords
    snapshot: SnapshotId | None
    unreadable: list[tuple[SnapshotId, str]]
    replayed_bytes: int = 0


def load(directory: Path, log: Log) -> LoadedMetadata:
    """Replays what is there. A snapshot that cannot be read is passed over when an older one, or the log itself,
    reaches back far enough; else `MetadataLogError`. The log is not written to."""
    loaded = _newest_snapshot(directory, log)
    replayer, quorum = loaded.replayer, loaded.quorum
    offset = max(replayer.offset + 1, log.log_start_offset)
    while offset < log.log_end_offset:
        piece = log.read(offset, READ_BYTES, "log_end")
        if not len(piece):
            raise MetadataLogError(f"{directory}: nothing at offset {offset}, but the log ends at {log.log_end_offset}")
        loaded.replayed_bytes += len(piece)
        _replay(bytes(piece), offset, replayer, quorum)
        offset = piece.next_offset
    return loaded


def _newest_snapshot(directory: Path, log: Log) -> LoadedMetadata:
    unreadable: list[tuple[SnapshotId, str]] = []
    for snapshot in reversed(list_snapshots(directory)):
        if snapshot.end_offset < log.log_start_offset:
            break
        try:
            content = decode_snapshot(fileio.read_file(directory / snapshot.file_name))
            if snapshot.end_offset == 0:
                # What `format` wrote: voters, and no state.
                return LoadedMetadata(Replayer(), content.quorum, snapshot, unreadable)
            image = content.image(snapshot.end_offset, snapshot.epoch)
        except (CorruptRecordError, MetadataLogError) as error:
            unreadable.append((snapshot, str(error)))
        else:
            return LoadedMetadata(Replayer(image), content.quorum, snapshot, unreadable)
    if log.log_start_offset > 0:
        reasons = "; ".join(f"{snapshot.file_name}: {reason}" for snapshot, reason in unreadable)
        raise MetadataLogError(f"{directory}: the log begins at {log.log_start_offset}, and there is no readable "
                               f"snapshot that ends there or later{' (' + reasons + ')' if reasons else ''}")
    return LoadedMetadata(Replayer(), QuorumRecords(), None, unreadable)


def _replay(data: bytes, offset: int, replayer: Replayer, quorum: QuorumRecords) -> None:
    for batch in walk(data):
        if batch.is_control:
            for control in control_records(batch):
                if control.offset >= offset:
                    quorum.apply(control_message(control.type, control.value or b""), control.offset)
                    replayer.advance(control.offset, batch.leader_epoch, control.timestamp_ms)
        else:
            for record in records(batch):
                if record.offset >= offset:
                    message, _ = decode_record(record.value or b"")
                    replayer.replay(message, record.offset, batch.leader_epoch, record.timestamp_ms)
