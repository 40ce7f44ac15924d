"""Options for the workers of a pipeline's job (threads or Spark) and for its source."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from kraft.cli.client_config import bootstrap_options, implied_servers
from kraft.cli.number_types import IntRange
from kraft.cli.options import BOOTSTRAP_VARIABLE
from kraft.cli.server_config import parse_assignments
from kraft.client.security import current
from kraft.pipeline.workers import Threads, Workers

Command = Callable[..., None]


def worker_options(command: Command) -> Command:
    """Add `--threads`, `--master` and `--conf`."""
    for option in (
        click.option("--conf", "spark_settings", multiple=True, metavar="KEY=VALUE",
                     help="With --master: a setting of Spark; may be given again."),
        click.option("--master", metavar="URL",
                     help="Run on this Spark master: local[2], spark://host:7077, yarn, ..."),
        click.option("--threads", type=IntRange(1), help="Threads of this process [default: one per processor]."),
    ):
        command = option(command)
    return command


@contextmanager
def chosen_workers(threads: int | None, master: str | None, settings: Sequence[str] = ()) -> Iterator[Workers]:
    """Create the workers that the options select. A Spark session that this starts is stopped at the end."""
    if master is None:
        if settings:
            raise click.UsageError("--conf is for Spark, which --master starts")
        yield Threads(threads or len(os.sched_getaffinity(0)))
        return
    if threads is not None:
        raise click.UsageError("--threads is for this process, --master says where Spark runs: only one of them")
    from kraft.pipeline.on_spark import spark_workers

    with spark_workers(master, parse_assignments(settings, "--conf")) as workers:
        yield workers


def source_options(command: Command) -> Command:
    """Add `--from`, `--bootstrap`, `--topic` and `--isolation-level`."""
    for option in (
        click.option("--uncommitted", "isolation", flag_value="read_uncommitted",
                     help="The same as --isolation-level read_uncommitted."),
        click.option("--isolation-level", "isolation", type=click.Choice(["read_committed", "read_uncommitted"]),
                     default="read_committed", show_default=True,
                     help="read_uncommitted: also records of transactions that are open or were aborted."),
        click.option("--topic", "topics", multiple=True, metavar="NAME",
                     help="May be given again [default with --from: all but internal ones]."),
        bootstrap_options(envvar=BOOTSTRAP_VARIABLE,
                          help=f"Read from this cluster; also {BOOTSTRAP_VARIABLE}, which counts without --from."),
        click.option("--from", "directories", multiple=True, metavar="DIRECTORY",
                     type=click.Path(exists=True, file_okay=False),
                     help="Read the files of this data directory, in use or not; may be given again."),
    ):
        command = option(command)
    return command


def source_of(options: dict[str, Any]) -> dict[str, str]:
    """Return the equivalent options of the Kafka connector."""
    servers = options["bootstrap"] or ("" if options["directories"] else implied_servers(""))
    if not options["directories"] and not servers:
        raise click.UsageError("one of --from and --bootstrap says where to read")
    source = {"kafka.isolation.level": options["isolation"]}
    if options["directories"]:
        source["path"] = ",".join(options["directories"])
    else:
        source["kafka.bootstrap.servers"] = servers
        source |= {f"kafka.{name}": value for name, value in current().library_settings().items()}
    if options["topics"]:
        source["subscribe"] = ",".join(options["topics"])
    return source
