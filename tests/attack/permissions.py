"""An attacked node with an authorizer: its settings, and entries that allow the attacker everything.

The attacker has no login, as the other clients. The node is open where no entry is, so that the entries can be created
again after an attack that has deleted all of them.
"""

from typing import Final

from kraft.client import Cluster
from kraft.client.acls import create_acls
from kraft.config.authorizer_settings import ALLOW_EVERYONE, CLASS, STANDARD_AUTHORIZER
from kraft.security.acls import CLUSTER_NAME, WILDCARD, Acl, Operation, PatternType, PermissionType, ResourceType
from kraft.security.principal import ANONYMOUS

SETTINGS: Final = {CLASS: STANDARD_AUTHORIZER, ALLOW_EVERYONE: "true"}
EVERYWHERE: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID,
                     ResourceType.DELEGATION_TOKEN, ResourceType.USER)


def acl(resource_type: int, pattern_type: int, name: str, operation: int = Operation.ALL) -> Acl:
    """Return an entry that allows the attacker something."""
    return Acl(resource_type, pattern_type, name, str(ANONYMOUS), WILDCARD, operation, PermissionType.ALLOW)


def entries(count: int) -> list[Acl]:
    """Return `count` entries for topics with other names, and those that allow everything everywhere."""
    found = [acl(ResourceType.TOPIC, PatternType.PREFIXED if number % 2 else PatternType.LITERAL, f"{number:x}-other",
                 Operation.READ) for number in range(count)]
    found += [acl(each, PatternType.LITERAL, WILDCARD) for each in EVERYWHERE]
    return [*found, acl(ResourceType.CLUSTER, PatternType.LITERAL, CLUSTER_NAME)]


def allow(address: str, count: int) -> None:
    """Create the entries that a node does not have."""
    with Cluster(address) as cluster:
        create_acls(cluster, entries(count))
