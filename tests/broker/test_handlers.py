"""Single handlers of requests, on as much of a broker as they need."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kraft.broker.api import RequestContext, Steps
from kraft.broker.apis.alter_configs import alter_configs
from kraft.broker.apis.alter_replica_log_dirs import alter_replica_log_dirs
from kraft.broker.apis.client_quotas import describe_client_quotas
from kraft.broker.apis.delete_records import delete_records
from kraft.broker.apis.describe_producers import describe_producers
from kraft.broker.apis.find_coordinator import find_coordinator
from kraft.broker.apis.incremental_alter_configs import incremental_alter_configs
from kraft.broker.apis.metadata import metadata
from kraft.broker.broker import Broker
from kraft.broker.cluster_description import BROKERS, describe_nodes
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.config.effective import BrokerLayers
from kraft.metadata.delta import MetadataDelta
from kraft.metadata.image import BROKER_RESOURCE, EMPTY, NO_LEADER, MetadataImage, PartitionRegistration
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import alter_configs_request as legacy
from kraft.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kraft.protocol.messages.alter_replica_log_dirs_response import AlterReplicaLogDirsResponse
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kraft.protocol.messages.delete_records_response import DeleteRecordsResponse
from kraft.protocol.messages.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from kraft.protocol.messages.describe_cluster_request import DescribeClusterRequest
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kraft.protocol.messages.describe_producers_response import DescribeProducersResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.partition_record import PartitionRecord
from kraft.protocol.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kraft.protocol.messages.topic_record import TopicRecord
from kraft.steps import finish
from tests.native.logs import batch
from tests.native.serving import serving

CONTEXT = RequestContext(12, "client", "127.0.0.1", "PLAINTEXT", 0)


@pytest.mark.parametrize(("file", "dynamic", "created"), [
    ({"num.partitions": "5", "default.replication.factor": "3"}, {}, (5, 3)),
    ({"num.partitions": "1"}, {}, (1, -1)),
    ({"default.replication.factor": "2"}, {}, (-1, 2)),
    ({}, {"num.partitions": "7"}, (7, -1)),
    ({}, {}, (-1, -1)),
])
def test_a_topic_that_a_request_creates_is_as_this_broker_says_or_as_the_controller(
        file: dict[str, str], dynamic: dict[str, str], created: tuple[int, int]) -> None:
    """Settings of the controller apply where the broker has none of its own, also when they are not the defaults."""
    requested: list[Message] = []
    layers = BrokerLayers(dynamic=dynamic, static=file)
    broker = cast("Broker", SimpleNamespace(
        image=EMPTY, setting=lambda _name: True, layers=lambda: layers,
        submit_steps=lambda request, *_arguments: iter([requested.append(request)])))
    vars(broker)["own_integer"] = partial(Broker.own_integer, broker)
    finish(metadata(broker, MetadataRequest(
        topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True), CONTEXT, lambda _response: None))
    [creation] = requested
    assert isinstance(creation, CreateTopicsRequest)
    [topic] = creation.topics
    assert (topic.num_partitions, topic.replication_factor) == created


def test_settings_of_another_broker_are_refused() -> None:
    """A broker cannot judge them: it does not know, for example, the directories of the other one."""
    def change(name: str) -> tuple[list[int], list[str]]:
        """Return the codes of the broker's own answers, and the resources that the controller decides."""
        passed: list[Message] = []
        answers: list[Message] = []
        config = SimpleNamespace(log_dirs=[Path("/a")])
        broker = cast("Broker", SimpleNamespace(
            node_id=1, config=config, loggers=None,
            submit_steps=lambda request, *_arguments: iter([passed.append(request)])))
        change = AlterableConfig(name="cordoned.log.dirs", config_operation=0, value="/a")
        finish(incremental_alter_configs(broker, IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=name, configs=[change])]), CONTEXT, answers.append))
        finish(alter_configs(broker, legacy.AlterConfigsRequest(resources=[legacy.AlterConfigsResource(
            resource_type=BROKER_RESOURCE, resource_name=name,
            configs=[legacy.AlterableConfig(name="cordoned.log.dirs", value="/a")])]), CONTEXT, answers.append))
        codes = [each.error_code for answer in answers for each in answer.responses]  # type: ignore[attr-defined]
        return codes, [each.resource_name for request in passed
                       for each in request.resources]  # type: ignore[attr-defined]

    assert change("2") == ([ErrorCode.INVALID_REQUEST] * 2, [])
    for name in ("1", "", "x"):
        assert change(name) == ([], [name] * 2)


def test_a_resource_that_a_request_names_twice_is_refused_each_time() -> None:
    """Kafka does the same. Here this broker would refuse one mention, and the controller would accept the other."""
    passed: list[Message] = []
    answers: list[Message] = []
    broker = cast("Broker", SimpleNamespace(
        node_id=1, config=SimpleNamespace(log_dirs=[Path("/a")]), loggers=None,
        submit_steps=lambda request, *_arguments: iter([passed.append(request)])))
    finish(incremental_alter_configs(broker, IncrementalAlterConfigsRequest(resources=[
        AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configs=[
            AlterableConfig(name="cordoned.log.dirs", config_operation=0, value=value)]) for value in ("/a", "/b")]),
        CONTEXT, answers.append))
    finish(alter_configs(broker, legacy.AlterConfigsRequest(resources=[
        legacy.AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configs=[
            legacy.AlterableConfig(name="cordoned.log.dirs", value=value)]) for value in ("/a", "/b")]),
        CONTEXT, answers.append))
    assert [[each.error_code for each in answer.responses] for answer in answers] == [  # type: ignore[attr-defined]
        [ErrorCode.INVALID_REQUEST] * 2] * 2
    assert not passed


def test_the_last_mention_of_a_partition_counts_where_records_are_deleted() -> None:
    """Kafka does the same: an earlier mention deletes nothing."""
    deleted: list[int] = []
    partition = SimpleNamespace(
        is_leader=True, high_watermark=10, delete_records=deleted.append,
        call_when_deleted=lambda offset, _is_alive, settle, **_options: settle(0, offset))
    broker = cast("Broker", SimpleNamespace(
        partition=lambda _topic, _index: partition, topic_setting=lambda _topic, _name: ["delete"]))
    answers: list[Message] = []
    finish(delete_records(broker, DeleteRecordsRequest(topics=[
        DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=9)]),
        DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=1, offset=4),
                                                 DeleteRecordsPartition(partition_index=0, offset=5)])]),
        CONTEXT, answers.append))
    [answer] = answers
    assert isinstance(answer, DeleteRecordsResponse)
    assert [(topic.name, [(each.partition_index, each.low_watermark) for each in topic.partitions])
            for topic in answer.topics] == [("t", [(0, 5), (1, 4)])]
    assert deleted == [5, 4]


@pytest.mark.parametrize(("leader", "unserved", "code"), [
    (1, True, ErrorCode.KAFKA_STORAGE_ERROR), (NO_LEADER, True, ErrorCode.KAFKA_STORAGE_ERROR),
    (2, True, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    (None, True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
def test_a_replica_whose_log_failed_is_a_storage_error_until_another_one_leads(
        leader: int | None, unserved: bool, code: ErrorCode) -> None:
    """Requests that change or list records of a partition that this broker does not serve."""
    known = None if leader is None else PartitionRegistration((1, 2), (UUID(int=9),) * 2, (1,), leader, 3, 5)
    broker = cast("Broker", SimpleNamespace(
        node_id=1, unserved={("t", 0): None} if unserved else {}, partition=lambda _topic, _index: None,
        image=SimpleNamespace(partition=lambda _topic, _index: known)))
    vars(broker)["_why_unserved"] = partial(Broker._why_unserved, broker)
    vars(broker)["absence"] = partial(Broker.absence, broker)
    answers: list[Message] = []
    finish(delete_records(broker, DeleteRecordsRequest(topics=[DeleteRecordsTopic(
        name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])]), CONTEXT, answers.append))
    [answer] = answers
    assert isinstance(answer, DeleteRecordsResponse)
    assert answer.topics[0].partitions[0].error_code == code


def test_the_last_directory_of_a_replica_counts() -> None:
    """Kafka does the same: no move to an earlier one begins."""
    moved: list[tuple[str, int, str]] = []
    broker = cast("Broker", SimpleNamespace(
        table=SimpleNamespace(settle=lambda: False),
        moves=SimpleNamespace(alter=lambda *move: moved.append(move) or ErrorCode.NONE)))
    answers: list[Message] = []
    finish(alter_replica_log_dirs(broker, AlterReplicaLogDirsRequest(dirs=[
        AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])
        for path in ("/a", "/b")]), CONTEXT, answers.append))
    [answer] = answers
    assert isinstance(answer, AlterReplicaLogDirsResponse)
    assert [[each.partition_index for each in topic.partitions] for topic in answer.results] == [[0]]
    assert moved == [("t", 0, "/b")]


def test_a_follower_lists_the_producers_that_its_replica_knows(tmp_path: Path) -> None:
    def found(replica: object) -> tuple[int, list[int]]:
        broker = cast("Broker", SimpleNamespace(
            image=SimpleNamespace(partition=lambda _topic, _index: object()), partition=lambda _topic, _index: replica))
        answers: list[Message] = []
        finish(describe_producers(broker, DescribeProducersRequest(
            topics=[TopicRequest(name="t", partition_indexes=[0])]), CONTEXT, answers.append))
        [answer] = answers
        assert isinstance(answer, DescribeProducersResponse)
        [part] = answer.topics[0].partitions
        return part.error_code, [each.producer_id for each in part.active_producers]

    with serving(tmp_path) as node:
        follower = node.partition()
        follower.append(batch(producer_id=7, producer_epoch=1, base_sequence=0))
        follower.become_follower(1, 9)
        assert found(follower) == (ErrorCode.NONE, [7])
    assert found(None) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])


def led_by_two() -> MetadataImage:
    """Broker 1 leads partition 0 of "t". Broker 2 leads partition 1, and the only partition of the offsets topic."""
    delta = MetadataDelta(EMPTY)
    for broker_id in (1, 2):
        delta.replay(RegisterBrokerRecord(
            broker_id=broker_id, broker_epoch=10 + broker_id, fenced=False,
            end_points=[BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)]))
    for name, leaders in (("t", (1, 2)), (OFFSETS_TOPIC, (2,))):
        topic_id = UUID(int=len(name))
        delta.replay(TopicRecord(name=name, topic_id=topic_id))
        for index, leader in enumerate(leaders):
            delta.replay(PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1, 2], isr=[1, 2],
                                         leader=leader, leader_epoch=0, partition_epoch=0))
    return delta.finish(0, 0, 0)


def answered(handler: Callable[..., Steps], request: Message, ended: tuple[int, ...]) -> Any:
    """Return the answer of broker 1 after it checked the leaders; the processes of `ended` have ended."""
    checks: list[tuple[list[int], Callable[[tuple[int, ...]], None]]] = []
    broker = SimpleNamespace(
        image=led_by_two(), node_id=1, cluster_id="c", led={}, setting=lambda _name: False,
        leaders=SimpleNamespace(submit=lambda leaders, answer: checks.append((list(leaders), answer))))
    answers: list[Message] = []
    finish(handler(cast("Broker", broker), request, CONTEXT, answers.append))
    assert answers == [], "it waits for the checks"
    [(leaders, checked)] = checks
    assert 2 in leaders
    checked(ended)
    [answer] = answers
    return answer


def test_metadata_does_not_name_a_leader_whose_process_ended() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])

    def found(*ended: int) -> list[tuple[int, int]]:
        [topic] = answered(metadata, request, ended).topics
        return [(each.error_code, each.leader_id) for each in topic.partitions]

    assert found() == [(ErrorCode.NONE, 1), (ErrorCode.NONE, 2)]
    assert found(2) == [(ErrorCode.NONE, 1), (ErrorCode.LEADER_NOT_AVAILABLE, -1)]


def test_a_coordinator_whose_process_ended_is_not_named() -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])

    def found(*ended: int) -> tuple[int, int]:
        [coordinator] = answered(find_coordinator, request, ended).coordinators
        return coordinator.error_code, coordinator.node_id

    assert found() == (ErrorCode.NONE, 2)
    assert found(2) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


def test_refused_questions_have_the_wording_that_kafkas_clients_know() -> None:
    answers: list[Any] = []
    request = DescribeClientQuotasRequest(components=[
        ComponentData(entity_type=kind, match_type=1, match=None) for kind in ("ip", "user")])
    finish(describe_client_quotas(cast("Broker", SimpleNamespace()), request, CONTEXT, answers.append))
    assert answers[0].error_message.startswith("Invalid entity filter component combination")
    refused = describe_nodes(DescribeClusterRequest(endpoint_type=2), 1, BROKERS, "c", 1, list)
    assert (refused.error_code, refused.error_message) == (
        ErrorCode.MISMATCHED_ENDPOINT_TYPE,
        "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER")
