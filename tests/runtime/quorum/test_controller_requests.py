"""Requests on a controller's listener: the way of a long one to the core and to the controller."""

from types import SimpleNamespace
from typing import Any, cast

from kraft.metadata.image import EMPTY
from kraft.protocol.message import Message
from kraft.protocol.messages import alter_partition_reassignments_request as sent
from kraft.protocol.messages import alter_partition_reassignments_response as answered
from kraft.raft.wire import TOPIC
from kraft.runtime.quorum.controller_requests import ControllerRouter, _Origin
from kraft.security.principal import Client
from kraft.steps import finish

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
