"""`make pipeline-kills`: exports that are killed at random moments; every run must end with every record once."""

import argparse
import tempfile
from pathlib import Path

from tests.pipeline.kills import MODULES, PROCESSES, one_run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    PROCESSES.set_forkserver_preload(MODULES)
    kills = 0
    for number in range(options.seed, options.seed + options.runs):
        with tempfile.TemporaryDirectory(prefix="kraft-kills-") as top:
            killed, wrong = one_run(number, Path(top))
        kills += killed
        print(f"seed {number}: {killed} kills, {wrong[0] if wrong else 'every record once'}", flush=True)
        if wrong:
            return 1
    print(f"{options.runs} runs, {kills} kills: 0 missing, 0 twice")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
