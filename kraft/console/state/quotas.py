"""Client quotas of a cluster (KIP-546)."""

from typing import NamedTuple

from kraft.client import Cluster
from kraft.client.refusals import check
from kraft.protocol.messages.describe_client_quotas_request import DescribeClientQuotasRequest
from kraft.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse

DEFAULT = "<default>"


class Quota(NamedTuple):
    """Limits of one entity. `entity`: pairs of kind and name, such as user and alice."""

    entity: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, float], ...]


def quotas(cluster: Cluster) -> list[Quota]:
    """Return all quotas, sorted by entity. `RefusedError` states a refusal."""
    answer = cluster.send(DescribeClientQuotasRequest(components=[]), DescribeClientQuotasResponse)
    check("quotas", answer.error_code, answer.error_message)
    return sorted(Quota(
        tuple(sorted((each.entity_type, DEFAULT if each.entity_name is None else each.entity_name)
                     for each in entry.entity)),
        tuple(sorted((each.key, each.value) for each in entry.values))) for entry in answer.entries or ())
