"""All rules, and the order of their findings."""

from collections.abc import Callable, Iterator
from typing import Final

from kraft.console.why import brokers, groups, partitions, quorum, settings
from kraft.console.why.facts import Facts
from kraft.console.why.finding import RED, Finding

RULES: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    quorum.explained, quorum.unanswered, quorum.even_size,
    brokers.offline_brokers, brokers.without_controller, brokers.failed_directories, brokers.full_disks,
    brokers.lost_records, brokers.stray_directories, brokers.settings_not_applied, brokers.clock_skew,
    partitions.leaderless, partitions.out_of_sync, partitions.refused_writes, partitions.unclean_elections,
    partitions.moving, partitions.holding_transactions, partitions.unbalanced_leaders,
    settings.minimum_above_replicas, settings.one_rack, settings.internal_topics, settings.forgotten_throttles,
    settings.slow_quotas, groups.about_groups,
)


def findings(facts: Facts) -> list[Finding]:
    """Return what the rules find: red before amber, causes before their effects."""
    found = [finding for rule in RULES for finding in rule(facts)]
    return sorted(dict.fromkeys(found), key=lambda each: (each.severity != RED, each.rank))
