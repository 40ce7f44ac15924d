"""Single handlers of requests, on as much of a broker as they need."""

from types import SimpleNamespace
from typing import cast

from kraft.broker.api import RequestContext, run_through
from kraft.broker.apis.describe_producers import describe_producers
from kraft.broker.apis.metadata import metadata
from kraft.broker.broker import Broker
from kraft.metadata.image import EMPTY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.create_topics_request import CreateTopicsRequest
from kraft.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from kraft.protocol.messages.describe_producers_response import DescribeProducersResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

CONTEXT = RequestContext(12, "client", "127.0.0.1", "PLAINTEXT", 0)


def test_a_topic_that_a_request_creates_is_as_this_broker_says() -> None:
    """The controller may have other settings."""
    asked: list[Message] = []
    numbers = {"num.partitions": 5, "default.replication.factor": 3}
    broker = cast("Broker", SimpleNamespace(
        image=EMPTY, setting=lambda _name: True, integer=numbers.__getitem__,
        submit_steps=lambda request, *_arguments: iter([asked.append(request)])))
    run_through(metadata(broker, MetadataRequest(
        topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True), CONTEXT, lambda _response: None))
    [creation] = asked
    assert isinstance(creation, CreateTopicsRequest)
    [topic] = creation.topics
    assert (topic.num_partitions, topic.replication_factor) == (5, 3)


def test_a_follower_tells_the_producers_that_its_replica_knows() -> None:
    known = SimpleNamespace(producer_id=7, producer_epoch=1, last_sequence=4, last_timestamp_ms=99,
                            coordinator_epoch=-1, txn_first_offset=-1)
    follower = SimpleNamespace(is_leader=False, producers=lambda: [known])

    def found(replica: object) -> tuple[int, list[int]]:
        broker = cast("Broker", SimpleNamespace(
            image=SimpleNamespace(partition=lambda _topic, _index: object()), partition=lambda _topic, _index: replica))
        answers: list[Message] = []
        run_through(describe_producers(broker, DescribeProducersRequest(
            topics=[TopicRequest(name="t", partition_indexes=[0])]), CONTEXT, answers.append))
        [answer] = answers
        assert isinstance(answer, DescribeProducersResponse)
        [part] = answer.topics[0].partitions
        return part.error_code, [each.producer_id for each in part.active_producers]

    assert found(follower) == (ErrorCode.NONE, [7])
    assert found(None) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])
