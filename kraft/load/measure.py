"""Measurement of a workload against a cluster."""

import contextlib
import os
import platform
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kraft._version import __version__
from kraft.client import Cluster, Connection, RefusedError
from kraft.client.partitions import EARLIEST, LATEST, offset_of
from kraft.client.quorum import QuorumClient
from kraft.client.refusals import check
from kraft.load import workload as parts
from kraft.load.errors import InvalidWorkloadError
from kraft.load.percentiles import curve_of, figures_of, histogram_of
from kraft.load.relay import for_core
from kraft.load.workload import Workload
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft.protocol.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kraft_native.bench.load_generator import Load, LoadResult, LoadSpec

FILL_BATCH_BYTES: Final = 1 << 20
FILL_IN_FLIGHT: Final = 2
FILL_STEP_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """Figures of one run.

    Latencies are microseconds by percentile ("50", ..., "max", "mean"), limited to those that `samples` can show. Bytes
    are of frames, and of records for a Fetch. CPU and memory figures are of the server's processes together, None when
    none was named. `date` is the begin of the run, in UTC. `host` and `version` are those of the load generator.
    `generator_busy` is the share of the time that its busiest thread computed.
    """

    workload: dict[str, Any]
    server: str
    seconds: float
    requests: int
    errors: int
    first_error: str | None
    requests_per_second: float
    records_per_second: float
    megabytes_per_second: float
    latency_us: dict[str, float]
    end_to_end_us: dict[str, float] | None
    cpu_us_per_request: float | None
    cpu_seconds_per_gigabyte: float | None
    resident_megabytes: float | None
    requests_per_slot: list[int]
    histogram: list[tuple[float, float]]
    end_to_end_histogram: list[tuple[float, float]] = field(default_factory=list)
    samples: int = 0
    end_to_end_samples: int = 0
    date: str = ""
    host: str = ""
    version: str = ""
    generator_busy: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(workload: Workload, cluster: Cluster, *, seconds: float = 10.0, warmup: float = 2.0,
            pids: Sequence[int] = (), slots: int = 50) -> Measurement:
    """Load the cluster for `warmup` seconds without and `seconds` with counting.

    A server's refusals are counted, not raised. Raises `OperationError` when it closes a connection or answers wrongly,
    and what `cpu_seconds` raises.
    """
    with _prepared(workload, cluster) as (specs, connections), for_core(specs, connections) as (loaded, relay):
        load = Load(loaded)
        if warmup > 0:
            load.run(warmup)
        date = datetime.now(UTC).isoformat(timespec="seconds")
        before, begin, computed = cpu_seconds(pids), time.monotonic(), time.thread_time()
        encrypted = relay.computed_seconds() if relay else 0.0
        result = load.run(seconds, slots=slots)
        busy = max(time.thread_time() - computed, (relay.computed_seconds() if relay else 0.0) - encrypted)
        busy /= time.monotonic() - begin
        after, elapsed = cpu_seconds(pids), time.monotonic() - begin
        used = None if before is None or after is None else after - before
        found = _figures(workload, cluster, result, used, elapsed, _resident_megabytes(pids))
        return replace(found, date=date, host=platform.node(), version=__version__, generator_busy=busy)


def fill(workload: Workload, cluster: Cluster, data_bytes: int) -> None:
    """Append about `data_bytes` of the workload's records to its topic, spread over the connections' partitions. The
    batches have the workload's size: a Fetch returns at least one whole batch, whatever its limits."""
    filler = Workload("produce", workload.connections, FILL_IN_FLIGHT, 0.0, workload.record_bytes,
                      workload.batch_bytes or min(FILL_BATCH_BYTES, data_bytes), topic=workload.topic)
    opened = parts.partitions_of(filler, cluster)
    try:
        specs = [parts.produce_spec(filler, connection, partition) for connection, partition in opened]
        left = max(1, data_bytes // len(filler.batch()))
        with for_core(specs, [connection for connection, _ in opened]) as (loaded, _):
            load = Load(loaded)
            while left > 0:
                result = load.run(FILL_STEP_SECONDS, requests_max=left)
                if result.errors:
                    raise RefusedError(f"filling {workload.topic}", result.first_error)
                if not result.requests:
                    raise RefusedError(f"filling {workload.topic}", ErrorCode.REQUEST_TIMED_OUT)
                left -= result.requests
    finally:
        _close(opened)


@contextlib.contextmanager
def _prepared(workload: Workload, cluster: Cluster) -> Iterator[tuple[list[LoadSpec], list[Connection]]]:
    """Yield the specs of a workload with their connections, which are closed at the end."""
    opened: list[tuple[Connection, int]] = []
    with contextlib.ExitStack() as stack:
        stack.callback(_close, opened)
        if workload.kind == "ping":
            first = cluster.any()
            opened += [(cluster.connect(first.host, first.port), 0) for _ in range(workload.connections)]
            specs = [parts.ping_spec(workload, connection) for connection, _ in opened]
        elif workload.kind == "commit":
            names = commit_names(workload.connections)
            stack.callback(_forget_commits, cluster, names)
            specs, quorum = [], QuorumClient(cluster)
            quorum.describe()                       # waits until there is a leader
            for name in names:
                opened.append((quorum.leader(), 0))
                specs.append(parts.commit_spec(workload, opened[-1][0], name))
        elif workload.kind == "produce":
            opened += parts.partitions_of(workload, cluster)
            specs = [parts.produce_spec(workload, connection, partition) for connection, partition in opened]
        elif workload.kind == "fetch":
            opened += parts.partitions_of(workload, cluster)
            specs = [parts.fetch_spec(workload, connection, partition,
                                      offset_of(connection, workload.topic, partition, EARLIEST))
                     for connection, partition in opened]
        else:
            opened += parts.partitions_of(workload, cluster)
            specs = [parts.produce_spec(workload, connection, partition, stamped=True)
                     for connection, partition in opened]
            readers = parts.partitions_of(workload, cluster)
            opened += readers
            specs += [parts.fetch_spec(workload, connection, partition,
                                       offset_of(connection, workload.topic, partition, LATEST), wrap=False,
                                       stamped=True) for connection, partition in readers]
        yield specs, [connection for connection, _ in opened]


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


def _close(opened: list[tuple[Connection, int]]) -> None:
    for connection, _ in opened:
        connection.close()


def _figures(workload: Workload, cluster: Cluster, result: LoadResult, cpu: float | None, elapsed: float,
             resident: float | None) -> Measurement:
    seconds = result.elapsed_ns / 1e9
    count = max(result.requests, 1)
    served = max(0, result.requests - result.errors)       # refused requests are no work done
    if workload.kind == "fetch":
        moved, records = result.records_bytes, float(result.records)
    else:
        moved = result.bytes_sent if workload.kind != "ping" else result.bytes_sent + result.bytes_received
        moved = moved * served // count
        records = float({"produce": result.accepted_records, "commit": served}.get(workload.kind, result.records))
    histogram, end_to_end = histogram_of(result.latency), histogram_of(result.end_to_end)
    return Measurement(
        workload=asdict(workload), server=cluster.any().address, seconds=seconds, requests=result.requests,
        errors=result.errors, first_error=name_of(result.first_error) if result.first_error else None,
        requests_per_second=served / seconds, records_per_second=records / seconds,
        megabytes_per_second=moved / seconds / 1e6, latency_us=figures_of(histogram),
        end_to_end_us=figures_of(end_to_end) or None,
        cpu_us_per_request=None if cpu is None else cpu * seconds / elapsed / count * 1e6,
        cpu_seconds_per_gigabyte=None if cpu is None or not moved else cpu * seconds / elapsed / (moved / 1e9),
        resident_megabytes=resident, requests_per_slot=result.slot_requests,
        histogram=curve_of(histogram), end_to_end_histogram=curve_of(end_to_end),
        samples=histogram.get_total_count(), end_to_end_samples=end_to_end.get_total_count(),
    )


def cpu_seconds(pids: Sequence[int]) -> float | None:
    """User and system time of processes so far, all their threads together. Raises `InvalidWorkloadError` for a process
    that does not exist."""
    ticks = 0
    for pid in pids:
        fields = _process_file(pid, "stat").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK") if pids else None


def _resident_megabytes(pids: Sequence[int]) -> float | None:
    """Resident memory of processes, without the file pages that they have mapped."""
    kibibytes = [int(line.split()[1]) for pid in pids
                 for line in _process_file(pid, "status").splitlines() if line.startswith("RssAnon:")]
    return sum(kibibytes) * 1024 / 1e6 if kibibytes else None


def _process_file(pid: int, what: str) -> str:
    try:
        return Path(f"/proc/{pid}/{what}").read_text()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise InvalidWorkloadError(f"pid: there is no process {pid} on this machine") from error
