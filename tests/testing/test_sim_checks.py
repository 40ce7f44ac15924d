"""The judges of a run, each shown to find a fault."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.raft.messages import VoteRequest, VoteResponse
from kraft.raft.ready import HardState
from kraft.raft.types import OffsetAndEpoch, ReplicaKey
from kraft.testing.sim import invariants
from kraft.testing.sim.batches import Batch, Contents, Value
from kraft.testing.sim.history import History, check
from kraft.testing.sim.ledger import Ledger
from kraft.testing.sim.violation import ViolationError

CONTENTS = Contents()


def log_of(*values: tuple[Value, int]) -> list[Batch]:
    """Build a log with one batch for each (value, epoch)."""
    batches, chain = [], 0
    for offset, (value, epoch) in enumerate(values):
        batches.append(CONTENTS.encode(offset, epoch, value, chain))
        chain = batches[-1].chain
    return batches


def value(number: int) -> Value:
    return Value(0, number, 100)


def history_of(*operations: tuple[int, int, int, int]) -> History:
    """Build a history of (number, invoked, end offset, acknowledged)."""
    history = History()
    for number, invoked_us, end_offset, acknowledged_us in operations:
        operation = history.invoked(value(number), invoked_us)
        operation.end_offset, operation.acknowledged_us = end_offset, acknowledged_us
    return history


def committed(*numbers: int, epoch: int = 1) -> Ledger:
    ledger = Ledger()
    ledger.commits(log_of(*((value(number), 1) for number in numbers)), epoch, "somebody")
    return ledger


def test_a_good_history_passes() -> None:
    check(history_of((1, 0, 1, 10), (2, 5, 2, 20), (3, 30, -1, -1), (4, 30, 3, -1)), committed(1, 2, 4))


@pytest.mark.parametrize(("operations", "numbers", "name"), [
    ([(1, 0, 1, 10), (2, 5, 2, 20)], [1], "lost-write"),
    ([(1, 0, 2, 10)], [1], "inconsistent-offsets"),
    ([(1, 0, -1, -1)], [1], "G1a"),
    ([(1, 0, 2, 10), (2, 20, 1, 30)], [2, 1], "nonmonotonic-send"),
    ([(1, 0, 1, 10)], [1, 1], "duplicate"),
])
def test_a_bad_history_is_named(operations: list[tuple[int, int, int, int]], numbers: list[int], name: str) -> None:
    with pytest.raises(ViolationError) as found:
        check(history_of(*operations), committed(*numbers))
    assert found.value.name == name


def test_an_acknowledgement_is_of_one_life_and_one_epoch() -> None:
    history = History()
    for number, (life, epoch) in enumerate([(1, 5), (1, 6), (2, 6)]):
        operation = history.invoked(value(number), 0)
        history.accepted(operation, node_id=1, life=life, end_offset=1, epoch=epoch)
    assert history.committed(1, life=2, leads_epoch=6, high_watermark=1, now_us=9) == 1
    assert [each.acknowledged_us for each in history.operations] == [-1, -1, 9]


def test_two_logs_that_agree_in_a_record_agree_before_it() -> None:
    ledger = Ledger()
    for batch in log_of((value(1), 1), (value(2), 2)):
        ledger.appended(batch, "a")
    other = log_of((value(9), 1), (value(2), 2))
    with pytest.raises(ViolationError, match="LogMatching"):
        ledger.appended(other[1], "b")


def test_one_leader_and_one_vote_in_an_epoch() -> None:
    ledger = Ledger()
    ledger.elected(3, ReplicaKey(1))
    ledger.elected(3, ReplicaKey(1))
    with pytest.raises(ViolationError, match="ElectionSafety"):
        ledger.elected(3, ReplicaKey(2))
    ledger.voted(ReplicaKey(1), 3, ReplicaKey(2))
    with pytest.raises(ViolationError, match="OneVotePerEpoch"):
        ledger.voted(ReplicaKey(1), 3, ReplicaKey(3))


def node_in(epoch: int, saved_epoch: int) -> Any:
    """Build node 1 of three voters, as the judges see it."""
    replica = SimpleNamespace(epoch=epoch, voters=SimpleNamespace(majority=2))
    return SimpleNamespace(life=1, key=ReplicaKey(1), saved=HardState(epoch=saved_epoch, voted=ReplicaKey(1)),
                           raft=SimpleNamespace(replica=replica), reported=SimpleNamespace(epoch=epoch), applied=0,
                           log=SimpleNamespace(start_offset=0, end=0, id_at=lambda _offset: (0, 0)))


def vote_request(epoch: int, *, pre_vote: bool) -> VoteRequest:
    return VoteRequest(cluster_id="c", candidate=ReplicaKey(1), epoch=epoch, log_end=OffsetAndEpoch(0, 0),
                       voter=ReplicaKey(2), pre_vote=pre_vote)


def test_an_epoch_is_raised_with_consent_however_late_others_answer() -> None:
    node = node_in(epoch=41, saved_epoch=41)
    memory = invariants.Memory(node, None)
    with pytest.raises(ViolationError, match="NoEpochWithoutConsent"):
        invariants.sends(node, vote_request(41, pre_vote=False), memory, Ledger())
    granted = VoteResponse(granted=True, pre_vote=True)
    for epoch in (40, *range(20, 40)):
        invariants.receives(node, vote_request(epoch, pre_vote=True), granted, 2, memory)
    invariants.sends(node, vote_request(41, pre_vote=False), memory, Ledger())


def test_a_leader_of_an_epoch_that_was_never_durable_led_no_replica() -> None:
    ledger = Ledger()
    invariants.elected(node_in(epoch=3, saved_epoch=2), ledger)
    ledger.elected(3, ReplicaKey(2))
    with pytest.raises(ViolationError, match="ElectionSafety"):
        invariants.elected(node_in(epoch=3, saved_epoch=3), ledger)
    with pytest.raises(ViolationError, match="ElectionSafety"):
        invariants.led(node_in(epoch=3, saved_epoch=2), ledger)


def test_a_commit_holds_for_all() -> None:
    ledger = committed(1, 2)
    with pytest.raises(ViolationError, match="ConsistentCommittedData"):
        ledger.commits(log_of((value(1), 1), (value(3), 1)), 1, "another")
    assert ledger.end_before_epoch(1) == 0
    assert ledger.end_before_epoch(2) == 2


def test_a_leader_has_what_was_committed_in_earlier_epochs() -> None:
    """A leader need not have what a later leader committed: a candidate that receives its votes late may lead an epoch
    that is over."""
    ledger = committed(1, 2, epoch=3)
    assert [ledger.end_before_epoch(epoch) for epoch in (1, 2, 3, 4)] == [0, 0, 0, 2]
    ledger.commits(ledger.committed[:1], 2, "a previous leader that got answers late")
    assert [ledger.end_before_epoch(epoch) for epoch in (2, 3, 4)] == [0, 1, 2]
