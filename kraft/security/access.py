"""Permissions of one client: the decisions about one of its requests, all by the same table of ACLs."""

from typing import Protocol

from kraft.security.acls import CLUSTER_NAME, Operation, ResourceType
from kraft.security.principal import Principal


class Decisions(Protocol):
    """The subset of an authorizer that one request needs (`Authorizer.now`)."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: ResourceType,
               name: str) -> bool:
        """Return whether the principal may do that from that host."""

    def allows_any_name(self, principal: Principal, host: str, operation: Operation, resource: ResourceType) -> bool:
        """Return whether there may be a resource of that type on which the principal may do that."""

    def allowed_operations(self, principal: Principal, host: str, resource: ResourceType, name: str) -> int:
        """Return the operations that the principal may do, as a bit set of their codes."""


class Access:
    """Permissions of the client of one request. `decisions` does not change while the request is served."""

    __slots__ = ("_decisions", "host", "principal")

    def __init__(self, decisions: Decisions, principal: Principal, host: str) -> None:
        self._decisions = decisions
        self.principal = principal
        self.host = host

    def may(self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do that to the resource of that type and name."""
        return self._decisions.allows(self.principal, self.host, operation, resource, name)

    def may_to_any(self, operation: Operation, resource: ResourceType) -> bool:
        """Return whether the client may do that to any resource of the type."""
        return self._decisions.allows_any_name(self.principal, self.host, operation, resource)

    def operations(self, resource: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the client's operations on that resource, as a bit set of their codes."""
        return self._decisions.allowed_operations(self.principal, self.host, resource, name)
