"""Pages of groups and transactions."""

from kraft.client.transaction_admin import describe_transactions, list_transactions
from kraft.console.clock import now_ms
from kraft.console.parts import attempt
from kraft.console.state.groups import PAGE_ROWS, group_detail, groups_page
from kraft.console.visits import Page, Visit
from kraft.protocol.error_codes import ErrorCode

TRANSACTIONS_SHOWN = 200
TOPICS_SEARCHED = 200


def groups(visit: Visit) -> Page:
    """One page of the groups with their lag."""
    with visit.cluster() as cluster:
        rows, number, matching = groups_page(cluster, visit.query.get("q", ""), visit.number("page", 1))
    return Page("groups.html", {"rows": rows, "number": number, "matching": matching,
                                "pages": max(1, -(-matching // PAGE_ROWS)), "refresh": 5})


def group(visit: Visit) -> Page:
    """One group: its members and its positions."""
    with visit.cluster() as cluster:
        found = group_detail(cluster, visit.path["group"])
    return Page("group.html", {"found": found, "refresh": 5})


def transactions(visit: Visit) -> Page:
    """Transactional ids, and the open transactions that hold back readers."""
    with visit.cluster() as cluster:
        listed = attempt(lambda: list_transactions(cluster))
        shown = listed.otherwise([])[:TRANSACTIONS_SHOWN]
        described = attempt(lambda: describe_transactions(cluster, shown))
        answers = attempt(lambda: visit.console.sources.about_transactions(cluster, [
            (topic.name or "", each.partition_index) for topic in cluster.metadata().topics[:TOPICS_SEARCHED]
            if topic.error_code == ErrorCode.NONE and not topic.is_internal
            for each in topic.partitions if each.leader_id >= 0]))
    return Page("transactions.html", {"listed": listed, "described": described, "answers": answers, "now_ms": now_ms(),
                                      "refresh": 5})
