"""Pages of clients that push their metrics (KIP-714)."""

from collections import Counter
from typing import Final

from kraft.client.configs import client_subscriptions
from kraft.client.pushed_metrics import histograms
from kraft.console.parts import attempt
from kraft.console.sources import ClientReports
from kraft.console.visits import NotFoundError, Page, Visit

REPORTS_SECONDS: Final = 3.0
INSTANCES_SHOWN: Final = 500
VALUES_SHOWN: Final = 1_000
PREFIX: Final = "org.apache.kafka."


def _reports(visit: Visit) -> ClientReports:
    return visit.console.recent.get("client reports", REPORTS_SECONDS, visit.console.sources.client_reports)


def clients(visit: Visit) -> Page:
    """Client instances, and the subscriptions that say what they push."""
    with visit.cluster() as cluster:
        subscriptions = attempt(lambda: client_subscriptions(cluster))
    reports = _reports(visit)
    words = visit.query.get("q", "").lower().split()
    matching = [each for each in reports.instances if all(word in " ".join(each[:7]).lower() for word in words)]
    counts = Counter(each.instance for each in reports.values)
    return Page("clients.html", {"reports": reports, "rows": matching[:INSTANCES_SHOWN], "matching": len(matching),
                                 "counts": counts, "subscriptions": subscriptions, "refresh": 5})


def client(visit: Visit) -> Page:
    """One instance: its values, and its histograms."""
    name = visit.path["instance"]
    reports = _reports(visit)
    found = [each for each in reports.instances if each.instance == name]
    if not found:
        raise NotFoundError(f"client instance {name[:40]} that pushes its metrics")
    latest = min(found, key=lambda each: each.pushed_seconds_ago)       # it may have pushed to another node before
    words = visit.query.get("q", "").lower().split()
    own = [each for each in reports.values if each.instance == name
           and all(word in f"{each.metric} {each.attributes}".lower() for word in words)]
    shown, values = histograms(own)
    values.sort()
    return Page("client.html", {"client": latest, "histograms": shown, "values": values[:VALUES_SHOWN],
                                "count": len(values), "prefix": PREFIX, "refresh": 5})
