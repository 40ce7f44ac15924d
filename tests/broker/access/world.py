"""ACLs, and requests that are served by a row of the table with a handler that answers everything."""

import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, NamedTuple

from kraft.broker.access.rules import Call, Row
from kraft.broker.access.serving import serve_checked
from kraft.config.authorizer_settings import AuthorizerSettings
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import EMPTY, MetadataImage
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.access_control_entry_record import AccessControlEntryRecord
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.protocol.response_errors import count_errors
from kraft.runtime.net.controller_channel import refusal
from kraft.security.access import Access
from kraft.security.acls import CLUSTER_NAME, Operation, PatternType, PermissionType, ResourceType
from kraft.security.authorizer import Authorizer
from kraft.security.principal import Principal
from kraft.steps import finish

ALICE = Principal.user("alice")
HOST = "10.0.0.7"
ORDERS_ID, SECRET_ID = uuid.UUID(int=0xA1), uuid.UUID(int=0xB2)


class Acl(NamedTuple):
    """An entry for alice, of the operation on the resource of that name."""

    operation: Operation
    resource: ResourceType = ResourceType.CLUSTER
    name: str = CLUSTER_NAME
    permission: PermissionType = PermissionType.ALLOW
    host: str = "*"


def image() -> MetadataImage:
    """Two topics, `orders` and `secret`, with two partitions each."""
    delta = MetadataDelta(EMPTY)
    for name, topic_id in (("orders", ORDERS_ID), ("secret", SECRET_ID)):
        delta.replay(TopicRecord(name=name, topic_id=topic_id))
        for index in (0, 1):
            delta.replay(PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1))
    return delta.finish(0, 0, 0)


IMAGE = image()


def authorizer(acls: Iterable[Acl]) -> Authorizer:
    delta = MetadataDelta(EMPTY)
    for number, each in enumerate(acls, 1):
        delta.replay(AccessControlEntryRecord(
            id=uuid.UUID(int=number), resource_type=each.resource, resource_name=each.name,
            pattern_type=PatternType.LITERAL, principal=str(ALICE), host=each.host, operation=each.operation,
            permission_type=each.permission))
    found = Authorizer(AuthorizerSettings(frozenset({"User:admin"}), allow_everyone=False))
    found.load(delta.finish(0, 0, 0))
    return found


class Served(NamedTuple):
    """The request that the handler got, None when it got none, and the answer, as the client reads it."""

    request: Any
    answer: Any

    @property
    def errors(self) -> set[ErrorCode]:
        counts: Counter[int] = Counter()
        finish(count_errors(self.answer, counts))
        return {ErrorCode(code) for code in counts}         # type: ignore[call-arg]


def serve(row: Row, request: Any, acls: Iterable[Acl], version: int, respond: Callable[[Any], Any], *,
          creates: bool = True, on_broker: bool = True) -> Served:
    """Serve a request of alice; `respond` is the handler. Each message takes its way over the wire."""
    api = API_BY_KEY[request.API_KEY]
    request = api.request.decode(request.encode(version), version)
    requests: list[Any] = []
    answers: list[Any] = []

    def handler(part: Message, answer: Callable[[Message], None]) -> None:
        requests.append(part)
        answer(respond(part))

    broker: Any = SimpleNamespace(setting=lambda _name: creates) if on_broker else None
    steps = serve_checked(row, Call(Access(authorizer(acls).now(), ALICE, HOST), request, version, answers.append,
                                    handler, finish, refusal, IMAGE, broker))
    if steps is not None:
        finish(steps)
    [answer] = answers
    return Served(requests[0] if requests else None, api.response.decode(answer.encode(version), version))


def denied(acls: Iterable[Acl]) -> dict[str, list[Acl]]:
    """Return entries that are not enough, for each way in which they are not. Of each needed entry the client has none,
    also one that denies, one for another host, or one for another resource."""
    needed = list(acls)
    cases: dict[str, list[Acl]] = {"no ACL": []}
    for number, each in enumerate(needed):
        rest = needed[:number] + needed[number + 1:]
        others = {
            "not this one": [], "deny": [each, each._replace(permission=PermissionType.DENY)],
            "wrong host": [each._replace(host="10.0.0.8")],
            "wrong resource": [each._replace(
                resource=next(kind for kind in (ResourceType.TOPIC, ResourceType.GROUP) if kind != each.resource),
                name="another")],
        }
        cases |= {f"{name} of {each.operation.name}": [*rest, *entries] for name, entries in others.items()}
    return cases


def every(groups: Iterable[Iterable[Acl]]) -> list[Acl]:
    return list(itertools.chain.from_iterable(groups))
