"""Whole runs: they hold, they are the same wherever they run, and they find bugs."""

import gc
import os
import subprocess
import sys

import pytest

from kraft.testing.mutants.find import hunt
from kraft.testing.mutants.patches import planted
from kraft.testing.mutants.registry import MUTANTS
from kraft.testing.sim.campaign import COLLECTION_THRESHOLDS, campaign, finding_of, rare_collections, shrink, table
from kraft.testing.sim.options import Options, parse
from kraft.testing.sim.run import Outcome, options_of, simulate, simulate_relocation
from kraft.testing.sim.world import World

SHORT = {"fault_seconds": 1}

# Bugs of each kind with a seed that soon shows them.
SHOWN = {
    "restarted-leader-stays-leader": 18, "no-check-quorum": 15, "observers-campaign": 4, "timer-is-not-reset": 4,
    "restarted-leader-votes-again": 10, "resigning-is-ignored": 3, "no-pre-vote": 0, "any-log-wins": 0,
    "votes-twice": 1, "searches-after-two-losses": 1,
}

DIGESTS = """
from kraft.testing.sim.run import options_of, simulate
print(*(simulate(seed, options_of(seed).where(fault_seconds=1)).digest for seed in range(200)))
"""


def short(seed: int) -> Outcome:
    return simulate(seed, options_of(seed).where(**SHORT))


def test_a_quorum_without_faults_commits_everything() -> None:
    outcome = simulate(1, Options(fault_seconds=10))
    assert outcome.violation is None
    assert outcome.counts["elections"] == 1
    assert outcome.counts["proposals"] == outcome.counts["values acknowledged"] > 50


def test_no_seed_of_a_sample_breaks_an_invariant() -> None:
    report = campaign(range(12))
    assert report.findings == []
    assert report.runs == 12
    assert report.counts["values acknowledged"] > 300
    assert sum(report.faults.values()) > 1000
    assert len(report.transitions) > len(table()) // 2
    for what in ("fetch left ahead", "fetch taken back", "answer to what left ahead came first"):
        assert report.counts[what] > 5


@pytest.mark.parametrize(("seed", "drawn_by"), [
    (9744, 9744),       # one of two voters had lost its disk just before it became one: no core could continue
    (17, 16492),        # a request to remove the leader came late, when everything had converged
    (29663, 29663),     # a reassignment to a single voter, whose damaged disk only the run knew of
    (5, 10461),         # a Fetch was requested, and what it acknowledged cut off, in one step of the loop
    (22975, 22975),     # the sole founder came back with a new disk, and no address at which to find its successor
    (29850, 29850),     # a candidate received its votes late, and led an epoch that was over
    (80789, 80789),     # a process that had stopped continued with what it still had to send
    (106371, 106371),   # a process whose disk failed in the last step of its shutdown still left
    (115776, 115776),   # the last record was in a snapshot, and trimmed, before a distant node had fetched it
    (113, 113),         # two votes in two epochs were given in one step: the first was never durable, nor need it be
])
def test_faults_of_the_run_itself(seed: int, drawn_by: int) -> None:
    assert simulate(seed, options_of(drawn_by)).violation is None


def test_voters_at_new_addresses_find_a_leader_in_time() -> None:
    """A leader is found within two election time-outs after a majority is reachable, whatever is known of the
    addresses."""
    report = campaign(range(20), run=simulate_relocation)
    assert report.findings == []
    assert report.counts["message to an address without a listener"] > 100
    assert report.counts["reconnect pause"] > 100


@pytest.mark.parametrize("seed", [
    201,    # a follower in doubt learned of a higher epoch from a pre-vote that it refused, and waited a whole time-out
    442,    # a voter elected another one, and then became a candidate itself by pre-votes that were on their way
    814,    # a restarted leader named its old address as the leader's, and its followers took that for its end
])
def test_moved_voters_do_not_wait_longer_than_they_must(seed: int) -> None:
    assert simulate_relocation(seed).violation is None


def test_one_seed_is_one_run_whatever_the_order_of_hashes() -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", DIGESTS], env={**os.environ, "PYTHONHASHSEED": seed},
                         stdout=subprocess.PIPE, text=True)
        for seed in ("1", "2")]
    first, second = (process.communicate()[0].split() for process in processes)
    assert len(dict.fromkeys(first)) == 200
    assert first == second
    assert first[:10] == [short(seed).digest for seed in range(10)]


def test_a_run_that_raises_is_reported_by_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(World, "_heal", lambda _: {}["nobody"])
    finding, other = campaign([3, 4], run=short).findings
    assert (finding.seed, other.seed, finding.name) == (3, 4, "NothingRaises")
    assert finding.text.startswith("KeyError: 'nobody' (")


def test_jobs_change_nothing() -> None:
    assert campaign(range(3), jobs=2).digest == campaign(range(3)).digest


@pytest.mark.parametrize(("name", "seed"), SHOWN.items())
def test_a_bug_is_found(name: str, seed: int) -> None:
    """The same run holds without the bug."""
    found = hunt([MUTANTS[name]], range(seed, seed + 1), finds=1)[0]
    assert found.seed == seed
    assert found.violations


def test_a_mutant_leaves_nothing_behind() -> None:
    before = short(1).digest
    for mutant in MUTANTS.values():
        with planted(mutant):
            pass
    assert short(1).digest == before


def test_every_bug_of_the_list_has_a_mutant() -> None:
    from kraft.testing.mutants.registry import NOT_HERE

    numbers = [mutant.number for mutant in MUTANTS.values()] + list(NOT_HERE)
    assert sorted(dict.fromkeys(number for number in numbers if number)) == list(range(1, 28))


def test_shrinking_keeps_the_violation_and_leaves_faults_out() -> None:
    options = Options(fault_seconds=4, kill_every_ms=900, drop_per_mille=3, clients=4)
    with planted(MUTANTS["no-pre-vote"]):
        finding = finding_of(simulate(1, options))
        smallest = shrink(finding)
        assert smallest.name == finding.name
        assert smallest.options == Options(fault_seconds=1, voters=2)
        again = simulate(smallest.seed, smallest.options).violation
    assert again is not None
    assert again.name == finding.name


def test_options_are_read_back() -> None:
    for seed in range(50):
        options = options_of(seed)
        assert parse(str(options)) == options
    with pytest.raises(ValueError, match="'drop' is no option"):
        parse("drop=3")


def test_garbage_is_collected_as_before_after_a_campaign() -> None:
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    with rare_collections():
        assert gc.get_threshold() == COLLECTION_THRESHOLDS
        assert gc.get_freeze_count() > frozen
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
