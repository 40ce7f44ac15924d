"""`make crash-cluster`: real processes and real clients through a thousand faults that are drawn from a seed."""

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path

from kraft.testing.history import summary
from tests.crash_cluster.campaign import Campaign


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash_cluster", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after these no chapter begins")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--controllers", type=int, default=0, help="in processes of their own; 0: brokers are it too")
    return parser.parse_args()


def print_line(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def main() -> int:
    """Return 1 if a guarantee was broken. The directories are then kept and the first problems are printed."""
    arguments = parse()
    directory = Path(tempfile.mkdtemp(prefix=f"kraft-faults-{arguments.seed}-"))
    campaign = Campaign(directory, arguments.seed, print_line, brokers=arguments.brokers,
                        controllers=arguments.controllers)
    began = time.monotonic()
    wrong = ""
    try:
        campaign.start()
        wrong = summary(campaign.run(arguments.faults, arguments.seconds))
        if not wrong:
            campaign.stop()
    except Exception as error:  # noqa: BLE001 - every error is a finding
        wrong = "".join(traceback.format_exception(error))
    finally:
        campaign.cluster.close()
    print(f"seed {arguments.seed}, {time.monotonic() - began:.0f} s\n{campaign.totals}")
    if wrong:
        print(f"seed {arguments.seed}, after {campaign.totals.faults.total()} faults, files in {directory}:\n{wrong}")
        return 1
    shutil.rmtree(directory)
    print("nothing lost, reordered, twice, or read before it was committed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
