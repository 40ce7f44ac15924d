"""`make crash-transactions`: real transactional clients through faults that are drawn from a seed."""

import argparse
import pickle
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kraft.testing.history import summary
from tests.clients.transactional import reason_against
from tests.crash_transactions.campaign import WRITERS, Campaign, Goal
from tests.crash_transactions.foreign import NAMES
from tests.crash_transactions.targets import KafkaTarget, OurCluster, Target

SWITCH_SECONDS: Final = 0.001
"""Longest time for which a busy thread makes the others wait, the relay among them."""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash_transactions", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--writers", type=int, default=WRITERS, help="of librdkafka, and as many of kraft.client")
    parser.add_argument("--seconds", type=float, default=7_200.0, help="after these no fault and no chapter begins")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--kafka", action="store_true", help="one node of Apache Kafka in place of the cluster")
    parser.add_argument("--late-for-all", action="store_true",
                        help="delay requests of clients that no broker can protect from that")
    parser.add_argument("--foreign", choices=(*NAMES, "none"), action="append", metavar="CLIENT",
                        help=f"client of another language: {', '.join(NAMES)}, none; by default all that can be built")
    return parser.parse_args()


def print_line(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def foreign_clients(wanted: Sequence[str]) -> list[str]:
    """Return the clients of other languages that can be run. Prints why others cannot."""
    reasons = {name: reason_against(name) for name in wanted if name != "none"}
    for name, reason in reasons.items():
        if reason is not None:
            print_line(f"without {name}: {reason}")
    return [name for name, reason in reasons.items() if reason is None]


def main() -> int:
    """Return 1 if an anomaly was found. The directories and the history are then kept."""
    arguments = parse()
    directory = Path(tempfile.mkdtemp(prefix=f"kraft-transactions-{arguments.seed}-"))
    target: Target = (KafkaTarget(directory, arguments.seed, late_for_all=arguments.late_for_all)
                      if arguments.kafka else
                      OurCluster(directory, arguments.seed, brokers=arguments.brokers,
                                 late_for_all=arguments.late_for_all))
    campaign = Campaign(target, arguments.seed, print_line, writers=arguments.writers,
                        foreign=foreign_clients(arguments.foreign or NAMES))
    sys.setswitchinterval(SWITCH_SECONDS)
    began = time.monotonic()
    wrong = ""
    with target:
        try:
            target.start()
            wrong = summary(campaign.run(Goal(arguments.faults, arguments.transactions, arguments.seconds)))
        except Exception as error:  # noqa: BLE001 - every error is a finding
            wrong = "".join(traceback.format_exception(error))
    print(f"seed {arguments.seed}, {time.monotonic() - began:.0f} s\n{campaign.totals}")
    for counts in (target.faults, target.relay.counts):
        print("\n".join(f"    {kind}: {count}" for kind, count in counts.items()))
    if wrong:
        (directory / "history.pickle").write_bytes(pickle.dumps(campaign.history))
        print(f"seed {arguments.seed}, files in {directory}:\n{wrong}")
        return 1
    shutil.rmtree(directory)
    print("no anomaly")
    return 0


if __name__ == "__main__":
    sys.exit(main())
