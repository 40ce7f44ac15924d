"""One sentence about a problem, with its evidence."""

from typing import Final, Literal, NamedTuple

RED: Final = "red"
AMBER: Final = "amber"
NAMED_MAX: Final = 8
UNANSWERED: Final = ("no answer", "timed out", "closed the connection")

Severity = Literal["red", "amber"]


class Finding(NamedTuple):
    """One problem. RED: clients or records are affected now. AMBER: one further fault would affect them, or nobody uses
    what was paid for. `about` names the thing, `sentence` is the cause, `evidence` are the facts that lead to it,
    `link` is the page of the thing. `rank` orders findings of one severity: causes come before their effects."""

    severity: Severity
    about: str
    sentence: str
    evidence: tuple[str, ...] = ()
    link: str = ""
    rank: int = 5


def does_not_answer(problem: str | None) -> bool:
    """Return whether a node accepted a connection and then answered nothing."""
    return problem is not None and any(text in problem for text in UNANSWERED)


def named(names: list[str], maximum: int = NAMED_MAX) -> str:
    """Return the names, the first ones of many."""
    more = f" and {len(names) - maximum:,} more" if len(names) > maximum else ""
    return f"{', '.join(names[:maximum])}{more}"


def count_of(count: int, what: str) -> str:
    """Return `1 partition`, `2 partitions`, `2 directories`."""
    if count == 1:
        return f"1 {what}"
    return f"{count:,} {what[:-1]}ies" if what.endswith("y") else f"{count:,} {what}s"
