"""Pages of settings, quotas and ACLs."""

from kraft.client import state
from kraft.client.acls import list_acls
from kraft.client.configs import KINDS, SOURCE_DEFAULT, SOURCES, describe_configs
from kraft.client.users import credentials_of
from kraft.console.parts import attempt
from kraft.console.state.quotas import quotas as read_quotas
from kraft.console.visits import NotFoundError, Page, Visit
from kraft.security.acls import Operation, PatternType, PermissionType, ResourceType, name_of

ACLS_SHOWN = 1_000


def configs(visit: Visit) -> Page:
    """The resources that have settings."""
    with visit.cluster() as cluster:
        brokers = state.brokers(cluster)
        defaults = attempt(lambda: [each for each in describe_configs(cluster, "broker", [""])[""]
                                    if each.config_source != SOURCE_DEFAULT])
    return Page("configs.html", {"brokers": brokers, "defaults": defaults, "sources": SOURCES})


def config(visit: Visit) -> Page:
    """All settings of one resource; values of secrets are never sent by brokers."""
    kind, name = visit.path["kind"], visit.path["name"]
    if kind not in KINDS:
        raise NotFoundError(f"settings of a {kind[:40]}")
    with visit.cluster() as cluster:
        found = describe_configs(cluster, kind, [name], documentation=True).get(name, [])
    everything = "all" in visit.query
    shown = [each for each in found if everything or each.config_source != SOURCE_DEFAULT]
    return Page("config.html", {"kind": kind, "name": name, "shown": shown, "count": len(found),
                                "everything": everything, "sources": SOURCES})


def quotas(visit: Visit) -> Page:
    """Quotas of clients."""
    with visit.cluster() as cluster:
        found = attempt(lambda: read_quotas(cluster))
    return Page("quotas.html", {"found": found})


def acls(visit: Visit) -> Page:
    """ACLs, and users with SCRAM credentials."""
    with visit.cluster() as cluster:
        found = attempt(lambda: list_acls(cluster))
        users = attempt(lambda: credentials_of(cluster))
    words = visit.query.get("q", "").lower().split()
    rows = [(each.principal, name_of(PermissionType, each.permission_type), name_of(Operation, each.operation),
             name_of(ResourceType, each.resource_type), each.resource_name,
             name_of(PatternType, each.pattern_type), each.host) for each in found.otherwise([])]
    matching = [row for row in rows if all(any(word in cell.lower() for cell in row) for word in words)]
    return Page("acls.html", {"found": found, "rows": matching[:ACLS_SHOWN], "matching": len(matching), "users": users})
