"""Feed random and mutated frames to a node: `python -m tests.fuzz_wire --seconds 120 --seed 1`.

Covers every API and version, from captured frames and generated messages. Exits with 1 when the node died, stopped
answering, logged a fault of its own, sent a reply that cannot be decoded, or grew. `--first N --frames 1` sends one
frame again.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz_wire.run import fuzz


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_wire", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--frames", type=int, default=10**9, help="at most")
    parser.add_argument("--first", type=int, default=0, help="number of the first frame")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        report = fuzz(Path(directory) / "data", arguments.seed, seconds=arguments.seconds, frames_max=arguments.frames,
                      first=arguments.first)
    print(report)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
