"""Permissions of one client: the decisions about one of its requests, all by the same table of ACLs."""

from typing import Final, NamedTuple, Protocol

from kraft.security.acls import CLUSTER_NAME, Operation, ResourceType
from kraft.security.principal import Principal

NOTES_MAX: Final = 32


class Decisions(Protocol):
    """The subset of an authorizer that one request needs (`Authorizer.now`)."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: ResourceType,
               name: str) -> bool:
        """Return whether the principal may do that from that host."""

    def allows_any_name(self, principal: Principal, host: str, operation: Operation, resource: ResourceType) -> bool:
        """Return whether there may be a resource of that type on which the principal may do that."""

    def allowed_operations(self, principal: Principal, host: str, resource: ResourceType, name: str) -> int:
        """Return the operations that the principal may do, as a bit set of their codes."""


class Decided(NamedTuple):
    """One decision."""

    is_allowed: bool
    operation: Operation
    resource: ResourceType
    name: str


class Access:
    """Permissions of the client of one request. `decisions` does not change while the request is served."""

    __slots__ = ("_decisions", "host", "notes", "principal")

    def __init__(self, decisions: Decisions, principal: Principal, host: str) -> None:
        self._decisions = decisions
        self.principal = principal
        self.host = host
        self.notes: list[Decided] | None = None
        """The first `NOTES_MAX` decisions, where they are collected for the audit."""

    def may(self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do that to the resource of that type and name."""
        is_allowed = self._decisions.allows(self.principal, self.host, operation, resource, name)
        if self.notes is not None:
            self._note(Decided(is_allowed, operation, resource, name))
        return is_allowed

    def _note(self, decided: "Decided") -> None:
        """Collect a decision. A denial takes the place of a permission where there is no room."""
        assert self.notes is not None
        if len(self.notes) < NOTES_MAX:
            self.notes.append(decided)
        elif not decided.is_allowed:
            place = next((number for number, each in enumerate(self.notes) if each.is_allowed), None)
            if place is not None:
                self.notes[place] = decided

    def may_to_any(self, operation: Operation, resource: ResourceType) -> bool:
        """Return whether the client may do that to any resource of the type."""
        return self._decisions.allows_any_name(self.principal, self.host, operation, resource)

    def operations(self, resource: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return the client's operations on that resource, as a bit set of their codes."""
        return self._decisions.allowed_operations(self.principal, self.host, resource, name)
