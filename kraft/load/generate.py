"""One process's part of a load: opens its connections, runs the generator, reports each second."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from kraft.client import Cluster, Connection
from kraft.client.partitions import EARLIEST, LATEST, offset_of
from kraft.client.quorum import QuorumClient
from kraft.client.refusals import check
from kraft.load import workload as parts
from kraft.load.intervals import Interval, Watch
from kraft.load.places import WHOLE, Part, open_all, producers, readers
from kraft.load.relay import Relay, for_core
from kraft.load.runner import run
from kraft.load.workload import Workload
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft_native.bench.load_generator import Load, LoadResult, LoadSpec


class Job(NamedTuple):
    """A load, and how long it runs. `slots` are equal parts of the time for which requests are counted."""

    workload: Workload
    seconds: float
    warmup: float
    slots: int


class Generated(NamedTuple):
    """Result of a run, and the share of its time that the busiest thread of a generator computed."""

    result: LoadResult
    busy: float


def generate(job: Job, cluster: Cluster, *, part: Part = WHOLE, begin: Callable[[], None] = lambda: None,
             report: Callable[[Interval], None] | None = None) -> Generated:
    """Load the cluster for the warm-up, call `begin`, and load it for the counted time. `report` receives each second,
    in another thread."""
    with prepared(job.workload, cluster, part) as (specs, connections), for_core(specs, connections) as (loaded, relay):
        load = Load(loaded)
        if job.warmup > 0:
            run(load, job.warmup)
        begin()
        began, encrypted = time.monotonic(), encrypting_seconds(relay)
        if report is None:
            result, computed = run(load, job.seconds, job.slots)
        else:
            with Watch([load], report) as watch:
                result, computed = run(load, job.seconds, job.slots)
                watch.finish(result)
        busiest = max(computed, encrypting_seconds(relay) - encrypted)
        return Generated(result, busiest / (time.monotonic() - began))


def encrypting_seconds(relay: Relay | None) -> float:
    """Processor time of the thread that encrypts; 0 without TLS."""
    return relay.computed_seconds() if relay else 0.0


@contextmanager
def prepared(workload: Workload, cluster: Cluster, part: Part = WHOLE,
             ) -> Iterator[tuple[list[LoadSpec], list[Connection]]]:
    """Yield the specs of a process's part with their connections, which are closed at the end."""
    connections: list[Connection] = []
    with ExitStack() as stack:
        stack.callback(_close, connections)
        specs: list[LoadSpec] = []
        if workload.kind == "ping":
            first = cluster.any()
            for _ in range(workload.connections)[part.first::part.of]:
                connections.append(cluster.connect(first.host, first.port))
                specs.append(parts.ping_spec(workload, connections[-1]))
        elif workload.kind == "commit":
            names = commit_names(len(range(workload.connections)[part.first::part.of]))
            stack.callback(_forget_commits, cluster, names)
            quorum = QuorumClient(cluster)
            quorum.describe()                       # waits until there is a leader
            for name in names:
                connections.append(quorum.leader())
                specs.append(parts.commit_spec(workload, connections[-1], name))
        elif workload.kind == "fetch":
            specs = reader_specs(workload, cluster, part, connections, EARLIEST)
        else:
            specs = producer_specs(workload, cluster, part, connections, stamped=workload.kind == "end-to-end")
            if workload.kind == "end-to-end":
                specs += reader_specs(workload, cluster, part, connections, LATEST)
        yield specs, connections


def producer_specs(workload: Workload, cluster: Cluster, part: Part, connections: list[Connection], *,
                   stamped: bool) -> list[LoadSpec]:
    """Open the connections of producers, which are added to `connections`."""
    opened = open_all(producers(workload, cluster), cluster, part)
    connections += [each.connection for each in opened]
    return [parts.produce_spec(workload, each.connection, each.places, share=each.share, stamped=stamped)
            for each in opened]


def reader_specs(workload: Workload, cluster: Cluster, part: Part, connections: list[Connection],
                 first: int) -> list[LoadSpec]:
    """Open the connections of readers, which are added to `connections`. They begin at EARLIEST, and there again at the
    log's end, or at LATEST, and wait for what is appended."""
    wraps = first == EARLIEST
    opened = open_all(producers(workload, cluster) if wraps else readers(workload, cluster), cluster, part)
    connections += [each.connection for each in opened]
    specs = []
    for each in opened:
        place = each.places[0]
        offset = offset_of(each.connection, place.topic, place.partition, first)
        specs.append(parts.fetch_spec(workload, each.connection, place, offset, wrap=wraps, stamped=not wraps))
    return specs


def commit_names(count: int) -> list[str]:
    """Return client ids that no client has: each commit changes a limit of one of them."""
    mark = random.SystemRandom().randrange(1 << 32)
    return [f"kraft-bench-{mark:08x}-{number}" for number in range(count)]


def _forget_commits(cluster: Cluster, names: Sequence[str]) -> None:
    """Remove what the commits left in the metadata."""
    with QuorumClient(cluster).leader() as connection:
        answer = connection.send(parts.forget_request(names), AlterClientQuotasResponse)
    for entry in answer.entries:
        check("removing the limits of kraft bench", entry.error_code, entry.error_message)


def _close(connections: Sequence[Connection]) -> None:
    for each in connections:
        each.close()
