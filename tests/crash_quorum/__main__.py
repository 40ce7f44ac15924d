"""Run the quorum of real processes through its faults: `python -m tests.crash_quorum --help`."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.crash_quorum import runs
from tests.integration.quorum import Quorum

RUNS = ("failover", "returning", "chaos", "membership", "idle")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash_quorum", description=__doc__)
    parser.add_argument("what", choices=(*RUNS, "all"), nargs="*", default="all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=50, help="failover: how often the leader is killed")
    parser.add_argument("--stops", type=int, default=20, help="failover: how often the leader is stopped gracefully")
    parser.add_argument("--rounds", type=int, default=3, help="returning: how often each kind of return is tried")
    parser.add_argument("--events", type=int, default=1_000, help="chaos: kills and pauses in all")
    parser.add_argument("--seconds", type=float, default=30.0, help="idle: how long to look")
    return parser.parse_args()


def print_line(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def run(what: str, directory: Path, arguments: argparse.Namespace) -> None:
    quorum = Quorum(directory, 10 if what == "membership" else 3, voters=1 if what == "membership" else None)
    try:
        for node_id in quorum.nodes:
            quorum.start([node_id])
        if what == "failover":
            gaps, committed = runs.failover(quorum, arguments.kills, graceful=False)
            print_line(f"leader killed, {gaps}; {committed} commits, none lost")
            gaps, committed = runs.failover(quorum, arguments.stops, graceful=True)
            print_line(f"leader stopped, {gaps}; {committed} commits, none lost")
        elif what == "returning":
            print_line(f"returning nodes: {runs.returning(quorum, arguments.rounds)}, the epoch raised 0 times")
        elif what == "chaos":
            result = runs.chaos(quorum, arguments.events, arguments.seed, print_line)
            print_line(f"chaos, seed {arguments.seed}: {result}")
        elif what == "membership":
            print_line(f"membership: {runs.membership(quorum, print_line)}")
        else:
            shares = runs.idle(quorum, arguments.seconds)
            print_line("idle, of one processor: " + ", ".join(
                f"node {node_id}{' (leader)' if not number else ''} {share:.2%}"
                for number, (node_id, share) in enumerate(shares.items())))
        quorum.stop()
    finally:
        for node in quorum.nodes.values():
            node.kill()


def main() -> int:
    arguments = parse()
    wanted = RUNS if "all" in arguments.what else tuple(arguments.what)
    for what in wanted:
        with tempfile.TemporaryDirectory() as directory:
            run(what, Path(directory), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
