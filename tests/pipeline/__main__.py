"""`make pipeline-kills` and `make spark-kills`: exports, and ingests with their broker, are killed at random moments.

They run on threads or in Spark. Every run must end with every record once. By default every second run uses
transactions: for the records that are exported, and for those that are written.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.pipeline import ingest_kills, kills


class Run(Protocol):
    """One run, of a seed and a directory. Returns (kills, faults in the end)."""

    def __call__(self, seed: int, top: Path, *, transactions: bool) -> tuple[int, list[str]]: ...


WHATS = ("export", "ingest", "spark")


@contextmanager
def run_of(what: str) -> Iterator[Run]:
    """Provide the function of one run."""
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
    parser.add_argument("--transactions", action=argparse.BooleanOptionalAction)
    options = parser.parse_args()
    count = 0
    with run_of(options.what) as one_run:
        for number in range(options.seed, options.seed + options.runs):
            with tempfile.TemporaryDirectory(prefix="kraft-kills-", ignore_cleanup_errors=True) as top:
                transactions = number % 2 == 1 if options.transactions is None else options.transactions
                killed, wrong = one_run(number, Path(top), transactions=transactions)
            count += killed
            way = "transactions" if transactions else "sequences"
            print(f"seed {number}, {way}: {killed} kills, {wrong[0] if wrong else 'every record once'}", flush=True)
            if wrong:
                return 1
    print(f"{options.runs} runs, {count} kills: 0 missing, 0 twice")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
