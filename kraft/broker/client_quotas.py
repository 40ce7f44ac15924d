"""Which of the cluster's quotas holds for a client (KIP-13, KIP-546; Kafka's ClientQuotaManager). Sans-IO.

The most specific one: of user and client id, of the user, of the client id, each before the default of its kind. A
quota of a user is shared by all the user's clients, one of a client id by all users of that client id. With security
off everybody is the user ANONYMOUS.
"""

from collections.abc import Mapping
from typing import Final

from kraft.metadata.image import QuotaEntity
from kraft_native.replication_quota import ReplicationQuota

USER: Final = "user"
CLIENT_ID: Final = "client-id"
ANONYMOUS: Final = "ANONYMOUS"
PRODUCER_RATE: Final = "producer_byte_rate"
CONSUMER_RATE: Final = "consumer_byte_rate"
METERS_MAX: Final = 20_000

Quotas = Mapping[QuotaEntity, Mapping[str, float]]


def entities_of(user: str, client_id: str) -> list[tuple[QuotaEntity, QuotaEntity]]:
    """What may have a quota for a client, the most specific first, and who shares that quota; as `_by_type`."""
    levels: list[tuple[QuotaEntity, QuotaEntity]] = []
    both, own = ((CLIENT_ID, client_id), (USER, user)), ((USER, user),)
    for user_name in (user, None):
        levels += [(((CLIENT_ID, name), (USER, user_name)), both) for name in (client_id, None)]
        levels.append((((USER, user_name),), own))
    alone = ((CLIENT_ID, client_id),)
    return [*levels, *((((CLIENT_ID, name),), alone) for name in (client_id, None))]


def _by_type(entity: QuotaEntity) -> QuotaEntity:
    return tuple(sorted(entity, key=lambda part: part[0]))


class ClientRates:
    """The quotas in force and what was counted. `samples` and `sample_ms`: Kafka's `quota.window.num` and
    `.size.seconds`."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._samples = samples
        self._sample_ms = sample_ms
        self._quotas: Quotas = {}
        self._meters: dict[tuple[QuotaEntity, str], ReplicationQuota] = {}

    def update(self, quotas: Quotas) -> bool:
        """These hold from now on; what was counted stays. Whether any of them limits bytes."""
        self._quotas = {_by_type(entity): limits for entity, limits in quotas.items()
                        if PRODUCER_RATE in limits or CONSUMER_RATE in limits}
        return bool(self._quotas)

    def find(self, client_id: bytes) -> tuple[ReplicationQuota | None, ReplicationQuota | None]:
        """Of what a client produces and of what it fetches; None: nothing limits it."""
        levels = entities_of(ANONYMOUS, client_id.decode("utf-8", "replace"))
        return self._meter(levels, PRODUCER_RATE), self._meter(levels, CONSUMER_RATE)

    def _meter(self, levels: list[tuple[QuotaEntity, QuotaEntity]], name: str) -> ReplicationQuota | None:
        for entity, shared in levels:
            rate = self._quotas.get(entity, {}).get(name)
            if rate is None:
                continue
            meter = self._meters.get((shared, name))
            if meter is None:
                if len(self._meters) >= METERS_MAX:
                    self._meters.clear()
                meter = self._meters[shared, name] = ReplicationQuota(samples=self._samples, sample_ms=self._sample_ms)
            meter.set_rate(int(rate))
            return meter
        return None
