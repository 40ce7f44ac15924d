"""Interface between the enforcement of permissions and the audit.

`Access` collects the decisions about one request; a handler may make several and need only one of them. Whether the
client was refused is known by the answer. So the audit watches the answer, and reports the collected decisions whose
error is in it.
"""

from collections.abc import Callable
from typing import Final, Protocol

from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.security.access import Access
from kraft.security.acls import ResourceType
from kraft.security.principal import Client

Answer = Callable[[Message], None]

ERROR_OF: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""Kafka's error for a missing permission on each type of resource."""


class AccessAudit(Protocol):
    """The audit as the enforcement of permissions sees it."""

    def watch(self, access: Access, request: Message, version: int, client: Client, listener: str,
              answer: Answer) -> Answer:
        """Collect the decisions about a request, and return what gets its answer in place of `answer`."""
