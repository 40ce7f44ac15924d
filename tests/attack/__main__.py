"""Attacks a node: `python -m tests.attack --elements 100000 --copies 1000 --connections 20`.

One row per attack. Ends with 1 when the second client waited too long, the node took too much memory or gave no answer,
or logged a fault of its own. The bounds are for a machine that does nothing else.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.attack.run import BASE_BYTES, HEAD, P999_MS_MAX, attack, attacked_node, judge, longest_steps, pattern


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--copies", type=int, default=1_000, help="requests that are sent before an answer is read")
    parser.add_argument("--connections", type=int, default=20, help="of those that send small requests")
    parser.add_argument("--only", default="", help="attacks with this in their name")
    arguments = parser.parse_args()
    print(f"bounds: p99.9 of the second client {P999_MS_MAX:g} ms; memory {BASE_BYTES >> 20} MiB and twice the "
          f"requests\n{HEAD}")
    wrong = 0
    with tempfile.TemporaryDirectory() as directory, attacked_node(Path(directory) / "data") as (node, metrics_port):
        for hostile in pattern(arguments.only, arguments.elements, arguments.copies):
            row = attack(node, hostile, arguments.connections if hostile.copies > 1 else 1)
            judge(row, P999_MS_MAX, BASE_BYTES)
            wrong += bool(row.wrong)
            print(row, flush=True)
        steps = longest_steps(node, metrics_port)
        alarms = node.alarms()
    print("longest steps, ms: " + ", ".join(
        f"{name or 'connection'} {seconds * 1000:.1f}" for name, seconds in sorted(steps.items(), key=lambda s: -s[1])))
    for line in alarms:
        print(f"WRONG: logged {line}")
    return 1 if wrong or alarms else 0


if __name__ == "__main__":
    sys.exit(main())
