"""`kraft log compact`: the only log command that writes. It owns the log while it works.

A partition inside a log directory (beside `meta.properties`) is opened through that directory. That respects its lock,
including Kafka's, and keeps its checkpoints correct. A directory outside a log directory is locked by itself.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kraft import Log, LogConfig, LogDir
from kraft_native.compact.cleaner import CleanerStats


@contextmanager
def owned(directory: Path, config: LogConfig) -> Iterator[Log]:
    """Open the log in `directory` for writing."""
    top = directory.resolve().parent
    topic, _, partition = directory.resolve().name.rpartition("-")
    if (top / "meta.properties").exists() and topic and partition.isdecimal():
        with LogDir(top, config=config) as logs:
            yield logs.log(topic, int(partition), create=False)
    else:
        with Log(directory, config) as log:
            yield log


def compact(directory: Path, *, delete_retention_ms: int, min_lag_ms: int, buffer_bytes: int, roll: bool,
            progress: Callable[[int], None]) -> CleanerStats:
    """Compact everything below the active segment, or with `roll` everything that exists now."""
    config = LogConfig(cleanup_policy="compact", delete_retention_ms=delete_retention_ms,
                       min_compaction_lag_ms=min_lag_ms)
    reported = 0

    def report(done: int, _total: int) -> None:
        nonlocal reported
        if done < reported:         # the next round
            reported = 0
        progress(done - reported)
        reported = done

    with owned(directory, config) as log:
        if roll:
            log.roll()
        return log.compact(buffer_bytes=buffer_bytes, force=True, progress=report)
