"""Every event of the core has a name and its particulars, and every reason has words."""

from dataclasses import fields

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.raft import events
from kraft.raft.events import ChangeReason, Event, SnapshotLoss, VoteRefusal
from kraft.raft.transitions import Cause, Role
from kraft.raft.types import OffsetAndEpoch, ReplicaKey
from kraft.raft.voters import Voter, VoterSet
from kraft.recorder.words import REASONS, described, text_of

END, KEY = OffsetAndEpoch(4, 2), ReplicaKey(3)
VOTERS = VoterSet.of(Voter(KEY))
VALUES = {
    "role": Role.LEADER, "cause": Cause.WON, "voters": VOTERS, "candidate": KEY, "pre_vote": True, "to": 1,
    "refusal": VoteRefusal.HAS_VOTED, "detail": KEY, "reason": ChangeReason.REMOVAL, "loss": SnapshotLoss.UNUSABLE,
    "snapshot": END, "start": END, "at": END, "text": "why", "high_watermark": 3,
}
KINDS = [kind for kind in vars(events).values()
         if isinstance(kind, type) and issubclass(kind, Event) and kind is not Event]


def example(kind: type[Event]) -> Event:
    values = {each.name: VALUES.get(each.name, 7) for each in fields(kind)}  # type: ignore[arg-type]
    if kind in (events.Started, events.Voted, events.VoteAnswered, events.DivergenceRefused):
        values["end"] = END
    if kind is events.VoterChangeRefused:
        values["error"] = ErrorCode.VOTER_NOT_FOUND
    return kind(**values)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_has_a_name(kind: type[Event]) -> None:
    what, particulars = described(example(kind))
    assert what and text_of(example(kind)).startswith(what)
    assert len(particulars) >= len(fields(kind)) - 2     # type: ignore[arg-type]


def test_names_are_those_of_one_event_each() -> None:
    names = [described(example(kind))[0] for kind in KINDS]
    assert len(names) > 20
    assert [name for name in dict.fromkeys(names) if names.count(name) > 1] == ["voters"], "in force, or no longer"


@pytest.mark.parametrize("reason", [*VoteRefusal, *ChangeReason, *SnapshotLoss])
def test_every_reason_has_words(reason: VoteRefusal | ChangeReason | SnapshotLoss) -> None:
    assert REASONS[reason].format("x") != ""


def test_unknown_facts_are_left_out() -> None:
    assert text_of(events.Committed(5)) == "commits hw=5"
    assert text_of(events.Committed(5, by=-1)) == "commits hw=5 by=-1"
    assert text_of(events.VoteAnswered(KEY, 2, END, pre_vote=False)) == (
        "answers vote candidate=3 epoch=2 end=4@2 granted=True")
    assert text_of(events.VotersWritten(ChangeReason.TARGETS, (1, 2))) == "changes voters because=requested: 1, 2"
    assert text_of(events.VotersWritten(ChangeReason.REMOVAL, KEY)) == "changes voters because=requested to remove 3"
