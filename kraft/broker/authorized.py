"""Authorized operations as bit sets, for responses to requests that include them. Without an authorizer, all are
allowed."""

from typing import Final

from kraft.security.access import Access
from kraft.security.acls import Operation, ResourceType
from kraft.security.authorizer import OPERATIONS_OF

NOT_REQUESTED: Final = -2147483648


def topic_operations(access: Access | None, name: str | None) -> int:
    """Return the client's operations on a topic. `access` None: there is no authorizer."""
    return OPERATIONS_OF[ResourceType.TOPIC] if access is None else access.operations(ResourceType.TOPIC, name or "")


def cluster_operations(access: Access | None) -> int:
    """Return the client's operations on the cluster: none for a client that may not describe it."""
    if access is None:
        return OPERATIONS_OF[ResourceType.CLUSTER]
    return access.operations(ResourceType.CLUSTER) if access.may(Operation.DESCRIBE, ResourceType.CLUSTER) else 0


def may_describe_topic(access: Access, name: str) -> bool:
    """Return whether the client may know of a topic."""
    return access.may(Operation.DESCRIBE, ResourceType.TOPIC, name)
