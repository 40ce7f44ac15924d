"""Options that every load of `kraft bench` has, and the workload that they describe."""

from collections.abc import Callable
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kraft.cli.number_types import NUMBER, WHOLE, IntRange, whole_number
from kraft.cli.options import OUTPUT_FILE, Seconds
from kraft.client import Cluster
from kraft.client.topics import create_topic
from kraft.load.measure import fill
from kraft.load.processes import PROCESSES_MAX
from kraft.load.workload import Workload

Command = Callable[..., None]


class Acks(click.ParamType[int]):
    """`all`, or a number that the workload checks."""

    name = "all|1|0"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "all":
            return -1
        try:
            return whole_number(str(value))
        except ValueError:
            self.fail(f"{value!r} is not all, 1 or 0.", param, ctx)


INPUT_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True)
PIDS: Final = click.option("--pid", "pids", type=IntRange(1), multiple=True,
                           help="Process of the server on this machine: its CPU time. Again for each node.")
LOAD_OPTIONS: Final = (
    click.option("--connections", type=WHOLE, default=1, show_default=True,
                 help="Connections, each to a partition's leader."),
    click.option("--in-flight", type=WHOLE, default=1, show_default=True,
                 help="Requests in progress on each connection."),
    click.option("--rate", type=NUMBER, default=0.0, show_default=True,
                 help="Requests per second over all connections; 0 sends as fast as replies come."),
)
PROCESSES: Final = click.option("--processes", type=IntRange(1, PROCESSES_MAX), default=1, show_default=True,
                                help="Generator processes that share the connections; their results are merged.")
RECORD_OPTIONS: Final = (
    click.option("--record-bytes", type=WHOLE, default=100, show_default=True, help="Size of a record's value."),
    click.option("--batch-bytes", type=WHOLE, default=0, show_default=True,
                 help="About the size of a batch; 0 is one record."),
    click.option("--acks", type=Acks(), default="1", show_default=True, help="all, 1 or 0; -1 is all."),
    click.option("--codec", default="none", show_default=True, help="none, gzip, snappy, lz4 or zstd."),
    click.option("--fetch-bytes", type=WHOLE, default=1 << 20, show_default=True, help="max.bytes of a Fetch."),
    click.option("--committed", is_flag=True, help="fetch: read with read_committed."),
    click.option("--topic", default="kraft-bench", show_default=True, help="Created when it does not exist."),
    click.option("--partitions", type=IntRange(1), help="Partitions of a new topic [default: --connections]."),
    click.option("--fill-bytes", type=IntRange(0), default=0, show_default=True,
                 help="fetch: append about so much first, to a topic that is created when it does not exist; 0 reads "
                      "the existing records."),
    click.option("--keys", default="none", show_default=True,
                 help="none, fixed, cycle:N, random:N or zipf:N[:EXPONENT]; of N keys, those of the partition."),
    click.option("--payload-file", type=INPUT_FILE, help="Values: the lines of a file, in their order."),
    click.option("--payload-lengths", type=INPUT_FILE,
                 help="Values of random bytes, of the lengths in the lines of a file."),
    click.option("--random-share", type=NUMBER, default=1.0, show_default=True,
                 help="Part of a value that is random; the rest is zero bytes, which compress."),
    click.option("--topics", type=WHOLE, default=1, show_default=True,
                 help="Several topics, with a number behind the name."),
    click.option("--groups", type=WHOLE, default=1, show_default=True,
                 help="end-to-end: so many groups read every partition that is sent to."),
    click.option("--spread", is_flag=True,
                 help="A connection is a producer of one topic, connected to each broker, for all partitions."),
    click.option("--seed", type=WHOLE, default=1, show_default=True, help="Of the records' values."),
)
TIME_OPTIONS: Final = (
    click.option("--seconds", type=Seconds(), default=10.0, show_default=True,
                 help="Measured time."),
    click.option("--warmup", type=Seconds(zero=True), default=2.0, show_default=True,
                 help="Time before the measurement."),
)
PROGRESS: Final = click.option("--progress/--no-progress", default=None,
                               help="A line for each second on standard error [default: only on a terminal].")
OUTPUT_OPTIONS: Final = (
    PROGRESS,
    click.option("--hdr-log", type=OUTPUT_FILE,
                 help="Write the latencies of each second as a log of HdrHistograms."),
    click.option("--json", "as_json", is_flag=True, help="Print the figures as one JSON object."),
    click.option("--output", "output_file", type=OUTPUT_FILE,
                 help="Write the figures as JSON to a file."),
    click.option("--html", "html_file", type=OUTPUT_FILE,
                 help="Write a report with plots as one HTML file."),
)
WORKLOAD_FIELDS: Final = ("connections", "in_flight", "rate", "record_bytes", "batch_bytes", "acks", "codec",
                          "fetch_bytes", "committed", "topic", "seed", "keys", "payload_file", "payload_lengths",
                          "random_share", "topics", "groups", "spread")


def workload_options(command: Command) -> Command:
    """Add the options that loads of records have, in this order in the help."""
    return _with(command, *LOAD_OPTIONS, PROCESSES, *RECORD_OPTIONS, *TIME_OPTIONS, *OUTPUT_OPTIONS)


def load_options(command: Command) -> Command:
    """Add the options that every load has."""
    return _with(command, *LOAD_OPTIONS, PROCESSES, *TIME_OPTIONS, *OUTPUT_OPTIONS)


def record_options(command: Command) -> Command:
    """Add the options of loads that choose their time and processes themselves."""
    return _with(command, *LOAD_OPTIONS, *RECORD_OPTIONS, *OUTPUT_OPTIONS)


def output_options(command: Command) -> Command:
    """Add the options that say where the figures go."""
    return _with(command, PROCESSES, *OUTPUT_OPTIONS)


def _with(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def workload_of(kind: str, options: dict[str, Any]) -> Workload:
    """Return the workload of the options. Raises `InvalidWorkloadError`."""
    return Workload(kind, **{name: options[name] for name in WORKLOAD_FIELDS if options.get(name) is not None})


def prepare(workload: Workload, cluster: Cluster, options: dict[str, Any]) -> None:
    """Check access, and create and fill the topic as far as the workload needs it."""
    if workload.kind in ("ping", "commit"):
        cluster.check_access()
        return
    if workload.kind == "fetch" and not options["fill_bytes"]:
        for name in workload.topic_names:
            cluster.topic(name)             # raises for a missing topic
        return
    for name in workload.topic_names:
        create_topic(cluster, name, options["partitions"] or -(-workload.connections // workload.topics))
    if workload.kind == "fetch":
        with waiting(f"appending {options['fill_bytes'] / 1e6:,.0f} MB to {workload.topic}"):
            fill(workload, cluster, options["fill_bytes"])


def waiting(text: str) -> Progress:
    """Show a spinner on standard error during a run, if that is a terminal."""
    console = Console(stderr=True)
    progress = Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console,
                        transient=True, disable=not console.is_terminal)
    progress.add_task(text, total=None)
    return progress
