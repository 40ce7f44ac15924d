"""Runs with transactions: they hold, they are the same wherever they run, and they find bugs."""

from random import Random

import pytest

from kraft.testing.brokers.transactional.options import draw
from kraft.testing.brokers.transactional.spans import Spans
from kraft.testing.mutants.find import hunt
from kraft.testing.mutants.patches import planted
from kraft.testing.mutants.registry import TRANSACTION_MUTANTS
from kraft.testing.sim.options import Options
from kraft.testing.sim.run import simulate, simulate_transactions, transaction_options_of

CALM = Options(brokers=3, voters=1, observers=2, fault_seconds=2, topics=0, transactions=3, partitions=2)


@pytest.mark.parametrize("version", [0, 2])
def test_transactions_without_faults_all_end(version: int) -> None:
    outcome = simulate(1, CALM.where(transaction_version=version, transaction_every_ms=50))
    assert outcome.violation is None
    counts = outcome.counts
    assert counts["transactions begun"] == counts["transactions committed"] + counts["transactions aborted"] > 20
    assert counts["producer epochs begun"] == 3


def test_a_run_is_the_same_every_time() -> None:
    options = CALM.where(fault_seconds=1, transactions=2)
    assert simulate(1, options).digest == simulate(1, options).digest


def test_transactions_survive_faults() -> None:
    options = CALM.where(kill_every_ms=1500, down_ms=300, elect_every_ms=500, coordinate_every_ms=200, hold_ms=300,
                         repeat_per_mille=100, abandon_per_mille=100, stuck_per_mille=50, epochs=6, voters=3,
                         observers=0, transaction_ms=800, request_ms=300, transaction_every_ms=20, session_ms=500)
    outcome = simulate(3, options)
    assert outcome.violation is None
    for name in ("transactions committed", "transactions abandoned", "request repeated late", "process killed",
                 "markers or checks of transactions held back", "records of coordinators compacted"):
        assert outcome.counts[name] > 0, name


def test_a_late_end_may_come_long_after_the_faults() -> None:
    outcome = simulate(1, CALM.where(heal_seconds=3, transaction_ms=20_000, abandon_per_mille=500))
    assert outcome.violation is None
    assert outcome.counts["transactions abandoned"] > 1
    assert outcome.virtual_seconds > 2 + 3 + 20


def test_a_replica_that_is_behind_shows_a_reader_no_end() -> None:
    """A reader took the end of such a replica for the end of what it had read from another one."""
    assert simulate_transactions(25).violation is None


def test_decisions_that_wait_for_one_commit_are_completed_in_turn() -> None:
    """The last follower of the leader leaves the in-sync replicas while aborts without partitions wait."""
    assert simulate_transactions(836).violation is None


def test_a_partition_that_is_slow_under_its_leader_gets_its_marker_from_the_next() -> None:
    """Its leader is the coordinator itself, which has a marker for another of its own partitions at the same time."""
    assert simulate_transactions(366).violation is None


def test_a_follower_that_is_refused_while_another_request_is_under_way_learns_the_high_watermark() -> None:
    assert simulate_transactions(1069).violation is None


def test_no_reassignment_is_cancelled_that_leaves_a_sole_replica() -> None:
    """The replica had lost power, and the controller did not know it yet."""
    outcome = simulate_transactions(2011)
    assert outcome.violation is None
    assert outcome.counts["cancellation put off"] > 0


@pytest.mark.parametrize("seed", [
    1359,       # of offsets, and of records that were refused first
    1880,       # of records
])
def test_a_request_that_is_repeated_late_joins_no_later_transaction_of_its_epoch(seed: int) -> None:
    """No broker below transaction.version 2 can refuse it: the client has to get another epoch."""
    assert simulate_transactions(seed).violation is None


def test_a_known_bug_is_found() -> None:
    with planted(TRANSACTION_MUTANTS["exhausted-epoch-returns-the-old-id"]):
        outcome = simulate(1, CALM.where(epochs=4, transaction_every_ms=20))
    assert outcome.violation is not None


def test_a_batch_after_the_marker_is_found() -> None:
    """The answer to a check of its transaction is held back meanwhile. The same run holds without the bug."""
    mutant = TRANSACTION_MUTANTS["marker-leaves-the-verification"]
    found = hunt([mutant], range(3, 4), finds=1, draw=transaction_options_of)[0]
    assert found.violations == ("realtime-order",)


@pytest.mark.parametrize("seed", range(3))
def test_states_of_share_partitions_survive_faults(seed: int) -> None:
    outcome = simulate(seed, CALM.where(
        share=3, transactions=1, kill_every_ms=1500, down_ms=300, elect_every_ms=500, coordinate_every_ms=200,
        hold_ms=300, voters=3, observers=0, fault_seconds=6, transaction_every_ms=20, session_ms=500, readers=0))
    assert outcome.violation is None
    for name in ("states of share partitions written", "states of share partitions read",
                 "earlier leaders of share partitions fenced"):
        assert outcome.counts[name] > 0, name


@pytest.mark.parametrize("name", ["new-leader-of-a-share-partition-is-not-written",
                                  "snapshot-of-a-share-state-lacks-its-updates"])
def test_known_bugs_of_share_states_are_found(name: str) -> None:
    with planted(TRANSACTION_MUTANTS[name]):
        outcome = simulate(1, CALM.where(share=3, transactions=1, readers=0, transaction_every_ms=20))
    assert outcome.violation is not None


def test_every_known_bug_still_fits_the_code() -> None:
    for mutant in TRANSACTION_MUTANTS.values():
        with planted(mutant):
            pass


def test_a_span_counts_the_time_without_faults() -> None:
    now = 0.0
    spans = Spans(1.0, lambda: now)
    spans.excuse()
    spans.note(0, 5, 9)
    now = 4.0
    spans.settle()
    now = 7.0
    spans.note(0, 5, 12)
    spans.note(0, 12, 12)
    [span] = spans.all()
    assert (span.offset, span.since, span.until, span.excused) == (5, 0.0, 7.0, 4.0)


def test_options_are_drawn_from_the_seed() -> None:
    assert draw(Random("7")) == draw(Random("7"))
    drawn = [draw(Random(seed)) for seed in range(60)]
    assert {each.transaction_version for each in drawn} == {0, 1, 2}
    assert any(each.quiet_seconds for each in drawn)
