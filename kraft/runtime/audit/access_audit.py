"""Denials by ACLs, as events and in the node's log.

The logger has Kafka's name, `kafka.authorizer.logger`: denials at INFO, permissions at DEBUG. Its level is that of the
other loggers until a client changes it (KIP-412). Denials are logged at a bounded rate.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Generator
from typing import Final
from uuid import UUID

from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.ids import id_text
from kraft.protocol.message import Message
from kraft.protocol.response_errors import count_errors
from kraft.runtime.audit.node_audit import NodeAudit, origin_of
from kraft.runtime.base.bounded_log import BoundedLog
from kraft.security.access import Access, Decided
from kraft.security.acls import CLUSTER_NAME, Operation, ResourceType
from kraft.security.audit.event import Origin
from kraft.security.audit.resources import FindTopic, Named, Requested, acl_kind
from kraft.security.audit.sink import ERROR_OF, Answer
from kraft.security.principal import Client
from kraft_native.base.wire_steps import short_codes
from kraft_native.request.reply import Reply

log = logging.getLogger("kafka.authorizer.logger")

SHORT_ELEMENTS: Final = 64
LOGGED_PER_SECOND: Final = 10
LINE: Final = "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s"
RunSteps = Callable[[int, Generator[None, None, None]], object]


class WatchedAccess:
    """See `AccessAudit`. `run_steps` runs steps that outlive the request whose answer they read; it gets the API key,
    too."""

    def __init__(self, audit: NodeAudit, clock_ms: Callable[[], int], run_steps: RunSteps) -> None:
        self._audit = audit
        self._run_steps = run_steps
        self._log = BoundedLog(log, clock_ms, period_ms=1000, lines_max=LOGGED_PER_SECOND, level=logging.INFO,
                               omitted="%d more denials are not logged")

    @property
    def _reports_denials(self) -> bool:
        return self._audit.audits_denials or log.isEnabledFor(logging.INFO)

    def watch(self, access: Access, request: Message, version: int, client: Client, listener: str,
              answer: Answer) -> Answer:
        """See `AccessAudit`."""
        if not self._reports_denials:
            return answer
        access.notes = []
        origin = Origin(client.principal, client.host, 0, client.client_id, listener)

        def answered(response: Message) -> None:
            if access.notes:
                self._report(access.notes, request.API_KEY, version, origin, response)
            answer(response)

        return answered

    def refused(self, find: FindTopic, reply: Reply, resource_type: int, operation: int, name: bytes,
                by_id: bool) -> None:
        """Report a denial of a Produce or a Fetch (`PermissionCache.on_refused`)."""
        if not self._reports_denials:
            return
        if resource_type == ResourceType.CLUSTER:
            text = CLUSTER_NAME
        elif by_id:
            text = find(UUID(bytes=name)) or id_text(UUID(bytes=name))
        else:
            text = name.decode(errors="replace")
        listener = getattr(getattr(reply.sink, "channel", None), "name", "")
        self.denied(origin_of(reply, listener), reply.api_key, reply.api_version,
                    Decided(False, Operation(operation), ResourceType(resource_type), text))

    def denied(self, origin: Origin, api_key: int, version: int, decided: Decided) -> None:
        """Report one denial."""
        self._log.put(LINE, *_values(origin, api_key, decided))
        named = Named(acl_kind(decided.resource), decided.name)
        self._audit.denied(origin, Requested(api_key, version, (named,)), decided.operation.name,
                           ERROR_OF[decided.resource])

    def _report(self, notes: list[Decided], api_key: int, version: int, origin: Origin, response: Message) -> None:
        if log.isEnabledFor(logging.DEBUG):
            for each in notes:
                if each.is_allowed:
                    log.debug(LINE, *_values(origin, api_key, each))
        denials = [each for each in notes if not each.is_allowed]
        if not denials:
            return
        codes = short_codes(response, SHORT_ELEMENTS)
        if codes is None:
            self._run_steps(api_key, self._report_steps(denials, api_key, version, origin, response))
        else:
            self._report_denials(denials, api_key, version, origin, codes)

    def _report_steps(self, denials: list[Decided], api_key: int, version: int, origin: Origin,
                      response: Message) -> Generator[None, None, None]:
        codes: Counter[int] = Counter()
        yield from count_errors(response, codes)
        self._report_denials(denials, api_key, version, origin, codes)

    def _report_denials(self, denials: list[Decided], api_key: int, version: int, origin: Origin,
                        codes: Collection[int]) -> None:
        for each in dict.fromkeys(denials):
            if ERROR_OF.get(each.resource) in codes:
                self.denied(origin, api_key, version, each)


def _values(origin: Origin, api_key: int, decided: Decided) -> tuple[object, ...]:
    return (origin.principal, "Allowed" if decided.is_allowed else "Denied", decided.operation.name, origin.host,
            decided.resource.name, decided.name, API_BY_KEY[api_key].name)
