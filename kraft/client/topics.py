"""Creation of a topic, and the wait until its leaders serve."""

from collections.abc import Mapping, Sequence
from typing import Final

from kraft.client.cluster import Cluster
from kraft.client.partitions import EARLIEST, every, list_all_offsets
from kraft.client.refusals import RefusedError, check
from kraft.client.retries import Attempts
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kraft.protocol.messages.create_topics_response import CreateTopicsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse

DELETE_BY_STATE_VERSION: Final = 6
PAUSE_SECONDS: Final = 0.02
SECONDS: Final = 30.0


def create_topic(cluster: Cluster, name: str, partitions: int, replication: int = -1,
                 configs: Mapping[str, str] | None = None) -> None:
    """Create a topic unless it exists, and wait until each partition is served by its leader. One that exists keeps its
    number of partitions. Raises `RefusedError` or `ConnectionFailedError`."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication, configs=[
        CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()])
    request = CreateTopicsRequest(topics=[topic], timeout_ms=round(SECONDS * 1000))
    answer = cluster.controller().send(request, CreateTopicsResponse).topics[0]
    exists = answer.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    if not exists:
        check(f"topic {name}", answer.error_code, answer.error_message)
    attempts = Attempts(SECONDS, PAUSE_SECONDS)
    wait_for_leaders(cluster, [name], SECONDS, 1 if exists else partitions)
    while True:
        topics = cluster.metadata([name]).topics
        try:
            list_all_offsets(cluster, topics, every(topics, EARLIEST))
        except RefusedError as error:      # metadata may name a leader that does not know it yet
            attempts.again(error)
        else:
            return


def delete_topics(cluster: Cluster, names: Sequence[str]) -> None:
    """Delete topics; one that does not exist is no error. Raises `RefusedError`."""
    controller = cluster.controller()
    request = DeleteTopicsRequest(timeout_ms=round(SECONDS * 1000))
    if controller.version(request.API_KEY) >= DELETE_BY_STATE_VERSION:
        request.topics = [DeleteTopicState(name=name) for name in names]
    else:
        request.topic_names = list(names)
    for each in controller.send(request, DeleteTopicsResponse).responses:
        if each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            check(f"topic {each.name}", each.error_code, each.error_message)


def wait_for_leaders(cluster: Cluster, names: Sequence[str], seconds: float, partitions: int = 1) -> None:
    """Wait until the connected node knows these topics with at least so many partitions and a leader for each. Raises
    `RefusedError` with LEADER_NOT_AVAILABLE after `seconds`."""
    attempts = Attempts(seconds, PAUSE_SECONDS)
    while not all(topic.error_code == ErrorCode.NONE and len(topic.partitions) >= partitions
                  and all(each.error_code == ErrorCode.NONE and each.leader_id >= 0 for each in topic.partitions)
                  for topic in cluster.metadata(list(names)).topics):
        attempts.again(RefusedError(f"topics {', '.join(names)}", ErrorCode.LEADER_NOT_AVAILABLE))
