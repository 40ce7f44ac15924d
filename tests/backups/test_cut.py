"""Transactions that are decided at the common point of a backup."""

from types import SimpleNamespace
from typing import Any

import pytest

from kraft.backups import cut
from kraft.backups.cut import OFFSETS_TOPIC, Marker, decided_epochs, first_undecided, prepared_commits
from kraft.backups.manifest import Commit
from kraft.client.partitions import EARLIEST
from kraft.client.transaction_admin import ListedTransaction, Transaction


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


class World:
    """A cluster in which a record is produced, and its offset committed, between any two steps of a backup."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = 0
        self.read: list[str] = []
        self.transactions: list[Transaction] = []
        self.listed_id = 7
        """Producer id of the transactional id before the marks."""
        self.markers: dict[tuple[str, int], list[Marker]] = {}
        monkeypatch.setattr(cut, "_offsets", self.offsets)
        monkeypatch.setattr(cut, "_markers", self.markers_of)
        monkeypatch.setattr(cut, "list_transactions", self.listed)
        monkeypatch.setattr(cut, "describe_transactions", self.described)

    def metadata(self, names: list[str]) -> Any:
        return SimpleNamespace(topics=[SimpleNamespace(name=name) for name in names])

    def offsets(self, _: object, topics: list[Any], timestamp: int) -> dict[tuple[str, int], int]:
        self.read.append(f"{timestamp} {' '.join(topic.name for topic in topics)}")
        self.time += 10
        return {(topic.name, 0): 0 if timestamp == EARLIEST else self.time for topic in topics}

    def listed(self, *_: object) -> list[ListedTransaction]:
        self.read.append("list")
        return [ListedTransaction("t", self.listed_id, each.state, 1) for each in self.transactions]

    def described(self, *_: object) -> list[Transaction]:
        self.read.append("transactions")
        self.time += 10
        return self.transactions

    def markers_of(self, _: object, starts: Any, ends: Any) -> dict[tuple[str, int], list[Marker]]:
        assert all(starts[each] < ends[each] for each in ends)
        return self.markers

    def choose(self) -> Any:
        return cut._choose(self, ["orders", OFFSETS_TOPIC])  # type: ignore[arg-type]


def test_no_group_is_beyond_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = World(monkeypatch).choose().ends
    assert 0 < ends[OFFSETS_TOPIC, 0] <= ends["orders", 0]


def test_a_transaction_that_was_decided_later_is_in_no_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The marks come before the decisions, so that every marker that is not read is of a decided one."""
    world = World(monkeypatch)
    world.transactions = [transaction("Ongoing", ("orders", 0))]
    world.markers = {("orders", 0): [Marker(12, 7, 3), Marker(17, 7, 4)], (OFFSETS_TOPIC, 0): [Marker(15, 7, 3)]}
    found = world.choose()
    assert (found.ends["orders", 0], found.ends[OFFSETS_TOPIC, 0]) == (17, 30)
    assert [each.split()[0] for each in world.read[:4]] == ["list", "-1", "list", "transactions"]


def test_a_producer_id_whose_epochs_are_exhausted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last transaction was decided before its transactional id got another producer id, and is in all of its
    partitions: its markers may be on either side of the marks."""
    world = World(monkeypatch)
    world.transactions = [transaction("CompleteCommit")]
    world.listed_id = 6
    world.markers = {("orders", 0): [Marker(12, 6, 0x7FFF), Marker(17, 7, 4)]}
    assert world.choose().ends["orders", 0] == 17
    listed = [ListedTransaction(name, producer_id, "Ongoing", 1) for name, producer_id in (("t", 7), ("gone", 5))]
    assert decided_epochs(listed, world.transactions) == {7: 3}
