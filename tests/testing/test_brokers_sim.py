"""Runs with brokers: they hold, they are the same wherever they run, and they find bugs."""

import os
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kraft.metadata.image import MetadataImage
from kraft.testing.brokers.consumers import Consumer
from kraft.testing.brokers.replica import GROUP_COMMIT, PAGE_CACHE, Replica
from kraft.testing.brokers.world import QUIET_US, BrokerWorld
from kraft.testing.mutants.find import hunt
from kraft.testing.mutants.patches import planted
from kraft.testing.mutants.registry import BROKER_MUTANTS
from kraft.testing.sim.campaign import campaign
from kraft.testing.sim.options import Options, parse
from kraft.testing.sim.run import broker_options_of, simulate, simulate_brokers
from kraft.testing.sim.violation import ViolationError

CALM = Options(brokers=3, voters=1, observers=2, fault_seconds=2)

DIGESTS = """
from kraft.testing.sim.run import broker_options_of, simulate
print(*(simulate(seed, broker_options_of(seed).where(fault_seconds=1)).digest for seed in range(8)))
"""

# Bugs of each kind that many runs show.
SHOWN = (
    "fenced-broker-joins-the-isr", "shutdown-offset-moves", "shrink-counts-at-once", "followers-do-not-know-producers",
    "high-watermark-stays-after-isr-shrink", "reassignment-is-over-early", "sequences-survive-an-epoch-bump",
    "fetch-of-an-earlier-epoch-counts", "unresponsive-broker-is-fenced-by-a-new-controller",
    "unresponsive-leader-is-left-out", "answers-are-held-without-limit", "answer-of-another-leadership-counts",
    "zombie-controller-refuses-for-good",
)


def without_leader_checks(seed: int) -> Options:
    """Draw from the seed what was drawn before Metadata checked leaders."""
    return broker_options_of(seed).where(leader_checks=False, refusal_every_ms=0)


def test_brokers_without_faults_commit_everything() -> None:
    outcome = simulate(1, CALM)
    assert outcome.violation is None
    assert outcome.counts["unclean elections"] == outcome.counts["replica truncated"] == 0
    assert outcome.counts["batches produced"] == outcome.counts["batches acknowledged"] > 50


def test_a_broker_that_is_taken_for_dead_harms_nobody() -> None:
    """The broker is alive and a leader, but its connection breaks, it cannot reconnect in time, and it does not
    answer."""
    options = CALM.where(reset_every_ms=300, grace_ms=20, cut_ms=800, fault_seconds=4)
    outcome = simulate(1, options)
    assert outcome.violation is None
    assert outcome.counts["broker probed: UNANSWERED"] > 0
    assert outcome.counts["live broker taken for dead"] > 0
    unnoticed = simulate(1, options.where(grace_ms=0))
    assert unnoticed.violation is None
    assert unnoticed.counts["connection to the controller broken"] > 0
    assert unnoticed.counts["live broker taken for dead"] == 0


def test_no_client_is_sent_to_a_leader_that_ended() -> None:
    options = CALM.where(voters=3, observers=0, leader_checks=True, kill_every_ms=1200, down_ms=1000,
                         refuse_per_mille=1000, fault_seconds=8)
    outcome = simulate(1, options)
    assert outcome.violation is None
    assert outcome.counts["leader checked: REFUSED"] > 0
    assert outcome.counts["dead leader named"] == 0
    unchecked = simulate(1, options.where(grace_ms=0))
    assert unchecked.violation is None
    assert unchecked.counts["dead leader named"] > 0


def test_a_leader_that_refuses_connections_harms_nobody() -> None:
    """The leader lives, but some other nodes cannot connect to it, or have connections to it that hang."""
    options = CALM.where(leader_checks=True, refusal_every_ms=60, stall_every_ms=100, cut_ms=2000, elect_every_ms=100,
                         fault_seconds=4)
    outcomes = [simulate(seed, options) for seed in range(5)]
    assert [outcome.violation for outcome in outcomes] == [None] * 5
    for name in ("connections refused by a live broker", "half-open connection to a broker", "live leader left out"):
        assert sum(outcome.counts[name] for outcome in outcomes) > 0, name


@pytest.mark.parametrize("seed", [
    6528,       # a heartbeat from before a broker stopped came last, and made it a leader
    9354,       # the same, with others that continued
    8185,       # records of an overtaken leader just below a new log start were mistaken for those deleted there
    16298,      # a reader received a deletion that the next leader had not: it need not read what came back
])
def test_repaired_directories_stay_repaired(seed: int) -> None:
    """Runs with the draws of the time when the faults were found."""
    options = without_leader_checks(seed).where(directories=1, directory_every_ms=0, resize=False)
    assert simulate(seed, options).violation is None


@pytest.mark.parametrize("seed", [
    50802,      # the only replica that a partition was reassigned to had lost power, and no node knew yet
    54994,      # a broker recreated a log whose directory had failed before the metadata knew which one that was
    20027,      # the last leader, which had lost power, was elected although an eligible replica was only fenced
    26,         # a broker that had left wrote its checkpoints
    44,         # a follower that followed again never learned the high watermark
    76,         # a leader advanced its high watermark and became a follower in one event
    203,        # a controller's own work, which had waited, began after the end of its leadership
    838,        # a snapshot was due when a controller ended, and was not made
    389,        # an active controller's snapshot ended behind its image, and its log was trimmed above that
    2179,       # a follower that cut its log to the leader's end never learned the high watermark
    2620,       # a controller beside the leader refused a follower at once, which was not proposed again
    3716,       # the same
])
def test_faults_of_the_run_itself(seed: int) -> None:
    assert simulate(seed, broker_options_of(seed)).violation is None


@pytest.mark.parametrize(("seed", "changed", "is_put_off"), [
    (2, {"durability": PAGE_CACHE, "power_every_ms": 900}, True), (1, {"durability": PAGE_CACHE}, False),
    (2, {"durability": GROUP_COMMIT, "power_every_ms": 900}, False),
    (6, {"durability": GROUP_COMMIT, "directories": 2, "directory_every_ms": 700}, True),
    (1, {"durability": PAGE_CACHE, "power_every_ms": 900, "elr": False}, False)])
def test_a_reassignment_that_leaves_a_sole_replica_is_cancelled_unless_that_may_lose_records(
        seed: int, changed: dict[str, Any], is_put_off: bool) -> None:
    """A broker loses records with the power of its machine, or with a log directory."""
    outcome = simulate(seed, Options(
        brokers=4, voters=1, observers=3, replication=2, min_insync=2, partitions=2, fault_seconds=2, move_every_ms=60,
        kill_every_ms=400, down_ms=600).where(**changed))
    assert outcome.violation is None
    assert (outcome.counts["cancellation put off"] > 0) is is_put_off
    assert outcome.counts["reassignment cancelled"] > 0


@pytest.mark.parametrize("seed", [
    156,        # the last leader, whose disk was replaced, was elected with an empty log
    142,        # a heartbeat unfenced a broker and reported a directory as failed: the broker led a partition in it
    54,         # an acknowledgement that waited for others left after the end of the leadership
    207,        # no one but an operator can choose among several replicas when the last leader has lost its log
])
def test_a_replaced_directory_loses_nothing(seed: int) -> None:
    options = broker_options_of(seed).where(
        brokers=3, replication=2, min_insync=2, elr=True, unclean=False, resize=False, durability=1, directories=2,
        directory_every_ms=500, kill_every_ms=600, down_ms=300, fault_seconds=10, produce_every_ms=40,
        move_every_ms=150)
    assert simulate(seed, options).violation is None


@pytest.mark.parametrize(("seed", "brokers", "replication", "elr"), [
    (1008, 4, 3, True), (1105, 4, 3, True),     # a process wrote the point before it had opened the log
    (2010, 3, 2, False),                        # the same in its clean stop
])
def test_a_log_is_truncated_below_the_recovery_point_of_its_directory(
        seed: int, brokers: int, replication: int, elr: bool) -> None:
    """A later process that did not open the log wrote that point again, and the truncated records counted as lost."""
    options = broker_options_of(seed).where(
        brokers=brokers, replication=replication, min_insync=2, elr=elr, unclean=False, resize=False, durability=1,
        directories=2, directory_every_ms=500, kill_every_ms=600, down_ms=300, fault_seconds=10, produce_every_ms=40,
        move_every_ms=150)
    assert simulate(seed, options).violation is None


def test_a_directory_that_fails_ends_no_leadership_for_long() -> None:
    options = CALM.where(directories=2, directory_every_ms=400, replication=3, min_insync=2, elr=True, fault_seconds=4,
                         durability=1)
    outcome = simulate(2, options)
    assert outcome.violation is None
    for name in ("log directory failed", "log directory repaired", "replicas assigned to directories"):
        assert outcome.counts[name] > 0, name


def test_no_seed_of_a_sample_breaks_an_invariant() -> None:
    report = campaign(range(12), run=simulate_brokers)
    assert report.findings == []
    assert report.brokers["leader elections"] > 10
    assert report.brokers["changes of in-sync replicas"] > 40
    assert report.brokers["batches acknowledged"] > 500
    assert report.brokers["polls with records"] > 500
    assert report.brokers["producer epoch bumped"] > 10
    assert report.brokers["live broker taken for dead"] > 0
    assert report.brokers["broker probed: ACCEPTED"] > 3
    assert sum(report.faults.values()) > 500


def test_one_seed_is_one_run_whatever_the_order_of_hashes() -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", DIGESTS], env={**os.environ, "PYTHONHASHSEED": seed},
                         stdout=subprocess.PIPE, text=True)
        for seed in ("1", "2")]
    first, second = (process.communicate()[0].split() for process in processes)
    assert len(dict.fromkeys(first)) == 8
    assert first == second


def test_judges_miss_nothing_in_replicas_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in which the judges inspect every replica after every event is the same."""
    def runs() -> list[tuple[str, dict[str, int]]]:
        outcomes = [simulate(seed, broker_options_of(seed).where(fault_seconds=1)) for seed in range(20, 26)]
        return [(outcome.digest, outcome.counts) for outcome in outcomes]

    expected = runs()
    has_changed, calls = Replica.has_changed, Counter[bool]()

    def always(replica: Replica, image: MetadataImage) -> bool:
        calls[has_changed(replica, image)] += 1
        return True

    monkeypatch.setattr(Replica, "has_changed", always)
    assert runs() == expected
    assert calls[False] > calls[True] > 0


@pytest.mark.parametrize("name", SHOWN)
def test_a_bug_is_found(name: str) -> None:
    """The same run holds without the bug."""
    found = hunt([BROKER_MUTANTS[name]], range(30), finds=1, draw=broker_options_of)[0]
    assert found.seed is not None
    assert found.violations


@pytest.mark.parametrize(("name", "kind"), [
    ("consumers-see-the-log-end", "offset-reset"),
    ("last-committed-batch-is-held-back", "worst-realtime-lag"),
    ("batch-that-holds-the-offset-is-left-out", "poll-skip"),
    ("batch-that-does-not-fit-is-passed-over", "int-poll-skip"),
    ("read-begins-at-the-index-entry", "nonmonotonic-poll"),
])
def test_a_wrong_answer_to_a_consumer_is_named(name: str, kind: str) -> None:
    found = hunt([BROKER_MUTANTS[name]], range(30), finds=1, draw=without_leader_checks)[0]
    assert found.violations == (kind,)


@pytest.mark.parametrize("name", ["replica-in-a-failed-directory-may-lead", "departed-replica-stays-eligible"])
def test_a_wrong_choice_of_the_controller_is_named(name: str) -> None:
    found = hunt([BROKER_MUTANTS[name]], range(40), finds=1, draw=broker_options_of)[0]
    assert found.violations == ("ValidControllerState",)


def test_records_that_no_consumer_saw_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that begins at the log's end has not seen what precedes it."""
    monkeypatch.setattr(Consumer, "_place", lambda self, bounds: self.reads.begin(bounds.end))
    violation = simulate(1, CALM).violation
    assert violation is not None
    assert violation.name == "unseen"


def test_records_are_deleted_below_the_last_batch_of_each_producer() -> None:
    """A replica that is filled from the log start must know each producer, and recognise what it may send again."""
    key = UUID(int=1), 0

    def producer(number: int, *batches: tuple[int, int]) -> Any:
        """Return a producer with batches of two records each, by value and acknowledged end."""
        return SimpleNamespace(id=number, key=key, operations=[
            SimpleNamespace(value=value, count=2, end_offset=end) for value, end in batches])

    def start(*producers: Any) -> int:
        committed = [SimpleNamespace(producer=7, value=4, base_offset=3)]
        world = SimpleNamespace(producers=producers, truth=SimpleNamespace(partitions={
            key: SimpleNamespace(committed=committed)}))
        return BrokerWorld._safe_start(cast("BrokerWorld", world), key)

    assert start(producer(1, (0, 2), (2, 12))) == 10
    assert start(producer(1, (0, 2), (2, 12)), producer(2, (0, 8), (2, -1)), producer(3)) == 6
    assert start(producer(1, (0, 12)), producer(7, (2, 20), (4, -1))) == 3
    assert start(producer(1), producer(7, (4, -1))) == 0


def test_a_mutant_leaves_nothing_behind() -> None:
    before = simulate(1, CALM).digest
    for mutant in BROKER_MUTANTS.values():
        with planted(mutant):
            pass
    assert simulate(1, CALM).digest == before


def test_every_bug_of_brokers_has_a_mutant() -> None:
    numbers = dict.fromkeys(mutant.number for mutant in BROKER_MUTANTS.values() if mutant.number)
    assert sorted(numbers) == [*range(28, 46), 54]


def test_options_are_read_back() -> None:
    for seed in range(50):
        options = broker_options_of(seed)
        assert parse(str(options)) == options


@pytest.mark.parametrize(("missing", "is_kept"), [(0, True), (3, True), (1000, False)])
def test_a_record_that_is_appended_at_the_end_of_a_quiet_time_may_reach_followers_after_it(
        monkeypatch: pytest.MonkeyPatch, missing: int, is_kept: bool) -> None:
    world, looks = BrokerWorld(1, CALM), 0

    def also_missing() -> ViolationError | None:
        nonlocal looks
        looks += 1
        return ViolationError("HighWatermarkReachesFollowers", "it is under way") if looks <= missing else None

    monkeypatch.setattr(world, "also_missing", also_missing)
    with nullcontext() if is_kept else pytest.raises(ViolationError, match="under way"):
        world.stay_converged(QUIET_US)
    assert looks == missing + 1 or not is_kept
    assert world.loop.now_us <= 2 * QUIET_US


def test_followers_that_fetch_without_a_pause_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = BrokerWorld(1, CALM)
    counts = iter((0, 1000))
    monkeypatch.setattr(world, "_replica_fetches", lambda: next(counts))
    with pytest.raises(ViolationError, match="NoUselessFetches"):
        world.stay_converged(QUIET_US)
