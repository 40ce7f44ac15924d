"""Decisions about clients: may a principal from a host do an operation on a resource (Kafka's StandardAuthorizer).

    authorizer = authorizer_of(config.values)        # None: everything is allowed
    authorizer.load(image)
    authorizer.changed(delta)                        # with each committed change
    authorizer.allows(principal, host, Operation.READ, ResourceType.TOPIC, "orders")

Super users may do everything. Others may not before the entries are loaded. Then an entry that denies wins over all
that allow; without any that allows, the operation is denied. With `allow.everyone.if.no.acl.found` a resource that no
entry of any principal selects is open to everyone.

All decisions until the next change use one table: no reader sees part of a change.
"""

from collections.abc import Callable, Generator, Mapping
from copy import copy
from typing import Final

from kraft.config.authorizer_settings import AuthorizerSettings, authorizer_settings
from kraft.config.setting import Value
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import MetadataImage
from kraft.security.acl_patterns import EVERY_OPERATION, host_name
from kraft.security.acl_table import AclTable
from kraft.security.acls import EVERY_USER, Acl, Operation, ResourceType
from kraft.security.principal import Principal
from kraft.steps import finish
from kraft_native.request.permissions import PermissionCache

ANY_RESOURCE: Final = "hardcode"
"""Name of a resource that stands for all without entries of their own, as in Kafka."""


def _bits(*operations: Operation) -> int:
    return sum(1 << each for each in operations)


OPERATIONS_OF: Final[Mapping[ResourceType, int]] = {
    ResourceType.TOPIC: _bits(Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE, Operation.ALTER,
                              Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
    ResourceType.GROUP: _bits(Operation.READ, Operation.DELETE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS,
                              Operation.ALTER_CONFIGS),
    ResourceType.CLUSTER: _bits(Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION,
                                Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.IDEMPOTENT_WRITE),
    ResourceType.TRANSACTIONAL_ID: _bits(Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: _bits(Operation.DESCRIBE),
    ResourceType.USER: _bits(Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""Bits of the operations that each type of resource has."""


class Authorizer:
    """Authorizer of one process. Loop thread only.

    `version` rises with each change of the entries: a decision may be kept as long as it stays.
    """

    def __init__(self, settings: AuthorizerSettings) -> None:
        self.settings = settings
        self.is_loaded = False
        """True when all committed entries are known. Until then everything is denied but to super users."""
        self.table = self._empty()
        self.version = 0
        self.on_loaded: Callable[[], None] | None = None
        """Called once all committed entries are known."""
        self._now: Authorizer | None = None
        self.permissions = PermissionCache(self.rights, self._basis)
        """Decisions for compiled code."""

    def load(self, image: MetadataImage, *, is_complete: bool = True) -> None:
        """Decide by the entries of an image from now on. One that is not complete may miss committed entries."""
        self.is_loaded = is_complete
        self._replace(self._empty().changed((), map(Acl.of, image.acls.values())))

    def changed(self, delta: MetadataDelta) -> None:
        """Apply a committed change."""
        finish(self.changed_steps(delta))

    def changed_steps(self, delta: MetadataDelta) -> Generator[None]:
        """Apply a committed change in steps; it takes effect with the last one. No other change may begin before."""
        before, after = delta.acls.before, delta.acls.now
        touched = delta.acls.touched
        if touched:
            self._replace((yield from self.table.changed_steps(
                (Acl.of(before[key]) for key in touched if key in before),
                (Acl.of(after[key]) for key in touched if key in after))))

    def _empty(self) -> AclTable:
        return AclTable(tracks_patterns=self.settings.allow_everyone)

    def complete(self) -> None:
        """Note that all committed entries are known."""
        if not self.is_loaded:
            self.is_loaded = True
            self._replace(self.table)
            if self.on_loaded is not None:
                self.on_loaded()

    def _replace(self, table: AclTable) -> None:
        self.table = table
        self.version += 1
        self.permissions.changed()

    def _basis(self, principal: Principal) -> tuple[object, ...]:
        """Return the objects from which decisions about a principal follow."""
        return (self.is_loaded, self.table.of_principal(str(principal)), self.table.of_principal(EVERY_USER),
                self.table.patterns if self.settings.allow_everyone else None)

    def now(self) -> "Authorizer":
        """Return the decisions by the entries of this moment, which no later change affects: one request may be checked
        over a while."""
        now = self._now
        if now is None or now.version != self.version:
            now = copy(self)
            now._now, self._now = None, now
        return now

    def is_super_user(self, principal: Principal) -> bool:
        """Return whether the principal may do everything."""
        return str(principal) in self.settings.super_users

    def allows(self, principal: Principal, host: str, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Return whether a client may do one operation on the resource of that name. `host` is its address, without a
        port. The resource of the type CLUSTER has the name `kafka-cluster`."""
        return bool(self.rights(principal, host, resource, name) >> operation & 1)

    def allows_any_name(self, principal: Principal, host: str, operation: Operation, resource: ResourceType) -> bool:
        """Return whether a client may do the operation on at least one resource of the type, which need not exist
        (Kafka's authorizeByResourceType)."""
        if self.allows(principal, host, operation, resource, ANY_RESOURCE):
            return True
        return self.is_loaded and self.table.allows_any_name(str(principal), host_name(host), operation, resource)

    def allowed_operations(self, principal: Principal, host: str, resource: ResourceType, name: str) -> int:
        """Return the operations that a client may do on a resource, as the bit set of responses with authorized
        operations: those that the type has, each at its code."""
        return self.rights(principal, host, resource, name) & OPERATIONS_OF[resource]

    def rights(self, principal: Principal, host: str, resource: int, name: str) -> int:
        """Return the bits of all operations that a client may do on a resource."""
        text = str(principal)
        if text in self.settings.super_users:
            return EVERY_OPERATION
        if not self.is_loaded:
            return 0
        allowed, denied = self.table.rights(text, host_name(host), resource, name)
        if not allowed and not denied and self.settings.allow_everyone and not self.table.selects(resource, name):
            return EVERY_OPERATION
        return allowed & ~denied


def authorizer_of(values: Mapping[str, Value]) -> Authorizer | None:
    """Return the authorizer that a node's settings name; None where they name none."""
    settings = authorizer_settings(values)
    return None if settings is None else Authorizer(settings)
