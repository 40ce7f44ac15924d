"""Search for seeds that show a mutant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

from kraft.testing.mutants.patches import Mutant, planted
from kraft.testing.sim.campaign import campaign
from kraft.testing.sim.options import Options
from kraft.testing.sim.run import NOTHING_RAISES, Outcome, options_of, relocation_options_of, simulate


@dataclass(frozen=True, slots=True)
class Hunt:
    """Result of the search for one mutant.

    `needed`: the number of runs of each find, counted from the find before. `seed`: the seed of the first find.
    `violations`: the names of the violated invariants.
    """

    mutant: Mutant
    runs: int
    seed: int | None
    needed: tuple[int, ...]
    violations: tuple[str, ...]

    @property
    def median_runs(self) -> float | None:
        return median(self.needed) if self.needed else None

    def line(self) -> str:
        mutant = self.mutant
        number = f"{mutant.number:2}" if mutant.number else " -"
        if self.median_runs is None:
            return f"{number} {mutant.name:40} NOT FOUND in {self.runs} runs ({mutant.origin})"
        return (f"{number} {mutant.name:40} median {self.median_runs:g} of {self.runs} runs, first seed {self.seed}: "
                f"{', '.join(self.violations)} ({mutant.origin})")

    def as_json(self) -> dict[str, object]:
        return {"mutant": self.mutant.name, "number": self.mutant.number, "origin": self.mutant.origin,
                "text": self.mutant.text, "found": self.seed is not None, "runs": self.runs, "seed": self.seed,
                "median_runs": self.median_runs, "violations": list(self.violations)}


def hunt(mutants: Sequence[Mutant], seeds: range, jobs: int = 1, report: Callable[[Hunt], None] = lambda _found: None,
         finds: int = 3, draw: Callable[[int], Options] = options_of) -> list[Hunt]:
    """Try each mutant on the seeds, one after the other, until it is found `finds` times or no seed is left.

    `draw` returns the options for a seed; a mutant's own options override them. Raise `RuntimeError` when a mutant
    raises an exception that nothing else raises: it does not fit the patched code, and that is no find.
    """
    hunts = []
    for mutant in mutants:
        found = _hunt_one(mutant, seeds, jobs, finds, draw)
        report(found)
        hunts.append(found)
    return hunts


def _hunt_one(mutant: Mutant, seeds: range, jobs: int, finds: int, draw: Callable[[int], Options]) -> Hunt:
    needed: list[int] = []
    names: list[str] = []
    first = None
    remaining, runs, since = seeds, 0, 0
    run = partial(_run, mutant, relocation_options_of if mutant.options.get("relocation") else draw)
    while remaining and len(needed) < finds:
        with planted(mutant):
            report = campaign(remaining, jobs, until_found=True, run=run)
        runs, since = runs + report.runs, since + report.runs
        remaining = remaining[report.runs:]
        if report.findings and report.findings[0].name == NOTHING_RAISES:
            raise RuntimeError(f"{mutant.name} does not run: {report.findings[0].text}")
        # A failure that also occurs without the mutant does not show the mutant.
        if report.findings and run(report.findings[0].seed).violation is None:
            first = report.findings[0].seed if first is None else first
            needed.append(since)
            names.append(report.findings[0].name)
            since = 0
    return Hunt(mutant, runs, first, tuple(needed), tuple(sorted(dict.fromkeys(names))))


def _run(mutant: Mutant, draw: Callable[[int], Options], seed: int) -> Outcome:
    return simulate(seed, draw(seed).where(**mutant.options))
