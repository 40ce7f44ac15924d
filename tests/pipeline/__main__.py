"""`make pipeline-kills` and `make spark-kills`: exports, and ingests with their broker, are killed at random moments.

They run on threads or in Spark. Every run must end with every record once.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.pipeline import ingest_kills, kills

Run = Callable[[int, Path], tuple[int, list[str]]]

WHATS = ("export", "ingest", "spark")


@contextmanager
def run_of(what: str) -> Iterator[Run]:
    """Return the function of one run, of a seed and a directory: (kills, faults in the end)."""
    if what == "spark":
        from tests.pipeline.spark_kills import spark_runs

        with (tempfile.TemporaryDirectory(prefix="kraft-kills-", ignore_cleanup_errors=True) as top,
              spark_runs(Path(top)) as runs):
            yield runs.one_run
        return
    kills.PROCESSES.set_forkserver_preload([*kills.MODULES, "tests.pipeline.ingest_kills"])
    yield {"export": kills.one_run, "ingest": ingest_kills.one_run}[what]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=WHATS)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    count = 0
    with run_of(options.what) as one_run:
        for number in range(options.seed, options.seed + options.runs):
            with tempfile.TemporaryDirectory(prefix="kraft-kills-", ignore_cleanup_errors=True) as top:
                killed, wrong = one_run(number, Path(top))
            count += killed
            print(f"seed {number}: {killed} kills, {wrong[0] if wrong else 'every record once'}", flush=True)
            if wrong:
                return 1
    print(f"{options.runs} runs, {count} kills: 0 missing, 0 twice")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
