"""Authorized operations as bit sets, for responses to requests that include them. Without an authorizer, all are
allowed."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kraft.security.access import Access

NOT_REQUESTED: Final = -2147483648
# Bits are AclOperation codes. Topic: read, write, create, delete, alter, describe, describe and alter configs.
TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
# Cluster: create, alter, describe, cluster action, describe and alter configs, idempotent write.
CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


def topic_operations(access: "Access | None", name: str | None) -> int:
    """Return the client's operations on a topic. `access` None: there is no authorizer."""
    if access is None:
        return TOPIC_OPERATIONS
    from kraft.security.acls import ResourceType
    return access.operations(ResourceType.TOPIC, name or "")


def cluster_operations(access: "Access | None") -> int:
    """Return the client's operations on the cluster: none for a client that may not describe it."""
    if access is None:
        return CLUSTER_OPERATIONS
    from kraft.security.acls import Operation, ResourceType
    return access.operations(ResourceType.CLUSTER) if access.may(Operation.DESCRIBE, ResourceType.CLUSTER) else 0


def may_describe_topic(access: "Access | None", name: str) -> bool:
    """Return whether the client may know of a topic."""
    if access is None:
        return True
    from kraft.security.acls import Operation, ResourceType
    return access.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
