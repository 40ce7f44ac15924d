"""Attack the TLS and SASL listeners of a node: `python -m tests.hostile_tls --connections 10000 --cases 1000000`.

Holds half-open connections, makes handshakes fail, and measures what other clients wait meanwhile and the node's
memory. Then feeds broken TLS records and SASL frames. Exits with 1 when something is wrong.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.hostile_tls.fuzz import fuzz
from tests.hostile_tls.run import attack, on_node

NO_DELAY = {"connection.failed.authentication.delay.ms": "0"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile_tls", description=__doc__)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--cases", type=int, default=2_000, help="of TLS, and of SASL")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    is_wrong = False
    for settings, work in (
            ({}, lambda node: attack(node, arguments.connections, arguments.seconds)),
            (NO_DELAY, lambda node: fuzz(node, arguments.cases, arguments.seed, arguments.first))):
        with tempfile.TemporaryDirectory() as directory:
            report = on_node(Path(directory) / "data", settings, work)
        print(report, flush=True)
        is_wrong = is_wrong or bool(report.wrong)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
