"""A small sample of `python -m tests.crash_quorum`: the leader dies, returning nodes disturb no other node, nothing is
lost."""

from tests.crash_quorum import runs
from tests.integration.quorum import MakeQuorum


def test_the_leader_dies_and_leaves_under_load(new_quorum: MakeQuorum) -> None:
    quorum = new_quorum(3)
    quorum.start()
    runs.failover(quorum, 2, graceful=False)
    runs.failover(quorum, 2, graceful=True)


def test_kills_and_pauses_while_voters_come_and_go(new_quorum: MakeQuorum) -> None:
    quorum = new_quorum(3)
    quorum.start()
    summary = runs.chaos(quorum, 12, 7, lambda _: None)
    assert "none lost or reordered" in summary
