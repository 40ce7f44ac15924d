"""`kraft bench`: loads any cluster that speaks Kafka's protocol and measures it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from kraft.cli.bench_limits import check, search
from kraft.cli.bench_options import PIDS, load_options, prepare, workload_of, workload_options
from kraft.cli.bench_output import end, print_ratios, print_run, write
from kraft.cli.bench_progress import measured, refuse_log
from kraft.cli.bench_workload import drain_command, workload_command
from kraft.cli.client_config import CLIENT_CONFIG
from kraft.cli.command import kraft
from kraft.cli.number_types import IntRange
from kraft.cli.options import BOOTSTRAP
from kraft.client import Cluster
from kraft.client.security import PLAINTEXT
from kraft.load.compare import compare
from kraft.load.measure import Measurement, cpu_seconds
from kraft.load.workload import KINDS


@kraft.group("bench")
def bench() -> None:
    """Load any Kafka cluster and measure it: latency from the time at which a request was due, CPU time with --pid."""


for added in (drain_command, workload_command, check, search):
    bench.add_command(added)


def _single(kind: str, text: str) -> None:
    """Register `kraft bench KIND`."""
    @bench.command(kind, help=text)
    @BOOTSTRAP
    @PIDS
    @workload_options
    def command(bootstrap: str, pids: tuple[int, ...], **options: Any) -> None:
        workload = workload_of(kind, options)
        cpu_seconds(pids)                      # a missing process is reported before the load starts
        with Cluster(bootstrap) as cluster:
            prepare(workload, cluster, options)
            run = measured(workload, cluster, options, pids)
        write(options, f"kraft bench {kind}", [(bootstrap, run)], [])
        if not options["as_json"]:
            print_run(bootstrap, run)
        end([(bootstrap, run)])


_single("ping", "ApiVersions requests: the cost of a request itself.")
_single("produce", "One batch per request, to one partition per connection.")
_single("fetch", "Read partitions from their start, repeatedly.")
_single("end-to-end", "Produce and read at the same time: the time from when a batch was due to its arrival.")


@bench.command("commit")
@BOOTSTRAP
@click.option("--pid", "pids", type=IntRange(1), multiple=True,
              help="Process of a controller on this machine: its CPU time. Again for each of them.")
@click.option("--local", type=IntRange(1, 9), metavar="CONTROLLERS",
              help="Start a quorum of so many controllers on this machine, and measure that.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False, exists=True),
              help="Directory on the disk of the local quorum [default: the system's for temporary files].")
@load_options
@click.pass_context
def commit_command(context: click.Context, /, bootstrap: str, pids: tuple[int, ...], local: int | None,
                   data: Path | None, **options: Any) -> None:
    """Commits of the metadata quorum: one record per request, answered when a majority has it.

    A request changes a quota of a client id that no client has. The quotas are removed at the end. --bootstrap may name
    controllers, whose leader is then loaded directly, or brokers, which forward each request to it.
    """
    workload = workload_of("commit", options)
    given = [name for name in ("bootstrap", "pids")
             if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if local is None and data is not None:
        raise click.UsageError("--data needs --local.")
    if local is not None and given:
        raise click.UsageError(f"--local starts its own quorum: it goes without --{given[0].removesuffix('s')}.")
    cpu_seconds(pids)
    with _quorum(bootstrap, pids, local, data) as (name, cluster, processes):
        prepare(workload, cluster, options)
        run = measured(workload, cluster, options, processes)
    write(options, "kraft bench commit", [(name, run)], [])
    if not options["as_json"]:
        print_run(name, run)
    end([(name, run)])


@contextmanager
def _quorum(bootstrap: str, pids: tuple[int, ...], local: int | None,
            data: Path | None) -> Iterator[tuple[str, Cluster, tuple[int, ...]]]:
    """Yield the name, a client and the processes of the quorum, which is started when it is a local one."""
    if local is None:
        with Cluster(bootstrap) as cluster:
            yield bootstrap, cluster, pids
        return
    from kraft.local.cluster import LocalCluster

    with (tempfile.TemporaryDirectory(prefix="kraft-bench-", dir=data) as directory,
          LocalCluster(Path(directory).absolute(), brokers=0, controllers=local) as nodes):
        nodes.start()
        with Cluster(nodes.controller_bootstrap, security=PLAINTEXT) as cluster:
            yield f"{local} local controller(s)", cluster, tuple(each.pid for each in nodes.running if each.pid)


@bench.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--pid-a", "pids_a", type=IntRange(1), multiple=True, help="Process of A on this machine.")
@click.option("--pid-b", "pids_b", type=IntRange(1), multiple=True, help="Process of B on this machine.")
@click.option("--pairs", default=5, show_default=True, type=IntRange(1), help="Number of pairs of runs.")
@CLIENT_CONFIG
@workload_options
def compare_command(a: str, b: str, kind: str, pids_a: tuple[int, ...], pids_b: tuple[int, ...], pairs: int,
                    **options: Any) -> None:
    """Run one workload alternately on the clusters A and B (host:port), and print ratios with their confidence."""
    refuse_log(options)
    workload = workload_of(kind, options)
    cpu_seconds((*pids_a, *pids_b))
    runs: list[tuple[Measurement, Measurement]] = []
    with Cluster(a) as cluster_a, Cluster(b) as cluster_b:
        for cluster in (cluster_a, cluster_b):
            prepare(workload, cluster, options)
        for turn in range(pairs):
            # The order alternates, so that neither cluster always starts in the state that the other left.
            order = [(cluster_a, pids_a), (cluster_b, pids_b)]
            found = [measured(workload, cluster, options, pids, f"pair {turn + 1} of {pairs}")
                     for cluster, pids in (order if turn % 2 == 0 else reversed(order))]
            runs.append((found[0], found[1]) if turn % 2 == 0 else (found[1], found[0]))
    named = [(f"{name} {turn + 1}", run) for turn, pair in enumerate(runs)
             for name, run in zip(("A", "B"), pair, strict=True)]
    ratios = compare(runs, options["seed"])
    write(options, f"kraft bench compare: {kind}, A = {a}, B = {b}", named, ratios)
    if not options["as_json"]:
        print_ratios(ratios)
    end(named)
