"""Run the crash kit at length: `python -m tests.crash --help`."""

import argparse
import itertools
import sys
import time
from pathlib import Path

from kraft.crashes.run import scratch_directory

from .failing import FaultReport, run_failing
from .flips import DamageReport, DamageRun, read_state
from .reference import FLAWS, ReferenceLog
from .runner import Report, Runner
from .subject import DURABILITIES, Subject
from .workload import Workload, record

EVERY = {"states": 3, "failing": 1, "damage": 1}       # without --every


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("what", choices=("states", "failing", "damage", "all"), nargs="?", default="all")
    parser.add_argument("--subject", default="log", choices=("log", "compacted", "reference"),
                        help="the engine's log, a compacted one, or a small log in Python (with --flaw)")
    parser.add_argument("--reader", action="store_true", help="damage: checked by a reader without an owner")
    parser.add_argument("--flaw", choices=sorted(FLAWS), action="append", default=[])
    parser.add_argument("--durability", choices=DURABILITIES, action="append")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--states", type=int, default=100_000, help="crash states in all; seeds continue until then")
    parser.add_argument("--seeds", type=int, default=2, help="how many seeds for failing calls and damage")
    parser.add_argument("--steps", type=int, default=60, help="steps of a workload")
    parser.add_argument("--random", type=int, default=8, help="random states per crash point")
    parser.add_argument("--nested", type=int, default=20, help="crash the recovery of each n-th state too; 0: none")
    parser.add_argument("--bound", type=int, default=4_000, help="states per workload at most")
    parser.add_argument("--every", type=int, help="only each n-th crash point (without it each third), failing call, "
                        "flip or length (without it all)")
    parser.add_argument("--seconds", type=float, default=3_600.0, help="begin no new workload after so long")
    parser.add_argument("--show", type=int, default=10, help="broken promises to print")
    return parser.parse_args()


def subject_of(arguments: argparse.Namespace) -> Subject:
    if arguments.subject == "reference":
        return ReferenceLog(*arguments.flaw)
    from .engine import EngineLog
    return EngineLog("compact" if arguments.subject == "compacted" else "delete", reader=arguments.reader)


def run_states(arguments: argparse.Namespace, subject: Subject, every: int, deadline: float) -> int:
    total = Report()
    for seed in itertools.count(arguments.seed):
        if total.states >= arguments.states or time.monotonic() > deadline:
            break
        for durability in arguments.durability or DURABILITIES:
            begun = time.monotonic()
            with scratch_directory() as top:
                recording = record(subject, Path(top), durability, seed, arguments.steps)
                report = Runner(subject, recording, random_count=arguments.random, bound=arguments.bound,
                                every=every, nested=arguments.nested).run()
            total.add(report)
            print(f"states   {durability:12} seed {seed:3}: {len(recording.events):5} events, {report.points:4} crash "
                  f"points, {report.states:6} states of {report.generated:6}, {len(report.broken)} broken, "
                  f"{time.monotonic() - begun:5.1f} s", flush=True)
    for (durability, crash), count in sorted(total.tried.items()):
        print(f"states   {durability:12} {crash:22}: {count:7}")
    return finish("states", total.states, [str(broken) for broken in total.broken], arguments.show)


def run_faults(arguments: argparse.Namespace, subject: Subject, every: int, deadline: float) -> int:
    total = FaultReport()
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        for durability in arguments.durability or DURABILITIES:
            if time.monotonic() > deadline:
                break
            begun = time.monotonic()
            report = run_failing(subject, durability, seed, arguments.steps, every=every)
            total.add(report)
            print(f"failing  {durability:12} seed {seed:3}: {report.tried.total():6} runs, "
                  f"{len(report.broken)} broken, {time.monotonic() - begun:5.1f} s", flush=True)
    for label, count in total.tried.items():
        print(f"failing  {label:32}: {count:7}")
    return finish("failing", total.tried.total(), total.broken, arguments.show)


def run_damage(arguments: argparse.Namespace, subject: Subject, every: int, deadline: float) -> int:
    total = DamageReport()
    for seed in range(arguments.seed, arguments.seed + arguments.seeds):
        for clean in (True, False):
            if time.monotonic() > deadline:
                break
            begun = time.monotonic()
            with scratch_directory() as top:
                run = damage_run(subject, Path(top), seed, arguments.steps // 3, clean=clean)
                report = run.run(every=every)
            total.add(report)
            print(f"damage   {'clean' if clean else 'killed':12} seed {seed:3}: {report.tried:6} damages, "
                  f"{len(report.broken)} broken, {time.monotonic() - begun:5.1f} s", flush=True)
    for (kind, outcome), count in sorted(total.outcomes.items()):
        print(f"damage   {kind:28} {outcome:14}: {count:7}")
    return finish("damage", total.tried, total.broken, arguments.show)


def damage_run(subject: Subject, top: Path, seed: int, steps: int, *, clean: bool) -> DamageRun:
    """Damage a small log that was closed cleanly, or left as kill -9 leaves it."""
    directory = top / "log"
    directory.mkdir()
    workload = Workload(subject, directory, "page-cache", seed, lambda _: None)
    if clean:
        workload.run(steps)
        state = read_state(directory)
    else:
        workload.run_steps(steps)
        state = read_state(directory)
        workload.session.close()
    return DamageRun(subject, state, workload.history, clean=clean)


def finish(what: str, tried: int, broken: list[str], show: int) -> int:
    for line in broken[:show]:
        print(f"BROKEN   {line}")
    print(f"{what}: {tried} tried, {len(broken)} broken promises")
    return len(broken)


def main() -> int:
    arguments = parse()
    subject = subject_of(arguments)
    deadline = time.monotonic() + arguments.seconds
    broken = 0
    for name, run in (("states", run_states), ("failing", run_faults), ("damage", run_damage)):
        if arguments.what in (name, "all"):
            broken += run(arguments, subject, arguments.every or EVERY[name], deadline)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
