"""Where a pipeline's job runs: threads here, or Spark."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from kraft.pipeline.workers import Threads, Workers

Command = Callable[..., None]


def worker_options(command: Command) -> Command:
    """`--threads` and `--master`."""
    for option in (
        click.option("--master", metavar="URL", help="Run on Spark there: local[2], spark://host:7077, yarn, ..."),
        click.option("--threads", type=click.IntRange(1), help="Threads of this process [default: one per processor]."),
    ):
        command = option(command)
    return command


@contextmanager
def chosen_workers(threads: int | None, master: str | None) -> Iterator[Workers]:
    """The workers that the options name. A Spark session that this started is stopped at the end."""
    if master is None:
        yield Threads(threads or len(os.sched_getaffinity(0)))
        return
    if threads is not None:
        raise click.UsageError("--threads is for this process, --master says where Spark runs: only one of them")
    from kraft.pipeline.on_spark import spark_workers

    with spark_workers(master) as workers:
        yield workers
