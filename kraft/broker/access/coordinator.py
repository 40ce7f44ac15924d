"""FindCoordinator: the permission follows from the type of the keys."""

from typing import Final

from kraft.broker.access.rules import Call, Check, Elements
from kraft.broker.access.serving import serve_elements
from kraft.broker.api import Steps
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.security.acls import Operation, ResourceType

FIRST_BATCH_VERSION: Final = 4
FIRST_SHARE_VERSION: Final = 6
SHARE_GROUPS: Final = 2
GROUP: Final = Check(Operation.DESCRIBE, ResourceType.GROUP, "coordinator_keys", "of a group; `key` below version 4")
TRANSACTION: Final = Check(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "coordinator_keys",
                           "of a transaction; `key` below version 4")
SHARE: Final = Check(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, remark="of a share group")
CHECKS: Final = (GROUP, TRANSACTION, SHARE)
BY_TYPE: Final = {0: GROUP, 1: TRANSACTION}


def check_of(call: Call, _key: str) -> Check | None:
    """Return the check of the request's keys; None for a type that the handler refuses."""
    if call.request.key_type == SHARE_GROUPS:
        return SHARE if call.version >= FIRST_SHARE_VERSION else None
    return BY_TYPE.get(call.request.key_type)


def find(rule: Elements, call: Call) -> Steps | None:
    """Find the coordinators of the keys that the client may describe."""
    if call.version >= FIRST_BATCH_VERSION:
        return serve_elements(rule, call)
    request = call.request
    check = check_of(call, request.key)
    if check is None or call.access.may(check.operation, check.resource, request.key):
        return call.serve(request, call.answer)
    call.answer(FindCoordinatorResponse(error_code=check.error, error_message=check.error.message, node_id=-1,
                                        host="", port=-1))
    return None
