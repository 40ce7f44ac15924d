"""ACLs of a cluster: listed, created and deleted."""

from collections.abc import Iterable, Sequence
from typing import Final

from kraft.client.cluster import Cluster
from kraft.client.refusals import check
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_acls_response import CreateAclsResponse
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.delete_acls_response import DeleteAclsResponse
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.protocol.messages.describe_acls_response import DescribeAclsResponse
from kraft.security.acls import Acl, AclFilter

SENT_AT_ONCE: Final = 1_000
"""Entries of one request. They take effect together."""
EVERY_ACL: Final = AclFilter()


def list_acls(cluster: Cluster, wanted: AclFilter = EVERY_ACL) -> list[Acl]:
    """Return the entries that the filter selects, sorted. `RefusedError` states a refusal."""
    answer = cluster.send(DescribeAclsRequest(
        resource_type_filter=wanted.resource_type, resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type, principal_filter=wanted.principal, host_filter=wanted.host,
        operation=wanted.operation, permission_type=wanted.permission_type), DescribeAclsResponse)
    check("ACLs", answer.error_code, answer.error_message)
    return sorted(Acl(resource.resource_type, resource.pattern_type, resource.resource_name, each.principal, each.host,
                      each.operation, each.permission_type)
                  for resource in answer.resources for each in resource.acls)


def create_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Create entries; those that exist stay. `RefusedError` names the first one that is refused, others may be created
    then."""
    for start in range(0, len(acls), SENT_AT_ONCE):
        part = acls[start:start + SENT_AT_ONCE]
        answer = cluster.send(CreateAclsRequest(creations=[AclCreation(
            resource_type=each.resource_type, resource_name=each.resource_name,
            resource_pattern_type=each.pattern_type, principal=each.principal, host=each.host,
            operation=each.operation, permission_type=each.permission_type) for each in part]), CreateAclsResponse)
        for each, result in zip(part, answer.results, strict=True):
            check(f"ACL {each}", result.error_code, result.error_message)


def delete_acls(cluster: Cluster, filters: Iterable[AclFilter]) -> list[Acl]:
    """Delete the entries that any of the filters selects, and return them, sorted. `RefusedError` states a refusal."""
    answer = cluster.send(DeleteAclsRequest(filters=[DeleteAclsFilter(
        resource_type_filter=each.resource_type, resource_name_filter=each.resource_name,
        pattern_type_filter=each.pattern_type, principal_filter=each.principal, host_filter=each.host,
        operation=each.operation, permission_type=each.permission_type) for each in filters]), DeleteAclsResponse)
    found: dict[Acl, None] = {}
    for result in answer.filter_results:
        check("ACLs", result.error_code, result.error_message)
        for each in result.matching_acls:
            check("ACLs", each.error_code, each.error_message)
            found[Acl(each.resource_type, each.pattern_type, each.resource_name, each.principal, each.host,
                      each.operation, each.permission_type)] = None
    return sorted(found)
