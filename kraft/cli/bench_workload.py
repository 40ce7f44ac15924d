"""`kraft bench workload` and `kraft bench drain`: loads as files of the OpenMessaging Benchmark, and backlogs."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from kraft.cli.bench_options import PIDS, Acks, output_options, prepare, record_options, workload_of
from kraft.cli.bench_output import end, print_run, write
from kraft.cli.bench_progress import measured, watching
from kraft.cli.number_types import WHOLE, FloatRange, IntRange
from kraft.cli.options import BOOTSTRAP, Seconds
from kraft.client import Cluster
from kraft.client.topics import create_topic, delete_topics
from kraft.load.drain import Backlog, drain
from kraft.load.measure import Measurement, cpu_seconds
from kraft.load.openmessaging import Client, WorkloadFile, read_workload
from kraft.load.workload import Workload
from kraft.protocol.error_codes import ErrorCode

Command = Callable[..., None]

CLIENT_OPTIONS: Final = (
    click.option("--acks", type=Acks(), default="all", show_default=True, help="all, 1 or 0; -1 is all."),
    click.option("--in-flight", type=WHOLE, default=5, show_default=True,
                 help="Requests in progress on each connection."),
    click.option("--batch-bytes", type=WHOLE, default=1 << 20, show_default=True, help="Largest batch."),
    click.option("--linger-ms", type=FloatRange(0, 60_000), default=1.0, show_default=True,
                 help="Time for which a producer fills a batch: the file has the rate of messages."),
    click.option("--codec", default="none", show_default=True, help="gzip, snappy, lz4 or zstd: only without readers."),
)


def client_options(command: Command) -> Command:
    """Add the options that are settings of a driver in the OpenMessaging Benchmark."""
    for option in reversed(CLIENT_OPTIONS):
        command = option(command)
    return command


@click.command("workload")
@BOOTSTRAP
@PIDS
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
@client_options
@click.option("--replication-factor", type=IntRange(1, 32_767), help="Of the topics [default: the cluster's].")
@click.option("--topic", help="Name of the topics, which must not exist [default: a new one].")
@click.option("--keep-topics", is_flag=True, help="Keep the topics at the end.")
@click.option("--seconds", type=Seconds(), help="Measured time, or the longest for a backlog [default: the file's].")
@click.option("--warmup", type=Seconds(zero=True), help="Time before it [default: warmupDurationMinutes].")
@output_options
def workload_command(bootstrap: str, pids: tuple[int, ...], file: Path, acks: int, in_flight: int, batch_bytes: int,
                     linger_ms: float, codec: str, replication_factor: int | None, topic: str | None, keep_topics: bool,
                     **options: Any) -> None:
    """Run a workload file of the OpenMessaging Benchmark (YAML).

    Each producer is connected to all brokers that lead partitions of its topic. Each subscription reads every partition
    over a connection of its own, however many consumers it has. With consumerBacklogSizeGB the readers wait for the
    backlog, and the run ends when it is drained, without a warm-up. The topics are created, and deleted at the end.
    """
    found = read_workload(file)
    name = topic or f"kraft-bench-{uuid.uuid4().hex[:8]}"
    workload = found.workload(Client(acks, in_flight, batch_bytes, linger_ms, codec), name)
    if found.backlog_bytes and options["processes"] > 1:
        raise click.UsageError("--processes: a backlog is drained by one process.")
    cpu_seconds(pids)
    with Cluster(bootstrap) as cluster:
        for known in cluster.metadata(workload.topic_names).topics:
            if known.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise click.ClickException(f"topic {known.name}: it exists already, and a workload has its own")
        try:
            for each in workload.topic_names:
                create_topic(cluster, each, found.values["partitionsPerTopic"], replication_factor or -1)
            run = _run(found, workload, cluster, options, pids)
        finally:
            if not keep_topics:
                delete_topics(cluster, workload.topic_names)
    _show(f"kraft bench workload: {found.name}", bootstrap, run, options)


def _run(found: WorkloadFile, workload: Workload, cluster: Cluster, options: dict[str, Any],
         pids: tuple[int, ...]) -> Measurement:
    backlog, seconds, warmup = found.backlog(), options["seconds"], options["warmup"]
    if backlog is None:
        times = {"seconds": found.seconds if seconds is None else seconds,
                 "warmup": found.warmup_seconds if warmup is None else warmup}
        return measured(workload, cluster, {**options, **times}, pids, found.name)
    if seconds is not None:
        backlog = backlog._replace(drain_seconds=seconds)
    with watching(found.name, options) as report:
        return drain(workload, cluster, backlog, pids=pids, report=report)


@click.command("drain")
@BOOTSTRAP
@PIDS
@click.option("--backlog-bytes", type=IntRange(1), required=True, help="Bytes of batches that readers are behind.")
@click.option("--ratio", type=FloatRange(0, 1), default=1.0, show_default=True,
              help="Part of the backlog that must be read.")
@click.option("--build-seconds", type=Seconds(), default=600.0, show_default=True,
              help="Longest time to build the backlog.")
@click.option("--seconds", type=Seconds(), default=600.0, show_default=True, help="Longest time to drain it.")
@record_options
def drain_command(bootstrap: str, pids: tuple[int, ...], backlog_bytes: int, ratio: float, build_seconds: float,
                  seconds: float, **options: Any) -> None:
    """Build a backlog, and measure how fast readers drain it while the producers continue.

    The load is that of end-to-end. Rates and latencies are those of the drain. Exits with 1 when the backlog is not
    drained in time.
    """
    workload = workload_of("end-to-end", options)
    cpu_seconds(pids)
    with Cluster(bootstrap) as cluster:
        prepare(workload, cluster, options)
        with watching(f"drain of {backlog_bytes / 1e6:,.0f} MB", options) as report:
            run = drain(workload, cluster, Backlog(backlog_bytes, ratio, build_seconds, seconds), pids=pids,
                        report=report)
    _show("kraft bench drain", bootstrap, run, options)


def _show(title: str, bootstrap: str, run: Measurement, options: dict[str, Any]) -> None:
    write(options, title, [(bootstrap, run)], [])
    if not options["as_json"]:
        print_run(bootstrap, run)
    end([(bootstrap, run)])
