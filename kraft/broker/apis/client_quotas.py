"""DescribeClientQuotas (key 48), versions 0 to 1: the limits of users, clients and addresses that match a filter."""

from typing import Final, NamedTuple

from kraft.broker.api import Answer, RequestContext, Steps
from kraft.broker.broker import Broker
from kraft.metadata.image import QuotaEntity
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.error_names import bounded
from kraft.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from kraft.protocol.messages.describe_client_quotas_response import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

TYPES: Final = ("user", "client-id", "ip")
# Ways in which a component matches an entity's name.
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


class _Refused(NamedTuple):
    code: ErrorCode
    message: str


def describe_client_quotas(broker: Broker, request: DescribeClientQuotasRequest, _context: RequestContext,
                           answer: Answer) -> Steps:
    """Answer with the matching entities. `strict` excludes entities that have types outside the filter."""
    refused = _refusal(request.components)
    if refused is not None:
        answer(DescribeClientQuotasResponse(error_code=refused.code, error_message=bounded(refused.message),
                                            entries=None))
        return
    entries = []
    for entity, limits in broker.image.quotas.items():
        if _matches(entity, request.components, strict=request.strict):
            entries.append(EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in limits.items()]))
        yield
    answer(DescribeClientQuotasResponse(error_message=None, entries=entries))


def _refusal(components: list[ComponentData]) -> _Refused | None:
    components = components[:len(TYPES) + 1]           # a longer list has a fault within these: all types are unique
    kinds = [each.entity_type for each in components]
    for each in components:
        if not each.entity_type:
            return _Refused(ErrorCode.INVALID_REQUEST, "a filter component without an entity type")
        if kinds.count(each.entity_type) > 1:
            return _Refused(ErrorCode.INVALID_REQUEST, f"entity type {each.entity_type} is given more than once")
        if each.entity_type not in TYPES:
            return _Refused(ErrorCode.UNSUPPORTED_VERSION, f"entity type {each.entity_type!r} is not known")
        if each.match_type not in (EXACT, DEFAULT, SPECIFIED):
            return _Refused(ErrorCode.INVALID_REQUEST, f"match type {each.match_type} is not known")
        if (each.match_type == EXACT) != (each.match is not None):
            return _Refused(ErrorCode.INVALID_REQUEST, "a name goes with an exact match, and with no other")
    if "ip" in kinds and len(kinds) > 1:
        return _Refused(ErrorCode.INVALID_REQUEST, "Invalid entity filter component combination: an IP address goes "
                        "with no user and no client id")
    return None


def _matches(entity: QuotaEntity, components: list[ComponentData], *, strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(components):
        return False
    return all(each.entity_type in names and (each.match_type == SPECIFIED or names[each.entity_type] == each.match)
               for each in components)
