"""Rules about the metadata quorum."""

from collections.abc import Iterator

from kraft.console.why.facts import Facts
from kraft.console.why.finding import AMBER, RED, Finding, Severity


def explained(facts: Facts) -> Iterator[Finding]:
    """Reports of the controllers: the leader, the voters, a pending change."""
    for answer in facts.about_quorum:
        if answer.is_well or answer.about == "lease":
            continue
        severity: Severity = RED if answer.about == "leader" else AMBER
        text = answer.text
        if answer.about == "leader" and facts.quorum is None:
            text = f"The metadata quorum has no leader that the brokers reach. {text}"
        yield Finding(severity, "quorum", text, _size(facts), "/quorum", 0 if answer.about == "leader" else 2)


def unanswered(facts: Facts) -> Iterator[Finding]:
    """No leader, as far as the nodes report it, where no controller explains it."""
    if any(answer.about == "leader" for answer in facts.about_quorum):
        return
    if facts.quorum is not None and facts.quorum.leader < 0:
        yield Finding(RED, "quorum", "The metadata quorum has no leader.", _size(facts), "/quorum", 0)
    elif "quorum" in facts.unanswered and "explanations of the quorum" in facts.unanswered:
        yield Finding(RED, "quorum", "The metadata quorum does not answer: no leader is reachable.",
                      (facts.unanswered["quorum"],), "/quorum", 0)


def even_size(facts: Facts) -> Iterator[Finding]:
    """Voters in an even number: one of them adds no tolerance."""
    if facts.quorum is None or len(facts.quorum.voters) % 2:
        return
    count = len(facts.quorum.voters)
    yield Finding(AMBER, "quorum", f"The quorum has {count} voters, which tolerate the failure of {(count - 1) // 2}, "
                  f"as {count - 1} would.", (), "/quorum", 6)


def _size(facts: Facts) -> tuple[str, ...]:
    if facts.quorum is None:
        return ()
    voters = [each.node_id for each in facts.quorum.voters]
    return (f"voters {', '.join(map(str, voters))}; a majority is {len(voters) // 2 + 1}",)
