"""Parts of several pages: the list of topics, the facts and their findings."""

from dataclasses import replace
from typing import Final

from kraft.client import Cluster
from kraft.console.state.topics import TopicTable, topic_table
from kraft.console.visits import Visit
from kraft.console.why.facts import Collector, Facts
from kraft.console.why.finding import Finding
from kraft.console.why.history import History
from kraft.console.why.rules import findings

ROWS_SECONDS: Final = 3.0
FACTS_SECONDS: Final = 10.0


def rows_of(visit: Visit, cluster: Cluster) -> TopicTable:
    """Return the topics, at most `ROWS_SECONDS` old."""
    return visit.console.recent.get((visit.identity, "topics"), ROWS_SECONDS, lambda: topic_table(cluster.metadata()))


def findings_of(visit: Visit) -> tuple[Facts, list[Finding]]:
    """Return the facts and what the rules find, at most `FACTS_SECONDS` old. The facts are without those that grow with
    the cluster."""
    def make() -> tuple[Facts, list[Finding]]:
        facts = Collector(visit.cluster, visit.console.sources).collect()
        found = findings(facts)
        return replace(facts, image=None, placed=(), red=(), history=History()), found

    return visit.console.recent.get((visit.identity, "why"), FACTS_SECONDS, make)
