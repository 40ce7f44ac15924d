"""CreateAcls and DeleteAcls: entries of the authorizer, as records of the metadata log (Kafka's AclControlManager).

Each entry, and each filter, has its own result. Those that are accepted take effect together.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from kraft.controller.decision import RECORDS_PER_DECISION_MAX, Context, Decision, RefusedError, text_of
from kraft.metadata.snapshot import Record
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.delete_acls_response import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsResponse,
)
from kraft.protocol.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kraft.security.acls import (
    CLUSTER_NAME,
    NO_AUTHORIZER,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    ResourceType,
    name_of,
)

COMPARISONS_MAX: Final = 500_000
"""Comparisons of entries with filters for one request, half a second of work; at least one pass over all entries is
allowed. Other decisions wait for it."""
TEXT_BYTES_MAX: Final = 32_767
"""Longest text of a record in Kafka's classes."""

Creating = Generator[None, None, Decision[CreateAclsResponse]]
Deleting = Generator[None, None, Decision[DeleteAclsResponse]]


def create_acls(context: Context, request: CreateAclsRequest) -> Creating:
    """Create the entries that do not exist. One that exists is a success without a record."""
    _need_authorizer(context)
    records: dict[Acl, Record] = {}
    results: list[AclCreationResult] = []
    for number, creation in enumerate(request.creations):
        if number % context.settings.step == context.settings.step - 1:
            yield
        acl = _entry(creation)
        fault = _fault(acl)
        if fault is not None:
            results.append(_created(ErrorCode.INVALID_REQUEST, fault))
            continue
        if acl not in records and acl not in context.image.acl_ids:
            records[acl] = Record(AccessControlEntryRecord(id=context.new_id(), **acl._asdict()))
        results.append(AclCreationResult())
    return Decision(CreateAclsResponse(results=results), list(records.values()))


def create_acls_refused(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_created(code, message) for _ in request.creations])


def delete_acls(context: Context, request: DeleteAclsRequest) -> Deleting:
    """Delete the entries that each filter selects. An entry that several filters select is a result of each."""
    _need_authorizer(context)
    filters = [_filter(each) for each in request.filters]
    searched = _Search(each for each in dict.fromkeys(filters) if not each.is_unknown)
    yield from searched.run(context)
    records: dict[UUID, Record] = {}
    results: list[DeleteAclsFilterResult] = []
    for number, each in enumerate(filters):
        if number % context.settings.step == context.settings.step - 1:
            yield
        try:
            found = searched.found(each)
            records.update((yield from _removals(context, found, records)))
        except RefusedError as refusal:
            results.append(_deleted(refusal.error, refusal.message))
            continue
        matching = yield from _matching(context, found)
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
    return Decision(DeleteAclsResponse(filter_results=results), list(records.values()))


def delete_acls_refused(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(filter_results=[_deleted(code, message) for _ in request.filters])


def _removals(context: Context, found: Sequence[UUID], records: Mapping[UUID, Record]
              ) -> Generator[None, None, dict[UUID, Record]]:
    """Return the records that are needed beside those of the other filters."""
    more: dict[UUID, Record] = {}
    for number, key in enumerate(found):
        if number % context.settings.step == context.settings.step - 1:
            yield
        if key not in records:
            more[key] = Record(RemoveAccessControlEntryRecord(id=key))
            if len(records) + len(more) > RECORDS_PER_DECISION_MAX:
                raise RefusedError(ErrorCode.POLICY_VIOLATION, f"Cannot remove more than {RECORDS_PER_DECISION_MAX} "
                                   "acls in a single delete operation.")
    return more


def _need_authorizer(context: Context) -> None:
    if not context.settings.has_authorizer:
        raise RefusedError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def _created(code: ErrorCode, message: str | None) -> AclCreationResult:
    return AclCreationResult(error_code=code, error_message=text_of(code, message))


def _deleted(code: ErrorCode, message: str | None) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code, error_message=text_of(code, message))


def _entry(creation: AclCreation) -> Acl:
    return Acl(creation.resource_type, creation.resource_pattern_type, creation.resource_name, creation.principal,
               creation.host, creation.operation, creation.permission_type)


def _filter(each: DeleteAclsFilter) -> AclFilter:
    return AclFilter(each.resource_type_filter, each.pattern_type_filter, each.resource_name_filter,
                     each.principal_filter, each.host_filter, each.operation, each.permission_type)


def _fault(acl: Acl) -> str | None:
    """Return what is wrong with a new entry; None when nothing is."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Resource name should not be empty"
    if not ResourceType.TOPIC <= acl.resource_type <= ResourceType.USER:
        return f"Invalid resourceType {name_of(ResourceType, acl.resource_type)}"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {name_of(PatternType, acl.pattern_type)}"
    if not Operation.ALL <= acl.operation <= Operation.TWO_PHASE_COMMIT:
        return f"Invalid operation {name_of(Operation, acl.operation)}"
    if acl.permission_type not in (PermissionType.DENY, PermissionType.ALLOW):
        return f"Invalid permissionType {name_of(PermissionType, acl.permission_type)}"
    kind, colon, name = acl.principal.partition(":")
    if not (kind and colon and name):
        return f"the principal {acl.principal!r} is not KIND:NAME, such as User:alice"
    if not acl.host:
        return "the host is empty; * is every host"
    if max(len(each.encode()) for each in (acl.resource_name, acl.principal, acl.host)) > TEXT_BYTES_MAX:
        return f"a name of an entry is longer than {TEXT_BYTES_MAX} bytes"
    return None


class _Search:
    """Entries that filters select, found in one pass over all entries. A filter of one exact entry needs no pass."""

    def __init__(self, filters: Iterable[AclFilter]) -> None:
        self._found: dict[AclFilter, list[UUID]] = {}
        self._refused: dict[AclFilter, RefusedError] = {}
        self._exact: list[tuple[AclFilter, Acl]] = []
        self._by_name: dict[str, list[AclFilter]] = {}
        self._by_principal: dict[str, list[AclFilter]] = {}
        self._others: list[AclFilter] = []
        for each in filters:
            self._found[each] = []
            if (acl := each.only_entry()) is not None:
                self._exact.append((each, acl))
            elif each.resource_name is not None and each.pattern_type != PatternType.MATCH:
                self._by_name.setdefault(each.resource_name, []).append(each)
            elif each.principal is not None:
                self._by_principal.setdefault(each.principal, []).append(each)
            else:
                self._others.append(each)

    def run(self, context: Context) -> Generator[None]:
        """Find the entries."""
        image, step = context.image, context.settings.step
        for number, (each, acl) in enumerate(self._exact):
            key = image.acl_ids.get(acl)
            if key is not None:
                self._found[each].append(key)
            if number % step == step - 1:
                yield
        if not (self._by_name or self._by_principal or self._others):
            return
        allowed = max(1, COMPARISONS_MAX // max(1, len(image.acls)))
        for each in self._others[allowed:]:
            self._refused[each] = RefusedError(
                ErrorCode.POLICY_VIOLATION, f"one request may have {allowed} filters without a name and a principal")
        del self._others[allowed:]
        seen = 0
        for key, record in image.acls.items():
            acl = Acl.of(record)
            for filters in (self._by_name.get(acl.resource_name, ()), self._by_principal.get(acl.principal, ()),
                            self._others):
                for each in filters:
                    if each.matches(acl):
                        self._found[each].append(key)
                    seen += 1
            seen += 1
            if seen >= step:
                seen = 0
                yield

    def found(self, each: AclFilter) -> Sequence[UUID]:
        """Return the ids of the entries that the filter selects. Raises `RefusedError`."""
        if each.is_unknown:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "Unknown filter.")
        if each in self._refused:
            raise self._refused[each]
        return self._found[each]


def _matching(context: Context, found: Sequence[UUID]) -> Generator[None, None, list[DeleteAclsMatchingAcl]]:
    matching = []
    for number, key in enumerate(found):
        if number % context.settings.step == context.settings.step - 1:
            yield
        acl = Acl.of(context.image.acls[key])
        matching.append(DeleteAclsMatchingAcl(error_message=None, **acl._asdict()))
    return matching
