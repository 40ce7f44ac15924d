"""Quotas on partitions that clients create and delete per second (KIP-599; Kafka's ControllerMutationQuotaManager).

Each quota is a bucket that gets its rate in tokens per second and holds at most those of all samples. A request takes
one token per partition, and the last request may take more than the bucket has. Then the bucket stays empty until time
has made up for it:

| request | meanwhile |
|---|---|
| CreateTopics from 6, DeleteTopics from 5, CreatePartitions from 3 | THROTTLING_QUOTA_EXCEEDED for each topic |
| earlier versions | carried out |

Both responses carry the throttle time, and the client gets no service during it. Requests of the nodes themselves are
not limited. Soft state: the next controller begins with full buckets.
"""

from typing import Final

from kraft.controller.decision import RefusedError
from kraft.metadata.client_quotas import MUTATION_RATE, Quotas, entities_of, limit_of
from kraft.metadata.image import QuotaEntity
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.create_partitions_request import CreatePartitionsRequest
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.security.principal import Client
from kraft.structs import mutable

STRICT_SINCE: Final[dict[type[Message], int]] = {
    CreateTopicsRequest: 6, DeleteTopicsRequest: 5, CreatePartitionsRequest: 3}
BUCKETS_MAX: Final = 20_000


@mutable
class _Bucket:
    tokens: float
    filled_ms: int


@mutable
class MutationCharge:
    """Charge of one request. Without a bucket it is unlimited."""

    bucket: _Bucket | None = None
    rate: float = 0.0
    is_strict: bool = False
    throttle_ms: int = 0

    def take(self, partitions: int) -> None:
        """Take tokens. THROTTLING_QUOTA_EXCEEDED when none are left and the request is of a kind that has this
        error."""
        if self.bucket is None:
            return
        if self.is_strict:
            self._check_usage()
            if self.throttle_ms > 0:
                raise RefusedError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self.bucket.tokens -= partitions
        if not self.is_strict:
            self._check_usage()

    def _check_usage(self) -> None:
        assert self.bucket is not None
        self.throttle_ms = round(max(0.0, -self.bucket.tokens) / self.rate * 1000)

    def charge_for(self, response: Message) -> None:
        """Put the throttle time into the response."""
        if self.throttle_ms > 0:
            assert isinstance(response, CreateTopicsResponse | DeleteTopicsResponse | CreatePartitionsResponse)
            response.throttle_time_ms = self.throttle_ms


UNLIMITED: Final = MutationCharge()


class MutationQuotas:
    """Buckets of all quotas. `samples` and `sample_ms` are Kafka's `controller.quota.window.num` and
    `.size.seconds`."""

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._window_seconds = samples * sample_ms / 1000
        self._buckets: dict[QuotaEntity, _Bucket] = {}

    def charge(self, quotas: Quotas, request: Message, version: int, client: Client | None,
               now_ms: int) -> MutationCharge:
        """Return the charge for a request of that client; None: of a node."""
        strict_since = STRICT_SINCE.get(type(request))
        if strict_since is None or client is None:
            return UNLIMITED
        if not quotas:
            return UNLIMITED
        limit = limit_of(quotas, entities_of(client.principal.name, client.client_id), MUTATION_RATE)
        if limit is None or limit.value <= 0:
            return UNLIMITED
        burst = limit.value * self._window_seconds
        bucket = self._buckets.get(limit.shared)
        if bucket is None:
            if len(self._buckets) >= BUCKETS_MAX:
                self._buckets.clear()
            bucket = self._buckets[limit.shared] = _Bucket(burst, now_ms)
        bucket.tokens = min(burst, bucket.tokens + limit.value * max(0, now_ms - bucket.filled_ms) / 1000)
        bucket.filled_ms = max(bucket.filled_ms, now_ms)
        return MutationCharge(bucket, limit.value, version >= strict_since)
