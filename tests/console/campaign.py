"""The campaign of incidents: each of `incidents.toml` in a cluster of real processes, and what the page "why" says.

    python -m tests.console.campaign                        # all 40
    python -m tests.console.campaign --seed 7 --draw 10     # 10 of them, chosen by the seed
    python -m tests.console.campaign broker-killed strays   # these

It prints for each: the incident, the first sentence that names its cause, its place among the findings, and whether
that is right: one of the first three. The exit status is 1 when fewer than nine of ten are right.
"""

import argparse
import random
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from kraft.cli.console import CommandSources
from kraft.client import Cluster
from kraft.console.why.facts import Collector
from kraft.console.why.rules import findings
from kraft.local.cluster import LocalCluster
from kraft.local.launcher import Launcher
from tests.console.incidents import BEFORE, INJECTIONS, OF_ONE, SETTINGS, Lab
from tests.console.test_rules import FIRST, INCIDENTS

RIGHT_SHARE: Final = 0.9


class Outcome(NamedTuple):
    """Sentences of the page about one incident. `place`: that of the cause among them, from 1; 0 when it is missing."""

    name: str
    sentences: list[str]
    place: int

    @property
    def is_right(self) -> bool:
        return 0 < self.place <= FIRST

    @property
    def sentence(self) -> str:
        """The sentence that names the cause, else the first one."""
        return self.sentences[max(0, self.place - 1)] if self.sentences else "(nothing is red)"


def inject(name: str, directory: Path, launcher: Launcher) -> Outcome:
    """Inject an incident into a new cluster, and read the causes."""
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(directory, brokers=3, controllers=3, launcher=launcher,
                                                   settings=SETTINGS))
        for node_id, settings in OF_ONE.get(name, {}).items():
            cluster.nodes[node_id].settings |= settings
        lab = Lab(cluster, stack.enter_context(cluster.client()), stack)
        if name in BEFORE:
            BEFORE[name](lab)
        cluster.start()
        INJECTIONS[name](lab)
        found = findings(Collector(lambda: Cluster(cluster.bootstrap, timeout=3.0), CommandSources()).collect())
        for node in cluster.nodes.values():
            if node.ended is not None or not node.running:
                node.expect_end()
    return outcome_of(name, [each.sentence for each in found])


def outcome_of(name: str, sentences: list[str]) -> Outcome:
    """Judge the sentences about an incident."""
    place = next((at for at, text in enumerate(sentences, 1) if re.search(INCIDENTS[name]["finds"], text)), 0)
    return Outcome(name, sentences, place)


def drawn(seed: int, count: int) -> list[str]:
    """Choose incidents by a seed."""
    return random.Random(seed).sample(sorted(INCIDENTS), count)


def run(names: list[str]) -> list[Outcome]:
    """Inject the incidents one after the other, and print each outcome."""
    outcomes = []
    with tempfile.TemporaryDirectory() as home, Launcher() as launcher:
        for name in names:
            began = time.monotonic()
            found = inject(name, Path(home, name), launcher)
            outcomes.append(found)
            print(f"{'right' if found.is_right else 'WRONG'}  {name}: {found.sentence}\n"
                  f"       place {found.place} of {len(found.sentences)}, {time.monotonic() - began:.1f} s", flush=True)
            if not found.is_right:
                print("".join(f"       {each}\n" for each in found.sentences), end="", flush=True)
    return outcomes


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="INCIDENT")
    parser.add_argument("--seed", type=int, help="choose the incidents by this seed")
    parser.add_argument("--draw", type=int, default=10, help="how many, with --seed; by default 10")
    given = parser.parse_args()
    if unknown := [each for each in given.names if each not in INCIDENTS]:
        parser.error(f"unknown incidents: {', '.join(unknown)}")
    if not 1 <= given.draw <= len(INCIDENTS):
        parser.error(f"--draw: {given.draw}; allowed: 1 to {len(INCIDENTS)}")
    names = given.names or (list(INCIDENTS) if given.seed is None else drawn(given.seed, given.draw))
    outcomes = run(names)
    right = sum(each.is_right for each in outcomes)
    print(f"{right} of {len(outcomes)} causes right" + ("" if given.seed is None else f", drawn by seed {given.seed}"))
    return 0 if right >= RIGHT_SHARE * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
