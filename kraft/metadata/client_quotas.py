"""Selection of the quota that applies to a client (KIP-13, KIP-546; Kafka's ClientQuotaManager). Pure.

The most specific one applies: of user and client id, of the user, of the client id, each before the default of its
kind. A quota of a user is shared by all clients of the user, one of a client id by all users of that client id. A
client that was not authenticated is the user ANONYMOUS.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kraft.metadata.image import QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
PRODUCER_RATE: Final = "producer_byte_rate"
CONSUMER_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_RATE: Final = "connection_creation_rate"

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


class Limit(NamedTuple):
    """Quota that applies. `shared`: the entity whose clients share this quota."""

    value: float
    shared: QuotaEntity


def entities_of(user: str, client_id: str) -> list[tuple[QuotaEntity, QuotaEntity]]:
    """Return the entities whose quota may apply to a client, the most specific first, each with the entity that shares
    the quota. Parts are sorted by type."""
    levels: list[tuple[QuotaEntity, QuotaEntity]] = []
    both, own = ((CLIENT_ID, client_id), (USER, user)), ((USER, user),)
    for user_name in (user, None):
        levels += [(((CLIENT_ID, name), (USER, user_name)), both) for name in (client_id, None)]
        levels.append((((USER, user_name),), own))
    alone = ((CLIENT_ID, client_id),)
    return [*levels, *((((CLIENT_ID, name),), alone) for name in (client_id, None))]


def limit_of(quotas: Quotas, levels: list[tuple[QuotaEntity, QuotaEntity]], name: str) -> Limit | None:
    """Return the quota that applies to a client with these `entities_of`; None: no limit. The parts of an entity may be
    in either order. Values that no controller of this version commits (below 0, not a number) limit nothing.

    The cost does not depend on the number of quotas: any client can make others wait for this, by changing quotas."""
    for entity, shared in levels:
        for key in (entity, entity[::-1]):
            value = quotas.get(key, {}).get(name)
            if value is not None and value >= 0:
                return Limit(value, shared)
    return None
