"""`kraft backup`: backups of a running cluster in a directory or a bucket."""

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from kraft.cli.backup_restore import restore_command
from kraft.cli.command import kraft
from kraft.cli.number_types import FloatRange, IntRange
from kraft.cli.options import JSON, Fields, count_of, on_cluster, print_json, print_rows
from kraft.cli.progress import progress_bar
from kraft.client import Cluster

if TYPE_CHECKING:
    from kraft.backups.manifest import Manifest

NAME_FORMAT: Final = "%Y-%m-%dT%H-%M-%SZ"
SEGMENT_MIB: Final = 64
SEGMENT_MIB_MAX: Final = 1024
WORKERS_MAX: Final = 64
RATE_MAX: Final = 1_000_000.0
PLACE: Final = click.argument("place", metavar="PLACE")
NAME: Final = click.argument("name", required=False)


@kraft.group("backup")
def backup_group() -> None:
    """Back up a running cluster, and restore it.

    PLACE is a directory or s3://bucket/prefix. Credentials, region and endpoint of a bucket come from AWS's environment
    variables and files.
    """


backup_group.add_command(restore_command)


@backup_group.command("create")
@PLACE
@click.option("--name", help="Name of the backup [default: the time].")
@click.option("--topic", "topics", multiple=True,
              help="Only this topic; may be given again. Internal topics are always included.")
@click.option("--full", is_flag=True, help="Copy everything, also what earlier backups hold.")
@click.option("--segment-mib", default=SEGMENT_MIB, show_default=True, type=IntRange(1, SEGMENT_MIB_MAX),
              help="MiB after which a file ends; later backups refer to full files.")
@click.option("--workers", default=2, show_default=True, type=IntRange(1, WORKERS_MAX),
              help="Partitions that are copied at the same time.")
@click.option("--max-mib-per-second", default=0.0, type=FloatRange(0, RATE_MAX),
              help="Limit of what is read from the cluster [default: none].")
@on_cluster
def create_command(cluster: Cluster, place: str, name: str | None, topics: tuple[str, ...], full: bool,
                   segment_mib: int, workers: int, max_mib_per_second: float, as_json: bool) -> None:
    """Copy the cluster as it is at one point, while clients use it.

    The backup has metadata, records and group offsets. After an interruption, the same command continues.
    """
    from kraft.backups.create import Plan, create
    from kraft.backups.store import store_at
    from kraft.cli.metadata_source import AsOf, from_leader

    began = time.monotonic()
    plan = Plan(name or datetime.now(UTC).strftime(NAME_FORMAT), topics or None, segment_mib << 20, not full, workers,
                max_mib_per_second * (1 << 20))
    done = create(cluster, store_at(place), plan, lambda: from_leader(cluster, AsOf()))
    seconds = time.monotonic() - began
    row = {**_fields(done.manifest), "bytes_read": done.bytes_read, "bytes_kept": done.bytes_kept,
           "seconds": round(seconds, 3)}
    if as_json:
        print_json([row])
        return
    click.echo(f"{done.manifest.name}: {count_of(row['topics'], 'topic')}, {count_of(row['partitions'], 'partition')}, "
               f"{row['bytes']:,} bytes of batches, {done.bytes_kept:,} of them from earlier backups; {seconds:.1f} s")


@backup_group.command("list")
@PLACE
@JSON
def list_command(place: str, as_json: bool) -> None:
    """List the backups, oldest first."""
    from kraft.backups.manifest import load_all, names
    from kraft.backups.store import store_at

    store = store_at(place)
    rows = [_fields(each) for each in load_all(store, names(store))]
    print_rows(as_json, rows, ("name", "created", "cluster", "topics", "partitions", "bytes"),
               [list(row.values()) for row in rows])


@backup_group.command("verify")
@PLACE
@NAME
@JSON
def verify_command(place: str, name: str | None, as_json: bool) -> None:
    """Read a backup back, by default the newest, and compare each file with its digest and each batch with its
    checksum. Exit code 1 when something is wrong."""
    from kraft.backups.manifest import load, load_newest
    from kraft.backups.store import store_at
    from kraft.backups.verify import verify

    store = store_at(place)
    manifest = load(store, name) if name else load_newest(store)
    with progress_bar("verify", manifest.size_bytes) as progress:
        faults = list(verify(store, manifest, progress))
    if as_json:
        print_json([{**_fields(manifest), "faults": [each._asdict() for each in faults]}])
    else:
        for each in faults:
            click.echo(each.reason, err=True)
        if not faults:
            files = len(manifest.files())
            click.echo(f"{manifest.name}: {count_of(files, 'file')}, {manifest.size_bytes:,} bytes of batches: sound")
    if faults:
        raise click.exceptions.Exit(1)


def _fields(manifest: "Manifest") -> Fields:
    created = datetime.fromtimestamp(manifest.created_ms / 1000, UTC)
    return {"name": manifest.name, "created": created.isoformat(timespec="milliseconds"),
            "cluster": manifest.cluster_id, "topics": len({each.topic for each in manifest.partitions}),
            "partitions": len(manifest.partitions), "bytes": manifest.size_bytes}
