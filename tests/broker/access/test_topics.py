"""Topics that a client may see, create and delete: what an answer discloses."""

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from kraft.broker.access.table import ROWS
from kraft.broker.api import RequestContext
from kraft.broker.apis.describe_topic_partitions import describe_topic_partitions
from kraft.broker.apis.metadata import metadata
from kraft.broker.broker import Broker
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import ZERO_UUID
from kraft.protocol.messages import create_topics_response as created
from kraft.protocol.messages import delete_topics_response as deleted
from kraft.protocol.messages import metadata_response as described
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.security.access import Access
from kraft.security.acls import CLUSTER_NAME, Operation, ResourceType
from kraft.steps import finish
from tests.broker.access.world import ALICE, HOST, IMAGE, ORDERS_ID, SECRET_ID, Acl, authorizer, serve

DENIED, NONE = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE
TOPIC = ResourceType.TOPIC
DESCRIBE_ORDERS = Acl(Operation.DESCRIBE, TOPIC, "orders")


def answered(handler: Any, request: Any, *acls: Acl, version: int = 12) -> Any:
    """Return the answer of a handler itself."""
    leaders = SimpleNamespace(submit=lambda _leaders, done: done(()))
    broker = cast("Broker", SimpleNamespace(
        image=IMAGE, leaders=leaders, cluster_id="c", setting=lambda _name: False, integer=lambda _name: 2_000,
        endpoints={}, node_id=1, led={}))
    context = RequestContext(version, "client", HOST, "PLAINTEXT", 0, principal=ALICE,
                             access=Access(authorizer(acls).now(), ALICE, HOST))
    answers: list[Any] = []
    finish(handler(broker, request, context, answers.append))
    [answer] = answers
    return answer


def names(topics: Any) -> list[tuple[str | None, ErrorCode]]:
    return [(each.name, ErrorCode(each.error_code)) for each in topics]     # type: ignore[call-arg]


def test_all_topics_are_those_that_a_client_may_describe() -> None:
    for version, request in ((0, MetadataRequest(topics=[])), (12, MetadataRequest(topics=None))):
        assert names(answered(metadata, request, DESCRIBE_ORDERS, version=version).topics) != []
        found = answered(metadata, request, DESCRIBE_ORDERS, version=version).topics
        assert [each.name for each in found] == ["orders"]
        assert answered(metadata, request, version=version).topics == []


def test_operations_on_topics_and_on_the_cluster_are_those_of_the_client() -> None:
    request = MetadataRequest(topics=None, include_topic_authorized_operations=True,
                              include_cluster_authorized_operations=True)
    acls = [Acl(Operation.READ, TOPIC, "orders"), Acl(Operation.CREATE)]
    answer = answered(metadata, request, *acls)
    assert [each.topic_authorized_operations for each in answer.topics] == [
        1 << Operation.READ | 1 << Operation.DESCRIBE]
    assert answer.cluster_authorized_operations == 0, "the client may not describe the cluster"
    answer = answered(metadata, request, *acls, Acl(Operation.DESCRIBE))
    assert answer.cluster_authorized_operations == 1 << Operation.CREATE | 1 << Operation.DESCRIBE


def found(request: MetadataRequest) -> described.MetadataResponse:
    """Answer as if every topic existed."""
    return described.MetadataResponse(topics=[
        described.MetadataResponseTopic(name=each.name, topic_id=each.topic_id) for each in request.topics or ()])


def test_refused_topics_are_beside_the_others_whether_they_exist_or_not() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("secret", "orders", "missing")])
    served = serve(ROWS[ApiKey.METADATA], request, [DESCRIBE_ORDERS], 12, found)
    assert [each.name for each in served.request.topics] == ["orders"]
    assert names(served.answer.topics) == [("orders", NONE), ("secret", DENIED), ("missing", DENIED)]
    assert {each.topic_id for each in served.answer.topics} == {ZERO_UUID}


def test_an_id_is_answered_without_a_name() -> None:
    unknown = ORDERS_ID.__class__(int=7)
    request = MetadataRequest(topics=[
        MetadataRequestTopic(name=None, topic_id=each) for each in (SECRET_ID, ORDERS_ID, unknown)])
    served = serve(ROWS[ApiKey.METADATA], request, [DESCRIBE_ORDERS], 12, found)
    assert [each.topic_id for each in served.request.topics] == [ORDERS_ID, unknown]
    [refused] = [each for each in served.answer.topics if each.error_code]
    assert (refused.name, refused.topic_id, refused.error_code) == (None, SECRET_ID, DENIED)


def test_metadata_creates_what_the_client_may_create() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("orders", "new", "other")])
    acls = [Acl(Operation.DESCRIBE, TOPIC, name) for name in ("orders", "new", "other")]
    run = partial(serve, ROWS[ApiKey.METADATA], version=12, respond=found)
    served = run(request, [*acls, Acl(Operation.CREATE, TOPIC, "new")])
    assert names(served.answer.topics) == [("orders", NONE), ("new", NONE), ("other", DENIED)]
    assert len(run(request, acls, creates=False).request.topics) == 3, "the handler finds that they are missing"
    without = request.replace(allow_auto_topic_creation=False)
    assert len(run(without, acls).request.topics) == 3
    assert len(run(request, [*acls, Acl(Operation.CREATE)]).request.topics) == 3


def test_a_request_for_no_topics_is_not_one_for_all() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="secret")])
    for version in (1, 4, 12):
        served = serve(ROWS[ApiKey.METADATA], request, [], version, found)
        assert served.request.topics == [] and names(served.answer.topics) == [("secret", DENIED)]


def test_pages_have_only_topics_that_the_client_may_describe() -> None:
    def page(*acls: Acl, cursor: Cursor | None = None, topics: tuple[str, ...] = ()) -> Any:
        return answered(describe_topic_partitions, DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in topics], response_partition_limit=10, cursor=cursor), *acls,
            version=0)

    assert names(page().topics) == []
    assert names(page(DESCRIBE_ORDERS).topics) == [("orders", NONE)]
    named = page(DESCRIBE_ORDERS, topics=("secret", "orders", "zzz"))
    assert names(named.topics) == [("orders", NONE), ("secret", DENIED), ("zzz", DENIED)]
    assert named.topics[1].topic_id == ZERO_UUID
    assert names(page(topics=("secret",)).topics) == [("secret", DENIED)]
    secret = Acl(Operation.DESCRIBE, TOPIC, "secret")
    [topic] = page(secret, cursor=Cursor(topic_name="orders", partition_index=1)).topics
    assert [each.partition_index for each in topic.partitions] == [0, 1], "the cursor is in another topic"


def test_topics_are_created_where_the_client_may() -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name) for name in ("a", "b", "twice", "twice", "c")])

    def create(part: CreateTopicsRequest) -> created.CreateTopicsResponse:
        return created.CreateTopicsResponse(topics=[created.CreatableTopicResult(
            name=each.name, num_partitions=3, replication_factor=1,
            configs=[created.CreatableTopicConfigs(name="x", value="y")]) for each in part.topics])

    acls = [Acl(Operation.CREATE, TOPIC, name) for name in ("a", "b")]
    served = serve(ROWS[ApiKey.CREATE_TOPICS], request, [*acls, Acl(Operation.DESCRIBE_CONFIGS, TOPIC, "b")], 7, create)
    assert [each.name for each in served.request.topics] == ["a", "b", "twice", "twice"]
    assert names(served.answer.topics)[-1] == ("c", DENIED)
    hidden, shown, *_ = served.answer.topics
    assert (hidden.num_partitions, hidden.replication_factor, hidden.configs, hidden.topic_config_error_code) == (
        -1, -1, [], DENIED)
    assert (shown.num_partitions, shown.topic_config_error_code, len(shown.configs)) == (3, NONE, 1)


def delete(part: DeleteTopicsRequest) -> deleted.DeleteTopicsResponse:
    return deleted.DeleteTopicsResponse(responses=[
        deleted.DeletableTopicResult(name=each.name, topic_id=each.topic_id) for each in part.topics])


def test_a_deletion_discloses_neither_names_nor_ids() -> None:
    states = [DeleteTopicState(name=None, topic_id=SECRET_ID), DeleteTopicState(name=None, topic_id=ORDERS_ID),
              DeleteTopicState(name="secret"), DeleteTopicState(name="orders"), DeleteTopicState(name="missing")]
    run = partial(serve, ROWS[ApiKey.DELETE_TOPICS], version=6, respond=delete)
    served = run(DeleteTopicsRequest(topics=states), [])
    assert served.request is None
    assert [(each.name, each.topic_id) for each in served.answer.responses] == [
        (None, SECRET_ID), (None, ORDERS_ID), ("secret", ZERO_UUID), ("orders", ZERO_UUID), ("missing", ZERO_UUID)]
    served = run(DeleteTopicsRequest(topics=states), [DESCRIBE_ORDERS, Acl(Operation.DESCRIBE, TOPIC, "missing")])
    assert [each.name for each in served.request.topics] == ["missing"], "the client may learn that it does not exist"
    refused = [(each.name, each.topic_id) for each in served.answer.responses if each.error_code]
    assert refused == [(None, SECRET_ID), ("orders", ORDERS_ID), ("secret", ZERO_UUID), ("orders", ZERO_UUID)]
    every_one = [Acl(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME)]
    assert len(run(DeleteTopicsRequest(topics=states), every_one).request.topics) == len(states)
