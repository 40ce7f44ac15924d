"""AlterClientQuotas: limits of users, clients and addresses (KIP-546), kept as ClientQuotaRecords.

An entity is a set of (type, name): users and client ids, alone or together, or an address. The name None is the default
for all that have no entity of their own.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from kraft.controller.decision import Context, Decision, RefusedError, text_of
from kraft.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_RATE,
    CONSUMER_RATE,
    IP,
    MUTATION_RATE,
    PRODUCER_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from kraft.metadata.snapshot import Record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import client_quota_record as record_file
from kraft.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntryData, OpData
from kraft.protocol.messages.alter_client_quotas_response import (
    AlterClientQuotasResponse,
    EntityData,
)
from kraft.protocol.messages.alter_client_quotas_response import EntryData as AnswerEntry
from kraft.protocol.messages.client_quota_record import ClientQuotaRecord

# Maximum of each limit, and whether it must be whole.
_LONG: Final = (float(2**63 - 1), True)
_INT: Final = (float(2**31 - 1), True)
_DOUBLE: Final = (float("inf"), False)
USER_AND_CLIENT_LIMITS: Final[Mapping[str, tuple[float, bool]]] = {
    PRODUCER_RATE: _LONG, CONSUMER_RATE: _LONG, REQUEST_PERCENTAGE: _DOUBLE, MUTATION_RATE: _DOUBLE}
IP_LIMITS: Final[Mapping[str, tuple[float, bool]]] = {CONNECTION_RATE: _INT}
_FRACTION_MAX: Final = 1e-6


def alter_client_quotas(context: Context, request: AlterClientQuotasRequest) -> Decision[AlterClientQuotasResponse]:
    """Set each entity's limits, all or none of them. With `validate_only` the answer is the same and nothing is set."""
    entities = [_entity(entry) for entry in request.entries]
    keys = [tuple(sorted(entity.items())) for entity in entities]
    counts = Counter(keys)
    records: list[Record] = []
    answers: list[AnswerEntry] = []
    for entry, entity, key in zip(request.entries, entities, keys, strict=True):
        code, message = ErrorCode.NONE, None
        try:
            # Kafka may have written the two parts of an entity in the other order.
            current = context.image.quotas.get(key) or context.image.quotas.get(key[::-1]) or {}
            records += _alter(current, entity, entry.ops, twice=counts[key] > 1)
        except RefusedError as refusal:
            code, message = refusal.error, refusal.message
        answers.append(_answer(entry, code, message))
    return Decision(AlterClientQuotasResponse(entries=answers), () if request.validate_only else records)


def alter_client_quotas_refused(
    request: AlterClientQuotasRequest, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(entries=[_answer(entry, code, message) for entry in request.entries])


def _answer(entry: EntryData, code: ErrorCode, message: str | None) -> AnswerEntry:
    return AnswerEntry(error_code=code, error_message=text_of(code, message), entity=[
        EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity])


def _entity(entry: EntryData) -> dict[str, str | None]:
    return {part.entity_type: part.entity_name for part in entry.entity}


def _alter(
    current: Mapping[str, float], entity: Mapping[str, str | None], operations: Iterable[OpData], *, twice: bool
) -> list[Record]:
    if twice:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "the entity is named more than once")
    allowed = _limits_of(entity)
    records: list[Record] = []
    named: dict[str, None] = {}
    for operation in operations:
        if operation.key in named:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{operation.key} is named more than once")
        named[operation.key] = None
        if operation.remove:
            if operation.key in current:
                records.append(_record(entity, operation.key, 0.0, remove=True))
            continue
        _check(allowed, operation.key, operation.value)
        if current.get(operation.key) != operation.value:
            records.append(_record(entity, operation.key, operation.value, remove=False))
    return records


def _record(entity: Mapping[str, str | None], key: str, value: float, *, remove: bool) -> Record:
    # By type, so that one entity is one key of the image.
    parts = [record_file.EntityData(entity_type=kind, entity_name=entity[kind]) for kind in sorted(entity)]
    return Record(ClientQuotaRecord(entity=parts, key=key, value=value, remove=remove))


def _limits_of(entity: Mapping[str, str | None]) -> Mapping[str, tuple[float, bool]]:
    """Return the limits that an entity may have; INVALID_REQUEST for an invalid entity."""
    if not entity:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "an entity without a user, client id or address")
    unnamed = [kind for kind, name in entity.items() if name == ""]
    if unnamed:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"the name of a {unnamed[0]} is empty")
    unknown = [kind for kind in entity if kind not in (USER, CLIENT_ID, IP)]
    if unknown:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"entity type {unknown[0]!r} is not {USER}, {CLIENT_ID} or {IP}")
    if IP not in entity:
        return USER_AND_CLIENT_LIMITS
    if len(entity) > 1:
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Invalid quota entity combination: an IP address goes "
                           "with no user and no client id")
    name = entity[IP]
    if name is not None:
        try:
            ipaddress.ip_address(name)
        except ValueError:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{name!r} is not a valid IP") from None
    return IP_LIMITS


def _check(allowed: Mapping[str, tuple[float, bool]], key: str, value: float) -> None:
    if key not in allowed:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{key!r} is not one of {', '.join(allowed)}")
    highest, whole = allowed[key]
    if not 0 < value <= highest:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{key}: {value} is not above 0 and at most {highest:g}")
    if whole and value % 1.0 > _FRACTION_MAX:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"{key}: {value} is not a whole number")
