"""Set every setting of every resource to hostile values on live nodes: `python -m tests.evil_config --seed 1`.

Runs first on a single node, then on three. Exits with 1 when a node stopped, or a request got no reply or an
unexpected error. It also does when a topic was not served afterwards, or after a restart with the accepted values.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.evil_config.run import attack


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.evil_config", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--values", type=int, help="of each setting, at most")
    parser.add_argument("--rounds", type=int, default=10, help="restarts with accepted values in force together")
    arguments = parser.parse_args()
    wrong = False
    for nodes in (1, 3):
        with tempfile.TemporaryDirectory() as directory:
            report = attack(Path(directory) / "cluster", arguments.seed, nodes=nodes, values=arguments.values,
                            rounds=arguments.rounds)
        print(report, flush=True)
        wrong = wrong or bool(report.wrong)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
