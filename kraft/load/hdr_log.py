"""Log of HdrHistograms, an interval on each line, in the format version 1.3 that HdrHistogram's own tools read.

    #[StartTime: SECONDS (seconds since epoch), DATE]
    "StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"
    [Tag=NAME,]START,LENGTH,MAX,HISTOGRAM

START and LENGTH are seconds, START from the StartTime on. MAX is the greatest value in milliseconds. HISTOGRAM is
Base64 of the compressed encoding V2, whose values are nanoseconds.
"""

from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kraft.load.intervals import Interval, Pairs
from kraft.load.percentiles import histogram_of

END_TO_END_TAG: Final = "end-to-end"
NS_PER_MS: Final = 1e6


class HdrLog:
    """File that receives the intervals of a run as they end; a context manager. Latencies of requests have no tag,
    those from producer to reader the tag `end-to-end`. A line is complete in the file once it is written."""

    def __init__(self, path: Path, comment: str) -> None:
        self._file = path.open("w", encoding="ascii", errors="backslashreplace")
        self._begin: float | None = None
        self._line(f"#[{comment}]")
        self._line("#[Histogram log format version 1.3]")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._file.close()

    def add(self, interval: Interval) -> None:
        """Write the lines of an interval. Raises `OSError`."""
        if self._begin is None:
            self._begin = interval.begin
            date = datetime.fromtimestamp(interval.begin, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
            self._line(f"#[StartTime: {interval.begin:.3f} (seconds since epoch), {date}]")
            self._line('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"')
        place = f"{interval.begin - self._begin:.3f},{interval.seconds:.3f}"
        self._histogram("", place, interval.done.latency)
        if interval.done.end_to_end:
            self._histogram(f"Tag={END_TO_END_TAG},", place, interval.done.end_to_end)

    def _histogram(self, tag: str, place: str, pairs: Pairs) -> None:
        histogram = histogram_of(pairs)
        most = histogram.get_max_value() / NS_PER_MS if pairs else 0.0
        self._line(f"{tag}{place},{most:.3f},{histogram.encode().decode('ascii')}")

    def _line(self, text: str) -> None:
        self._file.write(f"{text}\n")
        self._file.flush()
