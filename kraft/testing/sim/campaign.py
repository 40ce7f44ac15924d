"""Campaign: many runs on several processes, and the sum of their results."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from multiprocessing import get_context
from time import monotonic

from kraft.raft.transitions import TRANSITIONS
from kraft.testing.sim.options import Options
from kraft.testing.sim.run import Outcome, Run, simulate

FAULTS = (
    "message dropped", "message duplicated", "message late", "message cut", "records damaged", "link cut one way",
    "network parted", "node isolated", "successor killed", "link flapping", "process killed", "power lost",
    "power lost everywhere", "pieces lost", "process paused", "rolling restart", "graceful stop", "node moved",
    "clock jumped", "flush slow", "flush fails", "write fails", "quorum-state write fails",
    "nodes relocated", "addresses exchanged", "message to an address without a listener", "reconnect pause",
    "quorum-state of a later release", "quorum-state damaged", "bit flipped", "disk wiped", "voter to add",
    "voter to remove", "reassignment", "reassignment stopped", "leader resigns", "pre-vote unsupported",
    "controlled shutdown", "batches lost", "topic deleted", "reassignment cancelled", "preferred election requested",
    "unclean election requested", "records deleted", "leadership goes round", "answers held back", "follower rebooted",
    "quorum connections hang", "controller overtaken", "requests of a producer held back", "log directory failed",
    "log directory repaired", "log directory replaced", "batches lost with a directory",
    "connection to the controller broken", "connections refused by a live broker", "half-open connection to a broker",
    "requests held back", "markers or checks of transactions held back", "transaction.version changed",
    "request repeated late", "batch stuck on its way", "transactions abandoned",
    "group.version changed", "partition added", "members that join", "members that leave", "members that die",
    "members that hang", "members slow to give up", "subscriptions changed",
    "setting of a group changed", "load meets the cleaner",
)
"""Names under which runs count faults."""

COLLECTION_THRESHOLDS = (200_000, 10, 5)
"""See `gc.set_threshold`."""

BROKERS = (
    "leader elections", "unclean elections", "changes of in-sync replicas", "in-sync replicas proposed",
    "replicas assigned to directories", "replica is offline", "failure of a directory put off", "cancellation put off",
    "reassignments ended", "replica truncated", "batches produced", "batches acknowledged", "polls with records",
    "high watermarks checked", "requests decided", "death put off", "producer epoch bumped", "broker probed: REFUSED",
    "broker probed: UNANSWERED", "broker probed: ACCEPTED", "live broker taken for dead",
    "leader checked: ANSWERED", "leader checked: REFUSED", "leader checked: UNANSWERED", "answer held",
    "dead leader left out", "live leader left out", "dead leader named", "producer epochs begun",
    "transactions begun", "transactions committed", "transactions aborted", "partitions assigned", "members fenced",
    "offsets committed", "offsets read",
)
"""Names under which runs with brokers count the actions of those."""


@dataclass(slots=True)
class Finding:
    """A violation, which the run of `seed` with `options` shows."""

    seed: int
    name: str
    text: str
    options: Options


@dataclass(slots=True)
class Report:
    """Sum of many runs. `digest` covers their digests, in the order of their seeds."""

    runs: int = 0
    events: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    transitions: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.events += outcome.events
        self.virtual_seconds += outcome.virtual_seconds
        self.cpu_seconds += outcome.cpu_seconds
        self.counts.update(outcome.counts)
        self.transitions.update(outcome.transitions)
        self.digests[outcome.seed] = outcome.digest
        if outcome.violation is not None:
            self.findings.append(finding_of(outcome))

    @property
    def digest(self) -> str:
        whole = blake2b(digest_size=16)
        for seed in sorted(self.digests):
            whole.update(self.digests[seed].encode())
        return whole.hexdigest()

    @property
    def faults(self) -> dict[str, int]:
        return {name: self.counts[name] for name in FAULTS}

    @property
    def brokers(self) -> dict[str, int]:
        """Counts of the brokers' actions; empty when no brokers ran."""
        return {name: self.counts[name] for name in BROKERS} if self.counts["requests decided"] else {}

    @property
    def missing_transitions(self) -> list[tuple[str, str, str]]:
        """Transitions in the core's table that no run made."""
        return [each for each in table() if not self.transitions[each]]

    @property
    def speed(self) -> float:
        """Virtual seconds for each second of one processor."""
        return self.virtual_seconds / self.cpu_seconds if self.cpu_seconds else 0.0

    def as_json(self) -> dict[str, object]:
        return {
            "runs": self.runs, "events": self.events, "simulated_hours": round(self.virtual_seconds / 3600, 3),
            "cpu_seconds": round(self.cpu_seconds, 1), "speed": round(self.speed, 1), "digest": self.digest,
            "faults": self.faults, "faults_total": sum(self.faults.values()),
            "elections": self.counts["elections"], "truncations": self.counts["core truncates"],
            "snapshots_made": self.counts["snapshot made"], "snapshots_installed": self.counts["snapshot installed"],
            "voter_changes": self.counts["core voters"], "values_proposed": self.counts["proposals"],
            "values_acknowledged": self.counts["values acknowledged"],
            "fetches_left_ahead": self.counts["fetch left ahead"],
            "fetches_taken_back": self.counts["fetch taken back"],
            "fetches_without_core": self.counts["fetch without the core"],
            "fetches_answered_first": self.counts["answer to what left ahead came first"],
            "brokers": self.brokers,
            "transitions": {" | ".join(each): self.transitions[each] for each in table()},
            "transitions_missing": [" | ".join(each) for each in self.missing_transitions],
            "violations": [{"seed": each.seed, "name": each.name, "text": each.text, "options": str(each.options)}
                           for each in self.findings],
        }


def table() -> list[tuple[str, str, str]]:
    """Return every change of role that the core knows, one by one: (role, cause, role)."""
    return [(role.value, cause.value, target.value)
            for role, causes in TRANSITIONS.items() for cause, targets in causes.items() for target in targets]


def campaign(seeds: Iterable[int], jobs: int = 1, seconds: float | None = None,
             progress: Callable[[Report], None] = lambda _report: None,
             until_found: bool = False, run: Run = simulate) -> Report:
    """Run all seeds, or as many as `seconds` allow. Stop at the first violation when `until_found`."""
    report = Report()
    deadline = None if seconds is None else monotonic() + seconds
    for outcome in _outcomes(seeds, jobs, run):
        report.add(outcome)
        progress(report)
        if (deadline is not None and monotonic() >= deadline) or (until_found and report.findings):
            break
    return report


def _outcomes(seeds: Iterable[int], jobs: int, run: Run) -> Iterator[Outcome]:
    with rare_collections():
        if jobs == 1:
            yield from map(run, seeds)
            return
        # Forked, so that a change of the core by the caller (a mutant) exists in the children, too. In batches, because
        # a pool consumes an endless range whole.
        remaining = iter(seeds)
        with get_context("fork").Pool(jobs) as pool:
            while batch := list(islice(remaining, jobs * 8)):
                yield from pool.imap(run, batch)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely, and never what exists before the `with` block. A run creates few cycles, but a collection
    visits all modules and records of the process."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


# --- the smallest run that still fails --------------------------------------------------------------------------------

SEEDS_TRIED = 3


def shrink(finding: Finding, progress: Callable[[Finding], None] = lambda _finding: None) -> Finding:
    """Search for fewer faults and a shorter run that still break the same invariant. Without a fault the run is another
    one, so some other seeds are tried, too."""
    smallest = finding
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for options in _smaller(smallest.options):
            found = _find(smallest, options)
            if found is not None:
                smallest, is_smaller = found, True
                progress(smallest)
    return smallest


def _smaller(options: Options) -> Iterator[Options]:
    """Yield options that have one fault, or one size, less."""
    if options.fault_seconds > 1:
        yield options.where(fault_seconds=options.fault_seconds // 2)
    if options.voters > 2:
        yield options.where(voters=options.voters - 1)
    for name in options.changed:
        if name not in ("fault_seconds", "voters"):
            yield options.without(name)


def _find(finding: Finding, options: Options) -> Finding | None:
    for number in range(SEEDS_TRIED):
        seed = finding.seed + number
        outcome = simulate(seed, options)
        if outcome.violation is not None and outcome.violation.name == finding.name:
            return Finding(seed, finding.name, outcome.violation.text, options)
    return None


def finding_of(outcome: Outcome) -> Finding:
    """Return the violation of a run that has one."""
    assert outcome.violation is not None
    return Finding(outcome.seed, outcome.violation.name, outcome.violation.text, outcome.options)
