"""Feed damaged input to the engine's parsers: `python -m tests.fuzz --seconds 120 --seed 1`.

Every target runs in a process of its own. Exits with 1 when a target neither returned nor refused; the input is then
in build/fuzz/<target>.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from tests.fuzz.run import fuzz
from tests.fuzz.targets import TARGETS

KEPT = Path("build/fuzz")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="for all targets together")
    parser.add_argument("--inputs", type=int, default=10**9, help="per target at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--target", choices=sorted(TARGETS), help="only this one, in this process")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    KEPT.mkdir(parents=True, exist_ok=True)
    if arguments.target:
        outcome = fuzz(arguments.target, arguments.seed, inputs_max=arguments.inputs, seconds=arguments.seconds,
                       first=arguments.first, keep=KEPT / arguments.target)
        print(outcome, flush=True)
        return 1 if outcome.broken else 0
    broken = 0
    for name in TARGETS:
        ended = subprocess.run([
            sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", "--target", name, "--seed", str(arguments.seed),
            "--seconds", str(arguments.seconds / len(TARGETS)), "--inputs", str(arguments.inputs)], check=False)
        if ended.returncode:
            broken += 1
            print(f"{name}: exit code {ended.returncode}, the input is in {KEPT / name}", flush=True)
    print(f"fuzz: {len(TARGETS)} targets, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
