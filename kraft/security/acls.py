"""Access control entries (ACLs) with Kafka's codes, and filters that select them.

An entry allows or denies one operation to one principal from one host. It is about the resources of one type that its
pattern selects: one name, all names with a prefix, or all names (`*`).
"""

from enum import IntEnum
from typing import Final, NamedTuple, Self

from kraft.protocol.messages.access_control_entry_record import AccessControlEntryRecord


class Operation(IntEnum):
    """Use of a resource by a client (Kafka's AclOperation)."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """Kind of a resource (Kafka's ResourceType)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """Way in which a name selects resources (Kafka's PatternType). MATCH is one of filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class PermissionType(IntEnum):
    """Effect of an entry (Kafka's AclPermissionType)."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME: Final = "kafka-cluster"
"""Name of the only resource of the type CLUSTER."""
WILDCARD: Final = "*"
"""Every name, where a literal pattern has it; every host."""
NO_AUTHORIZER: Final = "no authorizer is configured"
"""Text of SECURITY_DISABLED, the answer to requests about entries where nothing uses them."""
EVERY_USER: Final = "User:*"
"""Principal of an entry that applies to every principal, of any kind."""


class Acl(NamedTuple):
    """An entry: its codes are Kafka's. A record may have others, of a later release."""

    resource_type: int
    pattern_type: int
    resource_name: str
    principal: str
    host: str
    operation: int
    permission_type: int

    @classmethod
    def of(cls, record: AccessControlEntryRecord) -> Self:
        """Return the entry of a record."""
        return cls(record.resource_type, record.pattern_type, record.resource_name, record.principal, record.host,
                   record.operation, record.permission_type)

    def __str__(self) -> str:
        return (f"{name_of(PermissionType, self.permission_type)} {self.principal} from {self.host} "
                f"{name_of(Operation, self.operation)} on {name_of(ResourceType, self.resource_type)} "
                f"{self.resource_name} ({name_of(PatternType, self.pattern_type)})")


class AclFilter(NamedTuple):
    """Selection of entries. ANY and None accept everything.

    With the pattern type MATCH the name is that of a resource: the filter selects each entry that applies to it.
    """

    resource_type: int = ResourceType.ANY
    pattern_type: int = PatternType.ANY
    resource_name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission_type: int = PermissionType.ANY

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter selects the entry."""
        return (self.resource_type in (ResourceType.ANY, acl.resource_type)
                and self.principal in (None, acl.principal)
                and self.host in (None, acl.host)
                and self.operation in (Operation.ANY, acl.operation)
                and self.permission_type in (PermissionType.ANY, acl.permission_type)
                and self._matches_pattern(acl))

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None:
            return True
        if self.pattern_type == PatternType.MATCH:
            return applies_to(acl, self.resource_name)
        return self.resource_name == acl.resource_name

    def only_entry(self) -> Acl | None:
        """Return the only entry that the filter can select; None when there may be several."""
        if (self.resource_name is None or self.principal is None or self.host is None
                or self.resource_type == ResourceType.ANY or self.operation == Operation.ANY
                or self.permission_type == PermissionType.ANY
                or self.pattern_type in (PatternType.ANY, PatternType.MATCH)):
            return None
        return Acl(self.resource_type, self.pattern_type, self.resource_name, self.principal, self.host,
                   self.operation, self.permission_type)

    @property
    def is_unknown(self) -> bool:
        """Return whether a code is none that a filter can have."""
        return (not ResourceType.ANY <= self.resource_type <= ResourceType.USER
                or not PatternType.ANY <= self.pattern_type <= PatternType.PREFIXED
                or not Operation.ANY <= self.operation <= Operation.TWO_PHASE_COMMIT
                or not PermissionType.ANY <= self.permission_type <= PermissionType.ALLOW)


def applies_to(acl: Acl, name: str) -> bool:
    """Return whether the entry's pattern selects the resource of that name, if it has the entry's type."""
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.pattern_type == PatternType.LITERAL and acl.resource_name in (name, WILDCARD)


def name_of(kind: type[IntEnum], code: int) -> str:
    """Return the name of a code, or the number where it has none."""
    try:
        return kind(code).name
    except ValueError:
        return str(code)
