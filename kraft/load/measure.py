"""Measurement of a workload against a cluster."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kraft._version import __version__
from kraft.client import Cluster, RefusedError
from kraft.load.errors import InvalidWorkloadError
from kraft.load.facts import facts_of
from kraft.load.generate import Generated, Job, generate
from kraft.load.intervals import Interval
from kraft.load.percentiles import curve_of, figures_of, histogram_of
from kraft.load.places import open_all, producers
from kraft.load.processes import generate_together
from kraft.load.relay import for_core
from kraft.load.workload import Workload, produce_spec
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import name_of
from kraft_native.bench.load_generator import Load, LoadResult

FILL_BATCH_BYTES: Final = 1 << 20
FILL_IN_FLIGHT: Final = 2
FILL_STEP_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Measurement:
    """Figures of one run.

    Latencies are microseconds by percentile ("50", ..., "max", "mean"), limited to those that `samples` can show. Bytes
    are of frames, and of records for a Fetch. CPU and memory figures are of the server's processes together, None when
    none was named. `date` is the begin of the run, in UTC. `host` and `version` are those of the load generator.
    `generator_busy` is the share of the time that its busiest thread computed, `processes` are its own. The totals
    of records and of their batches' bytes are those that the server accepted, and those that readers received.
    `durability` is the class of the topics, `metadata_version` that of the cluster. `backlog` is what was drained.
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
    processes: int = 1
    records_sent: int = 0
    record_bytes_sent: int = 0
    records_read: int = 0
    record_bytes_read: int = 0
    durability: str = ""
    metadata_version: str = ""
    cluster_id: str = ""
    brokers: int = 0
    backlog: dict[str, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def measure(workload: Workload, cluster: Cluster, *, seconds: float = 10.0, warmup: float = 2.0,
            pids: Sequence[int] = (), slots: int = 50, processes: int = 1,
            report: Callable[[Interval], None] | None = None) -> Measurement:
    """Load the cluster for `warmup` seconds without and `seconds` with counting, from this process or from several
    others. `report` receives each second of the counted time, in another thread.

    A server's refusals are counted, not raised. Raises `OperationError` when it closes a connection or answers wrongly,
    and what `cpu_seconds` raises.
    """
    sampler = Sampler(workload, cluster, pids)
    job = Job(workload, seconds, warmup, slots)
    if processes == 1:
        found = generate(job, cluster, begin=sampler.begin, report=report)
    else:
        found = generate_together(job, cluster, processes, begin=sampler.begin, report=report)
    return sampler.measurement(found, processes)


class Sampler:
    """Part of a measurement that the generator does not count: facts about the server, and the processor time of its
    processes from `begin` on."""

    def __init__(self, workload: Workload, cluster: Cluster, pids: Sequence[int]) -> None:
        self._workload, self._cluster, self._pids = workload, cluster, pids
        self._facts = facts_of(workload, cluster)
        self._date, self._began, self._computed = 0.0, 0.0, cpu_seconds(pids)

    def begin(self) -> None:
        """Record the moment at which counting begins."""
        self._date, self._began, self._computed = time.time(), time.monotonic(), cpu_seconds(self._pids)

    def measurement(self, found: Generated, processes: int = 1) -> Measurement:
        """Return the figures of a run that has just ended."""
        elapsed, after = time.monotonic() - self._began, cpu_seconds(self._pids)
        used = None if self._computed is None or after is None else after - self._computed
        figures = _figures(self._workload, self._cluster, found.result, used, elapsed, _resident_megabytes(self._pids))
        date, facts = datetime.fromtimestamp(self._date, UTC).isoformat(timespec="seconds"), self._facts
        return replace(figures, date=date,
                       host=platform.node(), version=__version__, generator_busy=found.busy, processes=processes,
                       durability=facts.durability, metadata_version=facts.metadata_version,
                       cluster_id=facts.cluster_id, brokers=facts.brokers)


def fill(workload: Workload, cluster: Cluster, data_bytes: int) -> None:
    """Append about `data_bytes` of the workload's records to its topic, spread over the connections' partitions. The
    batches have the workload's size: a Fetch returns at least one whole batch, whatever its limits."""
    filler = replace(workload, kind="produce", in_flight=FILL_IN_FLIGHT, rate=0.0, acks=1, codec="none", groups=1,
                     batch_bytes=workload.batch_bytes or min(FILL_BATCH_BYTES, data_bytes))
    opened = open_all(producers(filler, cluster), cluster)
    try:
        specs = [produce_spec(filler, each.connection, each.places) for each in opened]
        left = max(1, data_bytes // specs[0].batch_bytes)
        with for_core(specs, [each.connection for each in opened]) as (loaded, _):
            load = Load(loaded)
            while left > 0:
                result = load.run(FILL_STEP_SECONDS, requests_max=left)
                if result.errors:
                    raise RefusedError(f"filling {workload.topic}", result.first_error)
                if not result.requests:
                    raise RefusedError(f"filling {workload.topic}", ErrorCode.REQUEST_TIMED_OUT)
                left -= result.requests
    finally:
        for each in opened:
            each.connection.close()


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
        records_sent=result.accepted_records, record_bytes_sent=result.accepted_bytes,
        records_read=result.records, record_bytes_read=result.records_bytes,
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
