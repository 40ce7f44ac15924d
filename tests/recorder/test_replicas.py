"""Reasons that keep a replica out of sync, as brokers' flight recorders report them."""

from typing import Any

import pytest

from kraft.broker.replica_events import (
    FetchFailed,
    IsrDecided,
    IsrProposed,
    IsrRefused,
    IsrUnanswered,
    LeaderConnected,
    LeaderLost,
    LeaderUnreachable,
    ProposalReason,
    ProposalWithheld,
    ReplicaEvent,
    WithheldReason,
)
from kraft.protocol.error_codes import ErrorCode
from kraft.recorder.entry import parse
from kraft.recorder.replicas import Recordings, blockers
from kraft.runtime.replicas.recorder import ReplicaRecorder

LEADER, FOLLOWER, EPOCH = 1, 2, 7
AT = "23:33:20.000"
PROPOSES = "its leader proposes to take it in, and the controller "
STATE_MS = 1_700_004_800_000


class Recorded:
    """The recorders of two brokers, on one clock that stands still."""

    def __init__(self) -> None:
        self.now_ms = STATE_MS
        self.silent_ms: int | None = 3
        self.of = {broker: ReplicaRecorder(broker, lambda: self.now_ms, self._state) for broker in (LEADER, FOLLOWER)}

    def _state(self) -> dict[str, Any]:
        return {"wait_ms": 500, "leaders": [{"leader": LEADER, "silent_ms": self.silent_ms}]}

    def leader(self, event: ReplicaEvent) -> None:
        self.of[LEADER].partition("t", 0, event)

    def proposes(self, isr: tuple[int, ...], proposed: tuple[int, ...], *, epoch: int = EPOCH) -> None:
        self.leader(IsrProposed(epoch, isr, proposed, ProposalReason.CAUGHT_UP, (5,)))

    def read(self) -> Recordings:
        return {broker: [parse(line) for line in recorder.lines()] for broker, recorder in self.of.items()}

    @property
    def blockers(self) -> list[str]:
        return blockers(self.read(), "t", 0, FOLLOWER, LEADER, EPOCH)


def test_an_undisturbed_replica_has_no_blockers() -> None:
    recorded = Recorded()
    recorded.of[FOLLOWER].connection(LEADER, LeaderConnected("h:1"))
    recorded.of[FOLLOWER].partition("t", 1, FetchFailed(LEADER, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    recorded.of[FOLLOWER].partition("t", 0, FetchFailed(3, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert recorded.blockers == []
    assert blockers({}, "t", 0, FOLLOWER, LEADER, EPOCH) == []


def test_why_it_left() -> None:
    recorded = Recorded()
    recorded.proposes((1, 2), (1,))
    recorded.leader(IsrDecided(EPOCH, (1,)))
    assert recorded.blockers == [f"its leader took it out at 2023-11-14 {AT}: broker 5 has everything"]
    recorded.now_ms += 1000
    recorded.proposes((1,), (1, 2))
    recorded.leader(IsrDecided(EPOCH, (1, 2)))
    assert recorded.blockers == [], "it was in sync again: the controller removed it afterwards"
    recorded.now_ms += 1000
    recorded.proposes((1, 2), (1,))
    assert recorded.blockers == ["its leader took it out at 2023-11-14 23:33:22.000: broker 5 has everything"]


def test_actions_of_a_leader_in_an_earlier_epoch_are_not_reported() -> None:
    """The leader learned the outcome of its last proposal by losing the leadership."""
    recorded = Recorded()
    recorded.proposes((1, 2), (1,), epoch=EPOCH - 2)
    recorded.proposes((1,), (1, 2), epoch=EPOCH - 1)
    assert recorded.blockers == []


@pytest.mark.parametrize(("outcome", "clause"), [
    (None, "its leader proposed at 2023-11-14 23:33:20.000 to take it in, and has no answer from the controller"),
    (IsrRefused, f"{PROPOSES}refused that (at 2023-11-14 {AT}): INELIGIBLE_REPLICA"),
    (IsrUnanswered, f"{PROPOSES}has not done it (at 2023-11-14 {AT}): INELIGIBLE_REPLICA"),
])
def test_a_proposal_that_is_not_in_force(outcome: type[IsrRefused | IsrUnanswered] | None, clause: str) -> None:
    recorded = Recorded()
    recorded.proposes((1,), (1, 2))
    if outcome:
        recorded.leader(outcome(EPOCH, (1, 2), ErrorCode.INELIGIBLE_REPLICA))
    assert recorded.blockers == [clause]


def test_a_proposal_about_another_replica_is_not_reported() -> None:
    recorded = Recorded()
    recorded.proposes((1,), (1, 3))
    assert recorded.blockers == []


def test_how_it_reaches_its_leader_now() -> None:
    recorded = Recorded()
    for _ in range(3):
        recorded.of[FOLLOWER].connection(LEADER, LeaderUnreachable("h:1", OSError("refused")))
        recorded.now_ms += 1000
    assert recorded.blockers == [
        f"it cannot reach its leader, broker 1 at h:1 (since 2023-11-14 {AT}, 3 times): OSError('refused')"]
    recorded.of[FOLLOWER].connection(LEADER, LeaderConnected("h:1"))
    assert recorded.blockers == []
    recorded.silent_ms = 3210
    assert recorded.blockers == ["its leader, broker 1, has not answered its Fetch for 3.2 s"]
    recorded.silent_ms = 900
    assert recorded.blockers == [], "it may hold a Fetch back"
    recorded.now_ms += 1000
    recorded.of[FOLLOWER].connection(LEADER, LeaderLost())
    assert recorded.blockers == ["it lost its connection to its leader, broker 1, at 2023-11-14 23:33:24.000"]


def test_a_fetch_that_failed_a_while_ago_is_over() -> None:
    recorded = Recorded()
    for _ in range(2):
        recorded.of[FOLLOWER].partition("t", 0, FetchFailed(LEADER, ErrorCode.UNKNOWN_LEADER_EPOCH))
        recorded.now_ms += 4000
    assert recorded.blockers == [
        f"its Fetch from its leader, broker 1, fails (since 2023-11-14 {AT}, 2 times): UNKNOWN_LEADER_EPOCH"]
    recorded.now_ms += 2000
    assert recorded.blockers == []


def test_a_replica_that_is_held_back() -> None:
    recorded = Recorded()
    for reason, details in ((WithheldReason.NOT_ACTIVE, ()), (WithheldReason.OTHER_PROCESS, (4, 5))):
        for replica in (2, 3, 2):
            recorded.leader(ProposalWithheld(EPOCH, replica, reason, details))
        recorded.now_ms += 1000
    assert recorded.blockers == [
        ("it has everything, but its leader does not propose it (since 2023-11-14 23:33:21.000, 2 times): its broker "
         "fetched in broker epoch 4, and the metadata has 5")]


def test_partitions_that_fail_alternately_are_one_entry_each() -> None:
    recorded = Recorded()
    for _ in range(100):
        for index in range(50):
            recorded.of[FOLLOWER].partition("t", index, FetchFailed(LEADER, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    *entries, state = recorded.read()[FOLLOWER]
    assert [(each.values["partition"], each.times) for each in entries] == [(index, 100) for index in range(50)]
    assert (state.what, state.time_ms) == ("state", STATE_MS)
