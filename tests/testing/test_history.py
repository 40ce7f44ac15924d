"""The judges of histories, each class of fault shown to be found."""

from array import array
from collections.abc import Sequence

import pytest

from kraft.testing.history import (
    NOT_ACKNOWLEDGED,
    SOMEWHERE,
    Commit,
    Problem,
    Reads,
    Sends,
    code_of,
    judge_commits,
    judge_log,
    judge_reads,
    summary,
)

NONE = NOT_ACKNOWLEDGED


def sends(offsets: Sequence[int], floors: Sequence[int] | None = None, failed: dict[int, str] | None = None) -> Sends:
    return Sends(7, array("q", offsets), array("q", floors or [-1] * len(offsets)), failed or {})


def log(*sequences: int) -> list[int]:
    return [code_of(7, each) for each in sequences]


def kinds(problems: list[Problem]) -> list[str]:
    return [each.kind for each in problems]


def test_a_good_log_passes() -> None:
    assert judge_log("t", {7: sends([0, 1, NONE, 2], [-1, -1, 0, 1])}, log(0, 1, 3)) == []
    assert judge_log("t", {7: sends([0, NONE, NONE])}, log(0, 1)) == []       # one was not answered and is stored
    assert judge_log("t", {7: sends([0, SOMEWHERE])}, log(0, 1)) == []
    twice = log(0, 1, 2, 1, 2)
    assert judge_log("t", {7: sends([0, 3, 4])}, twice, sent_again=set(twice[3:])) == []
    assert kinds(judge_log("t", {7: sends([0, 3, 4])}, twice, sent_again={twice[3]})) == [
        "duplicate", "inconsistent-offsets"]


@pytest.mark.parametrize(("sent", "stored", "kind"), [
    (sends([0, 1]), log(0), "lost-write"),
    (sends([0, 1]), log(0, 1, 1), "duplicate"),
    (sends([0, SOMEWHERE]), log(0), "lost-write"),
    (sends([0, 2]), log(0, 1), "inconsistent-offsets"),
    (sends([0, NONE], failed={1: "timed out"}), log(0, 1), "G1a"),
    (sends([0]), log(0, 1), "phantom"),
    (sends([0]), [*log(0), -1], "phantom"),
    (sends([0]), [*log(0), code_of(8, 0)], "phantom"),
    (sends([1, 0]), log(1, 0), "nonmonotonic-send"),
    (sends([0, 1], [-1, 1]), log(0, 1), "realtime-order"),
])
def test_a_bad_log_is_named(sent: Sends, stored: list[int], kind: str) -> None:
    assert kinds(judge_log("t", {7: sent}, stored)) == [kind]


def seen(*polls: Sequence[tuple[int, int]], position: int = 0) -> Reads:
    """Build polls of (offset, sequence)."""
    reads = Reads("reader", position)
    for number, poll in enumerate(polls):
        for offset, sequence in poll:
            reads.see(offset, code_of(7, sequence), number)
    return reads


def sought(position: int, *poll: tuple[int, int]) -> Reads:
    """Build a poll after a seek."""
    reads = seen([(0, 0), (1, 1), (2, 2)])
    reads.begin(position)
    for offset, sequence in poll:
        reads.see(offset, code_of(7, sequence), 9)
    return reads


def test_good_reads_pass() -> None:
    assert judge_reads("t", [seen([(0, 0), (1, 1)], [(2, 2)])], log(0, 1, 2)) == []
    one, other = seen([(0, 0), (1, 1)]), seen([(1, 1), (2, 2)], position=-1)
    assert judge_reads("t", [one, other], log(0, 1, 2)) == []
    one.begin()
    one.see(2, code_of(7, 2), 5)
    assert judge_reads("t", [one], log(0, 1, 2)) == []
    assert judge_reads("t", [sought(1, (1, 1), (2, 2))], log(0, 1, 2)) == []
    assert judge_reads("t", [seen([(1, 1)], [(2, 2)], position=1)], log(0, 1, 2), start=1) == []


@pytest.mark.parametrize(("reads", "kind"), [
    (seen([(0, 0), (1, 1), (2, 3)]), "inconsistent-offsets"),
    (seen([(0, 0), (1, 1), (2, 2), (3, 3)]), "precommitted-read"),
    (seen([(0, 0), (2, 2)], [(3, 1)]), "int-poll-skip"),
    (seen([(0, 0)], [(2, 2)]), "poll-skip"),
    (seen([(0, 0), (1, 1), (2, 2), (1, 1)]), "int-nonmonotonic-poll"),
    (seen([(0, 0), (1, 1), (2, 2)], [(1, 1)]), "nonmonotonic-poll"),
    (seen([(0, 0), (1, 1)]), "unseen"),
    (seen([(1, 1), (2, 2)], position=-1), "unseen"),
    (sought(2, (1, 1)), "nonmonotonic-poll"),
    (sought(1, (2, 2)), "poll-skip"),
])
def test_bad_reads_are_named(reads: Reads, kind: str) -> None:
    assert kind in kinds(judge_reads("t", [reads], log(0, 1, 2)))


def test_commits() -> None:
    first, second, overlapping = Commit(0, 10, 1.0, 2.0), Commit(0, 20, 3.0, 4.0), Commit(0, 5, 1.5, 2.5)
    assert judge_commits("g", [first, second, overlapping], {0: 20}) == []
    assert judge_commits("g", [first, second, Commit(0, 15, 5.0, None)], {0: 20}) == []
    assert kinds(judge_commits("g", [second, Commit(0, 15, 5.0, 6.0)], {0: 20})) == ["nonmonotonic-commit"]
    assert kinds(judge_commits("g", [first, second], {0: 10})) == ["lost-commit"]
    assert kinds(judge_commits("g", [first], {})) == ["lost-commit"]


def test_a_summary_counts_and_has_examples() -> None:
    problems = [Problem("lost-write", f"number {number}") for number in range(5)]
    assert summary(problems).splitlines() == ["lost-write: 5", *(f"    lost-write: number {each}" for each in range(3))]
