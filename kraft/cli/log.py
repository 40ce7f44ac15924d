"""`kraft log`: inspection of a partition directory. All but `compact` only read, even while an owner writes."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from kraft.cli import log_compact, log_dump
from kraft.cli.command import kraft
from kraft.cli.examine import Examination, Finding, check_files
from kraft.cli.log_stat import statistics, statistics_text
from kraft.cli.number_types import IntRange
from kraft.cli.options import count_of
from kraft.cli.partition import is_data_directory, open_partition, partitions_of
from kraft.cli.progress import progress_bar
from kraft.files.partition_files import PartitionFiles
from kraft.log_dir import TopicPartition, noted_high_watermark

DIRECTORY = click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
DIRECTORIES = click.argument("directories", metavar="DIRECTORY...", nargs=-1, required=True,
                             type=click.Path(path_type=Path, exists=True, file_okay=False))
JSON = click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")

LINES_PER_WRITE = 1_000


class Output:
    """Lines to standard output, in large writes; errors to standard error, which also decide the exit code."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.complaints = 0

    def line(self, text: str) -> None:
        self.lines.append(text)
        if len(self.lines) >= LINES_PER_WRITE:
            self.flush()

    def flush(self) -> None:
        if self.lines:
            sys.stdout.write("\n".join(self.lines) + "\n")
            self.lines.clear()
        sys.stdout.flush()

    def complain(self, text: str) -> None:
        self.flush()
        self.complaints += 1
        click.echo(text, err=True)


@kraft.group("log")
def log() -> None:
    """Inspect a partition directory, of Kafka or of kraft. Only `compact` writes to it."""


@log.command()
@DIRECTORY
@JSON
@click.option("--digest", is_flag=True,
              help="With --json, for comparing logs: fields in hex, values over 64 bytes as length and SHA-256.")
@click.option("--batches", is_flag=True, help="Show batch headers instead of records.")
@click.option("--control", is_flag=True, help="Show control records (transaction markers and such) instead.")
@click.option("--index", is_flag=True, help="Show the entries of indexes, snapshots and epochs instead.")
@click.option("--from", "start", type=IntRange(0), help="The first offset to show (default: the log start).")
@click.option("--limit", type=IntRange(0), help="Show at most this many.")
@click.pass_context
def dump(context: click.Context, directory: Path, as_json: bool, digest: bool, batches: bool, control: bool,
         index: bool, start: int | None, limit: int | None) -> None:
    """Show what a read_uncommitted consumer sees: every record from the log start to the high watermark.

    With --json a record has the form of `kraft consume --json`, which `kraft produce --json` reads.

    For a log without an owner the high watermark is the one in replication-offset-checkpoint beside DIRECTORY. Without
    that file the log is shown to its end.

    Exit code 1 when something was damaged; it is reported on standard error and not shown.
    """
    if batches + control + index > 1:
        raise click.UsageError("--batches, --control and --index exclude each other")
    if digest and not as_json:
        raise click.UsageError("--digest is a form of --json")
    partition = open_partition(directory)
    end = partition.log_end()
    if end is None and not (batches or control or index):
        end = noted_high_watermark(directory)
    first = 0 if batches or control else partition.log_start()
    output = Output()
    # On a terminal the lines themselves show the progress.
    with progress_bar(f"dump {directory.name}", 0 if sys.stdout.isatty() else partition.size_bytes) as progress:
        wanted = log_dump.Range(max(start or 0, first), end, limit, progress)
        if batches or control or index:
            dump_fields(partition, wanted, output, "batches" if batches else "control" if control else "index",
                        as_json=as_json)
        else:
            dump_records(partition, wanted, output, as_json=as_json, digest=digest)
        output.flush()
    context.exit(1 if output.complaints else 0)


def dump_records(partition: PartitionFiles, wanted: log_dump.Range, output: Output, *, as_json: bool,
                 digest: bool) -> None:
    source = TopicPartition.named(partition.directory.resolve().name)
    for found in log_dump.wanted_records(partition, wanted, output.complain):
        for record in found:
            if not as_json:
                output.line(log_dump.record_text(record))
            else:
                output.line(log_dump.digest_json(record) if digest else log_dump.plain_json(record, source))


def dump_fields(partition: PartitionFiles, wanted: log_dump.Range, output: Output, what: str, *, as_json: bool) -> None:
    """Print one of the other three contents, which are named fields."""
    show = log_dump.fields_json if as_json else log_dump.fields_text
    if what == "index":
        for fields in log_dump.index_fields(partition, output.complain):
            if wanted.left > 0:
                wanted.left -= 1
                output.line(show(fields))
        return
    for audit, position, batch in log_dump.batches(partition, wanted, output.complain):
        if what == "batches":
            wanted.left -= 1
            output.line(show(log_dump.batch_fields(audit, position, batch)))
        elif batch.is_control:
            wanted.left -= 1
            for fields in log_dump.control_fields(batch):
                output.line(show(fields))


@log.command()
@DIRECTORIES
@JSON
@click.pass_context
def verify(context: click.Context, directories: tuple[Path, ...], as_json: bool) -> None:
    """Check every checksum and every index entry, of partitions or of whole data directories.

    A DIRECTORY is a partition's, or a data directory: then every partition in it is checked, and the files beside them.
    Prints each damage with file, position and offset, the first one again at the end. Exit code 1 when there is any.
    """
    sound = True
    for directory in directories:
        if is_data_directory(directory):
            sound &= verify_data_directory(directory, as_json=as_json)
        else:
            sound &= verify_one(open_partition(directory), as_json=as_json)
    context.exit(0 if sound else 1)


def verify_data_directory(directory: Path, *, as_json: bool) -> bool:
    """Check every partition in the directory, and the files beside them. Return whether all are sound."""
    findings = list(check_files(directory))
    for finding in findings:
        click.echo(json.dumps(finding_fields(finding)) if as_json else f"damaged: {finding}")
    partitions = partitions_of(directory)
    damaged = [each.directory.name for each in partitions if not verify_one(each, as_json=as_json)]
    if as_json:
        click.echo(json.dumps({"directory": str(directory), "partitions": len(partitions), "damaged": damaged,
                               "damages_beside": len(findings)}))
    else:
        state = f"damaged are {', '.join(damaged)}" if damaged else "all sound"
        beside = f"; {count_of(len(findings), 'damage')} of the files beside them" if findings else ""
        click.echo(f"{directory}: {count_of(len(partitions), 'partition')}: {state}{beside}")
    return not damaged and not findings


def verify_one(partition: PartitionFiles, *, as_json: bool) -> bool:
    """Check one partition. Return whether it is sound."""
    directory = partition.directory
    first: Finding | None = None
    count = 0
    with progress_bar(f"verify {directory.name}", partition.size_bytes) as progress:
        examination = Examination(partition, progress)
        for finding in examination.run():
            count += 1
            # "The first damage" is about position and offset; a missing file has neither.
            if first is None or (first.position < 0 <= finding.position):
                first = finding
            click.echo(json.dumps(finding_fields(finding)) if as_json else f"damaged: {finding}")
    figures = examination.figures
    if as_json:
        click.echo(json.dumps({
            "directory": str(directory), "damages": count, "first": finding_fields(first) if first else None,
            "segments": figures.segments, "batches": figures.batches, "records": figures.records,
            "bytes": figures.log_bytes, "index_entries": figures.index_entries,
            "removed_segments": figures.removed_segments, "reserved_bytes": figures.reserved_bytes,
        }))
        return first is None
    click.echo(f"{directory}: {figures.segments} segments, {figures.batches} batches, {figures.records} records, "
               f"{figures.log_bytes} bytes, {figures.index_entries} index entries"
               f"{f', {figures.reserved_bytes} bytes reserved' if figures.reserved_bytes else ''}: "
               f"{'sound' if first is None else f'{count} damages, the first at {first}'}")
    return first is None


def finding_fields(finding: Finding) -> dict[str, Any]:
    return {"file": finding.file, "position": finding.position, "offset": finding.offset,
            "next_offset": finding.next_offset, "what": finding.what}


@log.command()
@DIRECTORIES
@JSON
def stat(directories: tuple[Path, ...], as_json: bool) -> None:
    """Show offsets, times, sizes, codecs, producers and epochs. Reads batch headers and does not verify checksums.

    A DIRECTORY is a partition's, or a data directory: then every partition in it is shown.
    """
    for partition in (each for directory in directories for each in (
            partitions_of(directory) if is_data_directory(directory) else [open_partition(directory)])):
        with progress_bar(f"stat {partition.directory.name}", partition.size_bytes) as progress:
            found = statistics(partition, progress)
        click.echo(json.dumps(found) if as_json else statistics_text(found))


@log.command()
@DIRECTORY
@JSON
@click.option("--roll", is_flag=True, help="Begin a new segment first, so that all records up to now take part.")
@click.option("--delete-retention-ms", type=IntRange(0), default=86_400_000, show_default=True,
              help="How long a deletion (a null value) stays visible.")
@click.option("--min-lag-ms", type=IntRange(0), default=0, show_default=True,
              help="Leave alone what is younger than this.")
@click.option("--buffer-mib", type=IntRange(1), default=128, show_default=True,
              help="Memory for keys, about 27 bytes each; with more keys than fit it takes several rounds.")
def compact(directory: Path, as_json: bool, roll: bool, delete_retention_ms: int, min_lag_ms: int,
            buffer_mib: int) -> None:
    """Keep only the latest record of every key. WRITES to the log.

    The log must not be in use: this command owns it while it works. Records without a key are removed, as by Kafka's
    cleaner. It may be interrupted at any moment; every reader sees a complete log before and after.
    """
    partition = open_partition(directory)
    with progress_bar(f"compact {directory.name}", partition.size_bytes) as progress:
        stats = log_compact.compact(directory, delete_retention_ms=delete_retention_ms, min_lag_ms=min_lag_ms,
                                    buffer_bytes=buffer_mib << 20, roll=roll, progress=progress)
    if as_json:
        click.echo(json.dumps({"directory": str(directory), **stats._asdict()}))
    else:
        click.echo(f"{directory}: {stats.records_read} records read, {stats.records_kept} kept, "
                   f"{stats.bytes_before} bytes became {stats.bytes_after}, {stats.segments_before} segments became "
                   f"{stats.segments_after}, {stats.rounds} rounds, {stats.seconds:.3f} s")
