"""Transactions that are decided at the common point of a backup."""

import pytest

from kraft.backups.cut import Marker, first_undecided, prepared_commits
from kraft.backups.manifest import Commit
from kraft.client.transaction_admin import Transaction


def transaction(state: str, *partitions: tuple[str, int]) -> Transaction:
    return Transaction("t", 7, 3, state, 60_000, -1, partitions, 1)


@pytest.mark.parametrize(("markers", "expected"), [
    ([], None), ([(10, 7, 3)], None), ([(10, 7, 2)], None), ([(10, 7, 4)], 10), ([(10, 8, 0)], 10),
    ([(10, 7, 3), (20, 7, 4), (30, 7, 5)], 20)])
def test_the_first_commit_that_was_decided_later(markers: list[tuple[int, int, int]], expected: int | None) -> None:
    """Producer 7 had epoch 3 then; producer 8 did not exist."""
    assert first_undecided([Marker(*each) for each in markers], {7: 3}) == expected


def test_commits_whose_markers_are_missing() -> None:
    ends = {("a", 0): 5, ("b", 1): 6}
    places = (("a", 0), ("b", 1), ("deleted", 0))
    assert prepared_commits([transaction("PrepareCommit", *places)], ends) == (Commit("a", 0, 7, 3),
                                                                               Commit("b", 1, 7, 3))
    for state in ("PrepareAbort", "Ongoing", "CompleteCommit"):
        assert prepared_commits([transaction(state, *places)], ends) == ()
