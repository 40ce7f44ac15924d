"""Decisions by ACLs the slow way: every entry is inspected, in the words of Kafka's documentation."""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from kraft.security.acls import Acl, Operation, PatternType, PermissionType

IMPLIES = {Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
           Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,)}


def selects(acl: Acl, resource: int, name: str) -> bool:
    if acl.resource_type != resource:
        return False
    if acl.pattern_type == PatternType.LITERAL:
        return acl.resource_name in ("*", name)
    return acl.pattern_type == PatternType.PREFIXED and name.startswith(acl.resource_name)


def is_from(acl: Acl, host: str) -> bool:
    if acl.host == "*":
        return True
    if "/" in acl.host:
        return ip_address(host) in ip_network(acl.host, strict=False)
    return ip_address(acl.host) == ip_address(host)


def is_for(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, "User:*") and is_from(acl, host)


def allows(acls: Iterable[Acl], principal: str, host: str, operation: Operation, resource: int, name: str,
           *, everyone: bool = False) -> bool:
    selecting = [each for each in acls if selects(each, resource, name)]
    applying = [each for each in selecting if is_for(each, principal, host)]
    denying = [each for each in applying if each.permission_type == PermissionType.DENY
               and each.operation in (operation, Operation.ALL)]
    allowing = [each for each in applying if each.permission_type == PermissionType.ALLOW
                and each.operation in (operation, Operation.ALL, *IMPLIES.get(operation, ()))]
    if denying:
        return False
    return bool(allowing) or (everyone and not selecting)


def allows_any_name(acls: Iterable[Acl], principal: str, host: str, operation: Operation, resource: int,
                    *, everyone: bool = False) -> bool:
    """Kafka's own way: without trying names."""
    acls = list(acls)
    if allows(acls, principal, host, operation, resource, "hardcode", everyone=everyone):
        return True
    own = [each for each in acls if each.resource_type == resource and is_for(each, principal, host)
           and each.operation in (operation, Operation.ALL)]
    denied = {(each.pattern_type, each.resource_name) for each in own if each.permission_type == PermissionType.DENY}
    allowed = {(each.pattern_type, each.resource_name) for each in own if each.permission_type == PermissionType.ALLOW}
    if (PatternType.LITERAL, "*") in denied:
        return False
    if (PatternType.LITERAL, "*") in allowed:
        return True
    return any(
        not (kind == PatternType.LITERAL and (kind, name) in denied)
        and not any((PatternType.PREFIXED, name[:end]) in denied for end in range(1, len(name) + 1))
        for kind, name in allowed)
