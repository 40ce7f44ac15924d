"""A progress bar on standard error: only on a terminal, and only for work that takes a while."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

LONG_WORK_BYTES = 256 << 20


@contextmanager
def progress_bar(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Gives a function to be told how many bytes more are done."""
    console = Console(stderr=True)
    if not console.is_terminal or total_bytes < LONG_WORK_BYTES:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
               TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total_bytes)
        yield lambda count: bar.advance(task, count)
