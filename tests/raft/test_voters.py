"""Sets of voters, and their history in a log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft.raft.records import KRaftVersion, LeaderChange, Voters, apply_control, of_message, to_message
from kraft.raft.types import ReplicaKey
from kraft.raft.voters import NO_VOTERS, Voter, VoterHistory, VoterSet
from tests.raft.world import address, key, voter

ONE_TO_THREE = VoterSet.of(voter(1), voter(2), voter(3))


def test_a_set_distinguishes_disks() -> None:
    assert ONE_TO_THREE.has(key(1))
    assert not ONE_TO_THREE.has(key(1, disk=1))
    assert not ONE_TO_THREE.has(ReplicaKey(1)), "a node that does not report its disk"
    assert not ONE_TO_THREE.has(key(4))


def test_a_set_without_disks_requires_none() -> None:
    static = VoterSet.of(Voter(ReplicaKey(1)))
    assert static.has(key(1))
    assert static.has(key(1, disk=1))


def test_members_come_and_go() -> None:
    four = ONE_TO_THREE.with_voter(voter(4))
    assert four.ids == (1, 2, 3, 4)
    assert four.majority == 3
    assert four.without(key(2)).ids == (1, 3, 4)
    assert four.without(key(2, disk=1)) == four
    assert four.with_voter(voter(2, disk=1)).find(2) == voter(2, disk=1)
    assert [ONE_TO_THREE.majority, VoterSet.of(voter(1)).majority] == [2, 1]


def test_ids_are_unique_and_in_order() -> None:
    with pytest.raises(AssertionError):
        VoterSet((voter(2), voter(1)))
    with pytest.raises(AssertionError):
        VoterSet((voter(1), voter(1, disk=1)))


@pytest.mark.parametrize("record", [
    LeaderChange(1, (ReplicaKey(1), ReplicaKey(2)), (ReplicaKey(2),)),
    KRaftVersion(1),
    Voters(ONE_TO_THREE),
    Voters(VoterSet((voter(7),), targets=(key(8), ReplicaKey(9)), cluster_id="made by the first leader")),
    Voters(VoterSet((voter(7),), targets=())),
])
def test_control_records_survive_their_bytes(record: LeaderChange | KRaftVersion | Voters) -> None:
    message = to_message(record)
    again = type(message).decode(message.encode(0), 0, exact=True)
    assert of_message(again) == record


def test_voters_that_a_java_leader_rewrites_cancel_a_reassignment() -> None:
    message = to_message(Voters(ONE_TO_THREE.toward((key(4),))))
    java = message.replace(target_voters=None, cluster_id=None)
    record = of_message(java)
    assert isinstance(record, Voters)
    assert record.voters == ONE_TO_THREE


# --- history against a slow reference: the records themselves, replayed each time -----------------------------------

changes = st.lists(st.one_of(
    st.tuples(st.just("voters"), st.integers(1, 9)),
    st.tuples(st.just("version"), st.integers(0, 1)),
    st.tuples(st.just("other"), st.just(0)),
    st.tuples(st.just("truncate"), st.integers(0, 12)),
    st.tuples(st.just("trim"), st.integers(0, 12)),
), max_size=30)


@given(changes)
def test_history_is_what_the_log_says(steps: list[tuple[str, int]]) -> None:
    history = VoterHistory(ONE_TO_THREE)
    log: list[tuple[str, int]] = []
    start = 0
    for what, number in steps:
        if what == "truncate":
            del log[max(number, start):]
            history.truncate(max(number, start))
        elif what == "trim":
            start = max(start, min(number, len(log)))
            history.trim(start)
        else:
            record = {"voters": Voters(VoterSet.of(voter(number or 1))), "version": KRaftVersion(number)}.get(
                what, LeaderChange(1, (), ()))
            apply_control(history, len(log), record)
            log.append((what, number))
        for end_offset in range(start, len(log) + 1):
            expected = _replay(log[:end_offset])
            assert history.before(end_offset)[1:] == expected
        assert history.latest[1:] == _replay(log)
        assert len([each for each in history.entries if each.offset < start]) <= 1


def _replay(log: list[tuple[str, int]]) -> tuple[int, VoterSet]:
    versions = [number for what, number in log if what == "version"]
    voters = [VoterSet.of(voter(number)) for what, number in log if what == "voters"]
    return (versions or [0])[-1], (voters or [ONE_TO_THREE])[-1]


def test_a_snapshot_replaces_everything() -> None:
    history = VoterHistory(NO_VOTERS)
    history.set_voters(3, ONE_TO_THREE)
    history.restart(10, 1, VoterSet.of(voter(5)))
    assert history.before(0) == history.latest == (9, 1, VoterSet.of(voter(5)))


def test_text() -> None:
    assert str(ONE_TO_THREE.toward((key(4),))) == "{1:d001 2:d002 3:d003}->{4:d004}"
    assert str(Voter(key(1), address(1))) == "1:d001@node1"
