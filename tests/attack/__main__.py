"""Attack a node: `python -m tests.attack --elements 100000 --copies 1000 --connections 20`.

With `--acls 1000` the node has an authorizer, a thousand entries for other topics, and some that allow the attacker
everything. Prints one row per attack. Exits with 1 when the second client waited too long, or when the node used too
much memory, sent no reply or logged a fault of its own. The bounds are for an otherwise idle machine.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.attack import permissions
from tests.attack.readers import requests_of, unread
from tests.attack.records import SETTINGS, refused
from tests.attack.requests import Hostile, attacks
from tests.attack.run import BASE_BYTES, HEAD, P999_MS_MAX, Row, attack, attacked_node, judge, longest_steps
from tests.integration.process import NodeProcess


def rows(node: NodeProcess, arguments: argparse.Namespace) -> Iterator[Row]:
    """Run all requested attacks, one after the other."""
    def wanted(found: list[Hostile]) -> list[Hostile]:
        return [each for each in found if arguments.only.lower() in each.name.lower()]

    for hostile in wanted(attacks(arguments.elements, arguments.copies)):
        if arguments.acls:             # those that the attack before has deleted
            permissions.allow(node.address, arguments.acls)
        yield attack(node, hostile, arguments.connections if hostile.copies > 1 else 1)
    for hostile in wanted(refused(arguments.refused_bytes, arguments.elements)):
        yield attack(node, hostile)
    for hostile in wanted(requests_of(arguments.elements, arguments.copies)):
        for slow in (False, True):
            yield unread(node, hostile, arguments.connections, slow=slow)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--copies", type=int, default=1_000, help="requests that are sent before an answer is read")
    parser.add_argument("--connections", type=int, default=20, help="of those that send small requests")
    parser.add_argument("--refused-bytes", type=int, default=45_000_000, help="of a request with refused records")
    parser.add_argument("--acls", type=int, default=0, help="entries of the node's authorizer; 0: it has none")
    parser.add_argument("--only", default="", help="attacks with this in their name")
    arguments = parser.parse_args()
    print(f"bounds: p99.9 of the second client, without the machine's pauses, {P999_MS_MAX:g} ms; "
          f"memory {BASE_BYTES >> 20} MiB and twice the requests\n{HEAD}")
    wrong = 0
    with (tempfile.TemporaryDirectory() as directory,
          attacked_node(Path(directory) / "data", SETTINGS, permissions.SETTINGS if arguments.acls else None)
          as (node, metrics_port)):
        for row in rows(node, arguments):
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
