"""A progress bar on standard error: only on a terminal, and only for work that takes a while."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LONG_WORK_BYTES = 256 << 20


@contextmanager
def progress_bar(what: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that accepts the number of further bytes done."""
    if total_bytes < LONG_WORK_BYTES:
        yield lambda _: None
        return
    # Imported only here: it would cost every other command 0.1 s at its start. An installation without the extra `node`
    # works without a bar.
    try:
        from rich import progress as bars
        from rich.console import Console
    except ModuleNotFoundError:
        yield lambda _: None
        return

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.DownloadColumn(),
               bars.TransferSpeedColumn(), bars.TimeRemainingColumn())
    # Lines for a file or a pipe go there, not to the terminal above the bar.
    with bars.Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task(what, total=total_bytes)
        yield lambda count: bar.advance(task, count)
