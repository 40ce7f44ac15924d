"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31), versions 1 to 3: the entries of the authorizer.

The active controller decides changes. Without an authorizer the answer to all three is SECURITY_DISABLED. A request
with a code of 0 (UNKNOWN) closes the connection, as in Kafka.
"""

from collections.abc import Iterable
from typing import Final

from kraft.broker.api import Answer, RequestContext, Steps, each_step, sorted_steps
from kraft.broker.broker import Broker
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_acls_request import CreateAclsRequest
from kraft.protocol.messages.create_acls_response import AclCreationResult, CreateAclsResponse
from kraft.protocol.messages.delete_acls_request import DeleteAclsRequest
from kraft.protocol.messages.delete_acls_response import DeleteAclsFilterResult, DeleteAclsResponse
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.protocol.messages.describe_acls_response import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kraft.security.acls import NO_AUTHORIZER, Acl, AclFilter
from kraft_native.base.errors import ProtocolError

SEARCHED_STEP: Final = 128
"""Entries that one step inspects."""


def describe_acls(broker: Broker, request: DescribeAclsRequest, _context: RequestContext, answer: Answer) -> Steps:
    """Answer with the entries that the filter selects, by resource pattern."""
    if broker.authorizer is None:
        answer(DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER))
        return
    _check((request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type))
    wanted = AclFilter(request.resource_type_filter, request.pattern_type_filter, request.resource_name_filter,
                       request.principal_filter, request.host_filter, request.operation, request.permission_type)
    found: list[Acl] = []
    if not wanted.is_unknown:
        for number, record in enumerate(broker.image.acls.values()):
            if wanted.matches(acl := Acl.of(record)):
                found.append(acl)
            if number % SEARCHED_STEP == SEARCHED_STEP - 1:
                yield
    resources: list[DescribeAclsResource] = []
    before = None
    for acl in (yield from sorted_steps(found)):
        if acl[:3] != before:
            before = acl[:3]
            resources.append(DescribeAclsResource(resource_type=acl.resource_type, resource_name=acl.resource_name,
                                                  pattern_type=acl.pattern_type))
        resources[-1].acls.append(AclDescription(principal=acl.principal, host=acl.host, operation=acl.operation,
                                                 permission_type=acl.permission_type))
        yield
    answer(DescribeAclsResponse(resources=resources))


def create_acls(broker: Broker, request: CreateAclsRequest, context: RequestContext, answer: Answer) -> Steps:
    """Answer with the controller's results."""
    if broker.authorizer is None:
        results = yield from each_step(
            lambda _: AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER),
            request.creations)
        answer(CreateAclsResponse(results=results))
        return
    for each in request.creations:
        _check((each.resource_type, each.resource_pattern_type, each.operation, each.permission_type))
        yield
    yield from broker.submit_steps(request, context, answer)


def delete_acls(broker: Broker, request: DeleteAclsRequest, context: RequestContext, answer: Answer) -> Steps:
    """Answer with the controller's results."""
    if broker.authorizer is None:
        results = yield from each_step(
            lambda _: DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER),
            request.filters)
        answer(DeleteAclsResponse(filter_results=results))
        return
    for each in request.filters:
        _check((each.resource_type_filter, each.pattern_type_filter, each.operation, each.permission_type))
        yield
    yield from broker.submit_steps(request, context, answer)


def _check(codes: Iterable[int]) -> None:
    if 0 in codes:
        raise ProtocolError("a code of ACLs is 0, UNKNOWN")
