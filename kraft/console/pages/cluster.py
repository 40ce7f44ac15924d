"""Pages of the cluster: overview, why, brokers, one broker."""

from kraft.client import state
from kraft.client.configs import settings
from kraft.client.log_dirs import placed_replicas
from kraft.client.quorum import describe_quorum
from kraft.console.pages.common import findings_of, rows_of
from kraft.console.parts import attempt
from kraft.console.state.overview import overview
from kraft.console.state.what_if import Outcome, needing_minimum, what_if
from kraft.console.visits import NotFoundError, Page, Visit
from kraft.console.why.facts import placed_of
from kraft.protocol.messages.describe_quorum_request import DescribeQuorumRequest

MINIMUM_TOPICS_MAX = 1_000
REPLICAS_SHOWN = 200


def home(visit: Visit) -> Page:
    """First page: the cluster at a glance."""
    with visit.cluster() as cluster:
        found = overview(cluster, rows_of(visit, cluster))
    return Page("overview.html", {"found": found, "refresh": 5})


def why(visit: Visit) -> Page:
    """Causes of everything that is red."""
    facts, found = findings_of(visit)
    return Page("why.html", {"facts": facts, "findings": found, "refresh": 10})


def brokers(visit: Visit) -> Page:
    """All brokers with their directories."""
    with visit.cluster() as cluster:
        found = state.brokers(cluster)
        reachable = [each.node_id for each in found if each.problem is None]
        directories = attempt(lambda: state.log_directories(cluster, reachable))
        leases = attempt(lambda: state.ended_leases(cluster, found))
    return Page("brokers.html", {"brokers": found, "directories": directories, "leases": leases, "refresh": 5})


def broker(visit: Visit) -> Page:
    """One broker: what it has, and what happens when it fails now."""
    node_id = visit.part("broker")
    with visit.cluster() as cluster:
        known = {each.node_id: each for each in state.brokers(cluster)}
        if node_id not in known:
            raise NotFoundError(f"broker {node_id}")
        is_up = known[node_id].problem is None
        directories = attempt(lambda: state.log_directories(cluster, [node_id] if is_up else []))
        replicas = attempt(lambda: placed_replicas(cluster, node_id) if is_up else [])
        outcome = attempt(lambda: outcome_of(visit, node_id, known))
    largest = sorted(replicas.otherwise([]), key=lambda each: -each.size_bytes)[:REPLICAS_SHOWN]
    return Page("broker.html", {"broker": known[node_id], "directories": directories, "replicas": replicas,
                                "largest": largest, "outcome": outcome, "refresh": 10})


def outcome_of(visit: Visit, node_id: int, known: dict[int, state.BrokerState]) -> Outcome:
    """Compute what happens when a broker fails now."""
    with visit.cluster() as cluster:
        placed = placed_of(cluster.metadata())
        topics = needing_minimum(node_id, placed)[:MINIMUM_TOPICS_MAX]
        minimums = {topic: int(text or 1) for topic, text in
                    settings(cluster, "topic", topics, "min.insync.replicas").items()}
        quorum = attempt(lambda: describe_quorum(cluster.any())
                         if DescribeQuorumRequest.API_KEY in cluster.any().versions else None).value
    up = [each.node_id for each in known.values() if each.problem is None]
    voters = [] if quorum is None else [each.node_id for each in quorum.voters]
    return what_if(node_id, placed, up, minimums, voters)
