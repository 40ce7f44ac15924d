"""Output of `kraft bench` during a run: a line on the terminal, a log of HdrHistograms."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from kraft._version import __version__
from kraft.client import Cluster
from kraft.load.hdr_log import HdrLog
from kraft.load.intervals import Interval
from kraft.load.measure import Measurement, measure
from kraft.load.percentiles import figures_of, histogram_of
from kraft.load.workload import Workload

SHOWN_SECONDS_MIN: Final = 0.1


@contextmanager
def watching(text: str, options: dict[str, Any]) -> Iterator[Callable[[Interval], None] | None]:
    """Yield what receives each second of a run; None when nobody needs it. On a terminal the current second stands
    beside a spinner; with --progress each second is a line of standard error. --hdr-log writes them to a file."""
    console = Console(stderr=True)
    with ExitStack() as stack:
        receivers: list[Callable[[Interval], None]] = []
        if (path := options["hdr_log"]) is not None:
            receivers.append(stack.enter_context(HdrLog(path, f"kraft bench {__version__}: {text}")).add)
        if options["progress"]:
            receivers.append(_print)
        elif console.is_terminal and options["progress"] is None:
            progress = stack.enter_context(Progress(SpinnerColumn(), TextColumn("{task.description}"),
                                                    TimeElapsedColumn(), console=console, transient=True))
            task = progress.add_task(text, total=None)
            receivers.append(lambda interval: progress.update(task, description=interval_text(interval)))
        if not receivers:
            yield None
            return

        def report(interval: Interval) -> None:
            for receive in receivers:
                receive(interval)

        yield report
        sys.stderr.flush()


def _print(interval: Interval) -> None:
    """Print a second; not the short rest after the last one."""
    if interval.seconds >= SHOWN_SECONDS_MIN or not interval.number:
        click.echo(interval_text(interval), err=True)


def measured(workload: Workload, cluster: Cluster, options: dict[str, Any], pids: Sequence[int] = (),
             text: str = "", seconds: float | None = None) -> Measurement:
    """Measure a workload as the options want it, and show its seconds."""
    seconds = options["seconds"] if seconds is None else seconds
    with watching(text or f"{workload.kind} for {options['warmup'] + seconds:g} s", options) as report:
        return measure(workload, cluster, seconds=seconds, warmup=options["warmup"], pids=pids,
                       processes=options["processes"], report=report)


def refuse_log(options: dict[str, Any]) -> None:
    """Raise `click.UsageError` for a log of histograms, which has one run."""
    if options["hdr_log"] is not None:
        raise click.UsageError("--hdr-log is the log of one run, and this command makes several.")


def interval_text(interval: Interval) -> str:
    """Describe one second of a run: what was done in it, and its latencies."""
    done, seconds = interval.done, interval.seconds
    parts = [f"{interval.number + 1:4} s: {done.requests / seconds:,.0f} requests/s"]
    if done.accepted_records:
        parts.append(f"{done.accepted_records / seconds:,.0f} records/s and "
                     f"{done.accepted_bytes / seconds / 1e6:,.1f} MB/s sent")
    if done.records:
        parts.append(f"{done.records / seconds:,.0f} records/s and {done.records_bytes / seconds / 1e6:,.1f} MB/s read")
    for name, pairs in (("", done.latency), ("end to end ", done.end_to_end)):
        figures = figures_of(histogram_of(pairs))
        if figures:
            high = "99" if "99" in figures else "max"
            parts.append(f"{name}p50 {figures.get('50', figures['max']) / 1e3:,.2f} ms, "
                         f"{'p99' if high == '99' else 'max'} {figures[high] / 1e3:,.2f} ms")
    if done.errors:
        parts.append(f"{done.errors:,} refused")
    return ", ".join(parts)
