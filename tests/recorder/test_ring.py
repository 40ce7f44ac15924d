"""The recorder ring of one replica, and its lines."""

import pytest

from kraft.protocol.error_codes import ErrorCode
from kraft.raft.events import Committed, MajorityLost, VoterChangeRefused, VotersApplied
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import Voter, VoterSet
from kraft.recorder.entry import Entry, parse
from kraft.recorder.ring import Recorder
from kraft_native.base.errors import MalformedMessageError


def test_commits_that_follow_each_other_are_one_entry() -> None:
    recorder = Recorder(1)
    for hw in range(1, 1001):
        recorder.record(hw, Committed(hw))
    recorder.record(2000, MajorityLost(1))
    recorder.record(2001, Committed(1001))
    first, middle, last = recorder.entries()
    assert (first.values["hw"], first.times, first.time_ms, first.until_ms) == (1000, 1000, 1, 1000)
    assert (middle.what, last.values["hw"], last.times) == ("loses majority", 1001, 1)


def test_only_the_same_again_is_folded() -> None:
    recorder = Recorder(1)
    for now_ms, why in enumerate(("late", "late", "early")):
        recorder.record(now_ms, VoterChangeRefused(ErrorCode.REQUEST_TIMED_OUT, why))
    assert [(each.values["why"], each.times) for each in recorder.entries()] == [("late", 2), ("early", 1)]


def test_the_ring_is_bounded() -> None:
    recorder = Recorder(1, capacity=3)
    for epoch in range(10):
        recorder.record(epoch, MajorityLost(epoch))
    assert [each.values["epoch"] for each in recorder.entries()] == [7, 8, 9]
    assert [each.number for each in recorder.entries(2)] == [9, 10]
    assert recorder.entries(0) == ()


def test_the_file_lacks_only_the_last_second_of_commits() -> None:
    written: list[Entry] = []
    recorder = Recorder(1, written.append)
    for hw in range(2500):
        recorder.record(hw, Committed(hw))
    assert [each.values["hw"] for each in written] == [0, 1000, 2000]
    recorder.record(2500, MajorityLost(1))
    assert [each.what for each in written] == ["commits"] * 4 + ["loses majority"]
    assert written[3] == recorder.entries()[0]
    recorder.flush()
    assert len(written) == 5


def test_lines_carry_everything() -> None:
    recorder = Recorder(3)
    voters = VoterSet.of(Voter(ReplicaKey(1)), Voter(ReplicaKey(2))).toward((ReplicaKey(2), ReplicaKey(4)))
    recorder.record(5, VotersApplied(7, 1, voters, 2))
    recorder.record(6, Committed(8))
    recorder.record(9, Committed(9))
    assert [parse(each.line) for each in recorder.entries()] == list(recorder.entries())
    assert recorder.entries()[0].values == {
        "offset": 7, "kraft": 1, "voters": ["1", "2"], "targets": ["2", "4"], "leader": 2}


@pytest.mark.parametrize("line", ["", "{", "[]", "{}", '{"ms":1,"node":1,"n":1,"what":"x","values":[]}',
                                  '{"ms":"1","node":1,"n":1,"what":"x","values":{}}', "null"])
def test_other_lines_are_refused(line: str) -> None:
    with pytest.raises(MalformedMessageError):
        parse(line)
