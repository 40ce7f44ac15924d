"""Runs with groups: they hold, they are the same wherever they run, and they find bugs."""

from collections import Counter
from random import Random
from uuid import UUID

import pytest

from kraft.testing.brokers.groups.ledger import NO_OFFSET, Key, Ledger
from kraft.testing.brokers.groups.options import draw
from kraft.testing.mutants.find import hunt
from kraft.testing.mutants.patches import planted
from kraft.testing.mutants.registry import GROUP_MUTANTS
from kraft.testing.sim.options import Options
from kraft.testing.sim.run import group_options_of, simulate
from kraft.testing.sim.violation import ViolationError

CALM = Options(brokers=3, voters=1, observers=2, fault_seconds=3, topics=0, partitions=1, groups=1, request_ms=1000)
FAULTS = CALM.where(fault_seconds=5, kill_every_ms=1500, down_ms=300, elect_every_ms=700, session_ms=500, voters=3,
                    observers=0, member_every_ms=200, members=4, static_per_mille=300, regex_per_mille=300,
                    group_topic_every_ms=800, clean_per_mille=500, group_session_ms=1000, repeat_per_mille=20)


@pytest.mark.parametrize("classic_per_mille", [0, 500, 1000])
def test_groups_without_faults_become_stable(classic_per_mille: int) -> None:
    outcome = simulate(1, CALM.where(classic_per_mille=classic_per_mille))
    assert outcome.violation is None
    for name in ("partitions assigned", "offsets committed", "offsets read", "members that join"):
        assert outcome.counts[name] > 2, name


def test_a_run_is_the_same_every_time() -> None:
    options = CALM.where(fault_seconds=1, classic_per_mille=500)
    assert simulate(1, options).digest == simulate(1, options).digest


def test_groups_survive_faults() -> None:
    outcome = simulate(3, FAULTS)
    assert outcome.violation is None
    for name in ("process killed", "members fenced", "members that hang", "members that die", "topic deleted",
                 "load meets the cleaner", "bytes of coordinators compacted"):
        assert outcome.counts[name] > 0, name


@pytest.mark.parametrize("policy", range(4))
def test_groups_are_converted_under_every_policy(policy: int) -> None:
    outcome = simulate(policy, FAULTS.where(group_topic_every_ms=0, classic_per_mille=500, migration_policy=policy))
    assert outcome.violation is None


def test_a_known_bug_is_found() -> None:
    mutant = GROUP_MUTANTS["partition-is-given-before-it-is-free"]
    found = hunt([mutant], range(8), finds=1, draw=group_options_of)[0]
    assert found.violations


def test_every_known_bug_still_fits_the_code() -> None:
    for mutant in GROUP_MUTANTS.values():
        with planted(mutant):
            pass


def test_options_are_drawn_from_the_seed() -> None:
    assert draw(Random("7")) == draw(Random("7"))
    drawn = [draw(Random(seed)) for seed in range(60)]
    assert {each.migration_policy for each in drawn} == {0, 1, 2, 3}
    assert all(each.groups for each in drawn)


# --- the ledger -------------------------------------------------------------------------------------------------------

KEY = Key("g", UUID(int=1), 0)


class Someone:
    """An owner whose right to its partitions is given."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_entitled = True


class Clock:
    """A ledger with its clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ledger = Ledger(lambda: self.now, Counter())
        self.a, self.b = Someone("a"), Someone("b")

    def commit(self, owner: Someone, offset: int, sent: float, acknowledged: float | None) -> str:
        """Commit an offset; return its metadata."""
        self.now = sent
        commit = self.ledger.commit(owner, KEY, offset)
        if acknowledged is not None:
            self.now = acknowledged
            self.ledger.acknowledge(KEY, commit)
        return str(commit.number)


def violation(clock: Clock, offset: int, metadata: str, sent: float) -> str | None:
    """Return the name of the violation by a read of the time `sent`."""
    try:
        clock.ledger.read(KEY, offset, metadata, sent)
    except ViolationError as error:
        return error.name
    return None


def test_a_partition_has_one_owner() -> None:
    clock = Clock()
    clock.ledger.gain(clock.a, KEY)
    with pytest.raises(ViolationError, match="OneOwner"):
        clock.ledger.gain(clock.b, KEY)
    clock.a.is_entitled = False
    clock.ledger.gain(clock.b, KEY)
    clock.ledger.lose(clock.b, KEY)
    clock.a.is_entitled = True
    with pytest.raises(ViolationError, match="OneOwner"):
        clock.ledger.gain(clock.b, KEY)


def test_a_commit_of_a_fenced_member_is_found() -> None:
    clock = Clock()
    clock.ledger.gain(clock.b, KEY)
    with pytest.raises(ViolationError, match="NoCommitOfAFencedMember"):
        clock.commit(clock.a, 5, sent=1, acknowledged=2)
    clock.b.is_entitled = False
    clock.commit(clock.a, 5, sent=3, acknowledged=4)


def test_a_lost_commit_is_found() -> None:
    clock = Clock()
    first = clock.commit(clock.a, 5, sent=1, acknowledged=2)
    second = clock.commit(clock.a, 7, sent=3, acknowledged=4)
    assert violation(clock, 5, first, sent=5) == "AcknowledgedCommitsStay"
    assert violation(clock, NO_OFFSET, "", sent=5) == "AcknowledgedCommitsStay"
    assert violation(clock, 7, second, sent=5) is None
    assert violation(clock, 5, first, sent=3.5) is None
    assert violation(clock, 6, second, sent=5) == "OffsetsAreCommitted"


def test_a_commit_without_an_answer_may_take_effect_later() -> None:
    clock = Clock()
    late = clock.commit(clock.a, 5, sent=1, acknowledged=None)
    clock.commit(clock.a, 7, sent=2, acknowledged=3)
    assert violation(clock, 5, late, sent=4) is None
    commit = clock.ledger.registers[KEY].commits[int(late)]
    clock.now = 1.5
    clock.ledger.settle(commit)
    assert violation(clock, 5, late, sent=4) == "AcknowledgedCommitsStay"


def test_a_refused_commit_that_takes_effect_is_found() -> None:
    clock = Clock()
    refused = clock.commit(clock.a, 5, sent=1, acknowledged=None)
    clock.ledger.answer(clock.ledger.registers[KEY].commits[int(refused)], is_refused=True)
    assert violation(clock, 5, refused, sent=4) == "NoRefusedCommit"
