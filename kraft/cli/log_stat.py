"""`kraft log stat`: figures of a partition, from its batch headers and the small files beside the log."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kraft.files.partition_files import PartitionFiles
from kraft_native.base.errors import CorruptFileError
from kraft_native.batch.batch import CODEC_NAMES
from kraft_native.segment import producer_snapshots


def statistics(partition: PartitionFiles, progress: Callable[[int], None] = lambda _: None) -> dict[str, Any]:
    """Walk all batch headers. Bytes that are not a batch are counted but not examined; `verify` does that."""
    codecs: Counter[str] = Counter()
    total: Counter[str] = Counter()
    times = []
    log_end = partition.segments[0].base_offset
    for segment in partition.segments:
        audit = partition.audit(segment, check_crc=False)
        if audit is None:
            continue
        with audit:
            done = 0
            while audit.step():
                audit.take_events()
                progress(audit.position - done)
                done = audit.position
        total.update(segments=1, batches=audit.batch_count, records=audit.record_count, bytes=audit.end_bytes,
                     control_batches=audit.control_batch_count, reserved_bytes=audit.reserved_bytes,
                     unreadable_bytes=audit.end_bytes - audit.sound_bytes)
        codecs.update({CODEC_NAMES[codec]: count for codec, count in audit.codecs.items()})
        times += [time for time in (audit.min_timestamp_ms, audit.max_timestamp_ms) if time >= 0]
        log_end = max(log_end, audit.next_offset)
    live = partition.live()
    return {
        "directory": str(partition.directory), "owner": "live" if live else None,
        "log_start": partition.log_start(), "log_end": log_end,
        "high_watermark": live["high_watermark"] if live else None,
        "last_stable_offset": live["last_stable_offset"] if live else None,
        **{name: total[name] for name in ("segments", "batches", "control_batches", "records", "bytes",
                                          "reserved_bytes", "unreadable_bytes")},
        "first_timestamp": min(times, default=None), "last_timestamp": max(times, default=None),
        "codecs": dict(codecs), "leader_epochs": readable(partition.leader_epochs),
        "producers": readable(lambda: producers(partition)),
    }


def readable(read: Callable[[], Any]) -> Any:
    """Return the result of `read`, or the reason why its file cannot be read."""
    try:
        return read()
    except CorruptFileError as error:
        return str(error)


def producers(partition: PartitionFiles) -> int:
    """Return the number of producers in the newest snapshot."""
    snapshots = list(partition.snapshots())
    return len(producer_snapshots.read_snapshot(snapshots[-1])) if snapshots else 0


def moment(time_ms: int | None) -> str:
    if time_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError):
        return f"{time_ms} ms"


def statistics_text(found: dict[str, Any]) -> str:
    epochs = found["leader_epochs"]
    if isinstance(epochs, list):
        epochs = ", ".join(f"{epoch} from {start}" for epoch, start in epochs) or "none"
    lines = {
        "offsets": f"{found['log_start']} to {found['log_end']} (end exclusive)",
        "records": f"{found['records']} in {found['batches']} batches, {found['control_batches']} of them control",
        "bytes": f"{found['bytes']} in {found['segments']} segments",
        "times": f"{moment(found['first_timestamp'])} to {moment(found['last_timestamp'])}",
        "codecs": ", ".join(f"{name} {count}" for name, count in found["codecs"].items()) or "-",
        "leader epochs": epochs if epochs is not None else "no checkpoint",
        "producers": found["producers"],
    }
    if found["reserved_bytes"]:
        lines["reserved"] = f"{found['reserved_bytes']} bytes: its last owner did not close the log"
    if found["unreadable_bytes"]:
        lines["unreadable"] = f"{found['unreadable_bytes']} bytes: run `kraft log verify`"
    if found["owner"]:
        lines["owner"] = f"live, high watermark {found['high_watermark']}, last stable {found['last_stable_offset']}"
    width = max(map(len, lines)) + 2
    return "\n".join([found["directory"], *(f"  {name:<{width}}{text}" for name, text in lines.items())])
