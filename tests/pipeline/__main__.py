"""`make pipeline-kills`: exports, and ingests with their broker, that are killed at random moments. Every run must end
with every record once."""

import argparse
import tempfile
from pathlib import Path

from tests.pipeline import ingest_kills, kills

RUNS = {"export": kills.one_run, "ingest": ingest_kills.one_run}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=list(RUNS))
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    kills.PROCESSES.set_forkserver_preload([*kills.MODULES, "tests.pipeline.ingest_kills"])
    count = 0
    for number in range(options.seed, options.seed + options.runs):
        with tempfile.TemporaryDirectory(prefix="kraft-kills-") as top:
            killed, wrong = RUNS[options.what](number, Path(top))
        count += killed
        print(f"seed {number}: {killed} kills, {wrong[0] if wrong else 'every record once'}", flush=True)
        if wrong:
            return 1
    print(f"{options.runs} runs, {count} kills: 0 missing, 0 twice")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
