"""A load from several processes of this machine, merged into one result.

Each process opens every n-th connection of the load, and all begin at the same moment. Each sends its seconds and its
result to this one through a pipe.
"""

import threading
from collections.abc import Callable
from multiprocessing import connection as waiting
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import SpawnProcess
from typing import Any, Final

from kraft.client import Cluster
from kraft.client.security import Security
from kraft.load.errors import InvalidWorkloadError
from kraft.load.generate import Generated, Job, generate
from kraft.load.intervals import Interval, total
from kraft.load.places import Part
from kraft_native.base.errors import KraftError, OperationError

PROCESSES_MAX: Final = 64
START_SECONDS: Final = 120.0
END_SECONDS: Final = 60.0


def generate_together(job: Job, cluster: Cluster, processes: int, *, begin: Callable[[], None] = lambda: None,
                      report: Callable[[Interval], None] | None = None) -> Generated:
    """Run the job in `processes` processes. `begin` is called when all have warmed up. Raises `InvalidWorkloadError`
    when there are fewer connections than processes, and `OperationError` with the text of a process that failed."""
    if not 1 <= processes <= PROCESSES_MAX:
        raise InvalidWorkloadError(f"processes: {processes} is not in 1 to {PROCESSES_MAX}")
    if job.workload.connections < processes:
        raise InvalidWorkloadError(f"connections: {job.workload.connections} is below {processes}, the number of "
                                   "processes")
    context = get_context("spawn")
    pipes: list[Pipe] = []
    workers: list[SpawnProcess] = []
    bootstrap = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in cluster.bootstrap)
    try:
        for index in range(processes):
            ours, theirs = context.Pipe()
            pipes.append(ours)
            worker = context.Process(target=_work, name=f"kraft-bench-{index}", daemon=True, args=(
                theirs, job, Part(index, processes), bootstrap, cluster.security, report is not None))
            worker.start()
            theirs.close()
            workers.append(worker)
        _collect(pipes, "ready", START_SECONDS + job.warmup, None)
        begin()
        for pipe in pipes:
            pipe.send("go")
        found = _collect(pipes, "done", job.seconds + END_SECONDS, Merged(processes, report) if report else None)
        for worker in workers:
            worker.join(END_SECONDS)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
        for pipe in pipes:
            pipe.close()
    return Generated(total([each.result for each in found]), max(each.busy for each in found))


class Merged:
    """Seconds of several processes: each is reported when all have sent it, and what remains at the end."""

    def __init__(self, processes: int, report: Callable[[Interval], None]) -> None:
        self._processes, self._report = processes, report
        self._open: dict[int, list[Interval]] = {}

    def add(self, interval: Interval) -> None:
        parts = self._open.setdefault(interval.number, [])
        parts.append(interval)
        if len(parts) == self._processes:
            self._emit(interval.number)

    def finish(self) -> None:
        """Report the seconds that not every process has begun."""
        for number in sorted(self._open):
            self._emit(number)

    def _emit(self, number: int) -> None:
        parts = self._open.pop(number)
        self._report(Interval(number, min(each.begin for each in parts), max(each.seconds for each in parts),
                              total([each.done for each in parts])))


def _collect(pipes: list[Pipe], awaited: str, seconds: float, merged: Merged | None) -> list[Any]:
    """Return what all processes send with this word, in their order."""
    found: dict[int, Any] = {}
    while len(found) < len(pipes):
        left = [pipe for number, pipe in enumerate(pipes) if number not in found]
        ready = waiting.wait(left, seconds)
        if not ready:
            raise OperationError(f"{len(left)} of {len(pipes)} generator processes did not answer in {seconds:g} s")
        for number, pipe in enumerate(pipes):
            if pipe not in ready:
                continue
            try:
                word, content = pipe.recv()
            except EOFError as error:
                raise OperationError(f"generator process {number} ended without a result") from error
            if word == "failed":
                raise OperationError(f"generator process {number}: {content}")
            if word == awaited:
                found[number] = content
            elif merged is not None:
                merged.add(content)
    if merged is not None:
        merged.finish()
    return [found[number] for number in range(len(pipes))]


def _work(pipe: Pipe, job: Job, part: Part, bootstrap: str, security: Security, reports: bool) -> None:
    """One process: waits between warm-up and counted time until all are ready."""
    lock = threading.Lock()             # seconds are sent by another thread

    def send(word: str, content: object) -> None:
        with lock:
            pipe.send((word, content))

    def begin() -> None:
        send("ready", None)
        pipe.recv()

    try:
        with Cluster(bootstrap, security=security) as cluster:
            send("done", generate(job, cluster, part=part, begin=begin,
                                  report=(lambda interval: send("second", interval)) if reports else None))
    except (KraftError, OSError) as error:
        send("failed", str(error) or type(error).__name__)
    except KeyboardInterrupt:
        pass                            # the terminal sends Ctrl-C to all of them; the first process reports it
