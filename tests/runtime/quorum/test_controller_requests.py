"""Requests on a controller's listener: the way of a long one to the core and to the controller."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.metadata.image import EMPTY
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_response_header, encode_request_header
from kraft.protocol.message import Message
from kraft.protocol.messages import alter_partition_reassignments_request as sent
from kraft.protocol.messages import alter_partition_reassignments_response as answered
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.envelope_request import EnvelopeRequest
from kraft.raft.wire import TOPIC
from kraft.runtime.quorum.controller_requests import ControllerRouter, _Origin
from kraft.security.acls import Operation, ResourceType
from kraft.security.forwarding import encoded_principal
from kraft.security.principal import Client, Principal
from kraft.steps import finish
from tests.broker.access.world import Acl, authorizer

COUNT = 1_000


def reassigned(request: Any) -> Message:
    return answered.AlterPartitionReassignmentsResponse(responses=[
        answered.ReassignableTopicResponse(name=topic.name, partitions=[
            answered.ReassignablePartitionResponse(partition_index=each.partition_index) for each in topic.partitions])
        for topic in request.topics])


def test_topics_beside_the_metadata_log_are_decided_in_parts() -> None:
    """A thousand partitions in one step would hold the controller."""
    parts: list[Any] = []

    def submit(part: Message, _version: int, _now_ms: int, answer: Any, *_: Any, **_named: Any) -> None:
        parts.append(part)
        answer(reassigned(part))

    def serve(_codec: Any, _source: int, _request: Any, _version: int, respond: Any) -> None:
        respond(reassigned(sent.AlterPartitionReassignmentsRequest(topics=[of_metadata])))

    of_metadata = sent.ReassignableTopic(name=TOPIC, partitions=[sent.ReassignablePartition(replicas=[1, 2])])
    quorum = SimpleNamespace(metadata=SimpleNamespace(submit=submit, image=EMPTY), serve=serve, clock=lambda: 1,
                             authorizer=None)
    router = ControllerRouter(cast("Any", quorum), cast("Any", None), lambda: None)
    request = sent.AlterPartitionReassignmentsRequest(topics=[of_metadata, *(
        sent.ReassignableTopic(name=f"t{number}", partitions=[sent.ReassignablePartition(replicas=[1])])
        for number in range(COUNT))])
    expected = {topic.name for topic in request.topics}
    answers: list[Any] = []
    finish(router._serve(1, request, 7, answers.append, _Origin(Client(), None), finish, forwarded=False))
    [answer] = answers
    assert len(answer.responses) == COUNT + 1
    assert {topic.name for topic in answer.responses} == expected
    assert sum(len(part.topics) for part in parts) == COUNT
    assert max(len(part.topics) for part in parts) <= 128


ADMIN, ALICE, NODE = (Client("", Principal.user(name), "10.0.0.7") for name in ("admin", "alice", "node"))


class Controllers:
    """A router of controllers with an authorizer, and what it submits: the topics, and the client that is charged."""

    def __init__(self, *acls: Acl) -> None:
        self.submitted: list[tuple[list[str], Client | None]] = []
        self.answers: list[Any] = []
        metadata = SimpleNamespace(submit=self._submit, image=EMPTY, controller=SimpleNamespace(active=True))
        self.router = ControllerRouter(cast("Any", SimpleNamespace(
            metadata=metadata, clock=lambda: 1, authorizer=authorizer(acls))),
            cast("Any", SimpleNamespace(access_audit=None)), lambda: None)

    def _submit(self, part: Any, _version: int, _now_ms: int, answer: Any, client: Client | None, **_how: Any) -> None:
        self.submitted.append(([each.name for each in part.topics], client))
        answer(CreateTopicsResponse(topics=[CreatableTopicResult(name=each.name) for each in part.topics]))

    def open(self, principal: bytes, *, sender: Client = NODE, client_id: str | None = "app",
             host: bytes = b"\x0a\x00\x00\x07") -> Any:
        """Return what is in the envelope of the answer to a creation of two topics, or its error."""
        api = API_BY_KEY[ApiKey.CREATE_TOPICS]
        request = CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b")])
        envelope = EnvelopeRequest(request_data=encode_request_header(api, 7, 5, client_id) + request.encode(7),
                                   request_principal=principal, client_host_address=host)
        answers: list[Any] = []
        finish(self.router._open(envelope, 7, answers.append, sender, finish))
        [answer] = answers
        if answer.error_code:
            return answer.error_code
        _, body = decode_response_header(answer.response_data, api, 7)
        return [(each.name, each.error_code) for each in CreateTopicsResponse.decode(body, 7).topics]


def test_the_client_of_an_envelope_is_checked_and_charged() -> None:
    controllers = Controllers(Acl(Operation.CREATE, ResourceType.TOPIC, "a"))
    alice = encoded_principal(ALICE.principal)
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert controllers.open(alice) == [("a", ErrorCode.NONE), ("b", denied)]
    assert controllers.submitted == [(["a"], Client("app", ALICE.principal, "10.0.0.7"))]
    assert controllers.open(encoded_principal(Principal.user("bob"))) == [("a", denied), ("b", denied)]
    elsewhere = Controllers(Acl(Operation.CREATE, ResourceType.TOPIC, "a", host="10.0.0.8"))
    assert elsewhere.open(alice) == [("a", denied), ("b", denied)]
    assert elsewhere.open(alice, host=b"\x0a\x00\x00\x08") == [("a", ErrorCode.NONE), ("b", denied)]


def test_an_envelope_without_a_client_is_of_its_sender() -> None:
    controllers = Controllers()
    assert controllers.open(b"", sender=ADMIN, client_id=None) == [("a", ErrorCode.NONE), ("b", ErrorCode.NONE)]
    assert controllers.submitted == [(["a", "b"], None)], "a node has no quota"
    assert {code for _name, code in controllers.open(b"", sender=ALICE)} == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_an_envelope_that_cannot_be_read() -> None:
    controllers = Controllers()
    assert controllers.open(b"\x00\x07") == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    assert controllers.open(encoded_principal(ALICE.principal), host=b"?") == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("acls", "error"), [
    ([], ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ([Acl(Operation.CLUSTER_ACTION)], ErrorCode.NONE)])
def test_only_a_node_may_send_an_envelope(acls: list[Acl], error: ErrorCode) -> None:
    router = Controllers(*acls).router
    reply = cast("Any", SimpleNamespace(client_id=b"x", sink=SimpleNamespace(
        principal=ALICE.principal, peer_host="10.0.0.7")))
    assert router._may_act(reply) == (error == ErrorCode.NONE)
