"""Answers of APIs that clients rarely use, by raw requests; and answers that differ by version or because the request
is wrong."""

import uuid
from collections.abc import Callable

import pytest

from kraft.client.connection import Connection
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import describe_producers_request as producers
from kraft.protocol.messages import describe_topic_partitions_request as pages
from kraft.protocol.messages import elect_leaders_request as elections
from kraft.protocol.messages import list_offsets_request as list_offsets
from kraft.protocol.messages import list_partition_reassignments_request as reassignments
from kraft.protocol.messages import offset_for_leader_epoch_request as epochs
from kraft.protocol.messages.api_versions_request import ApiVersionsRequest
from kraft.protocol.messages.api_versions_response import ApiVersionsResponse
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeleteTopicsResponse
from kraft.protocol.messages.describe_producers_response import DescribeProducersResponse
from kraft.protocol.messages.describe_topic_partitions_response import DescribeTopicPartitionsResponse
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.describe_transactions_response import DescribeTransactionsResponse
from kraft.protocol.messages.elect_leaders_response import ElectLeadersResponse
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from kraft.protocol.messages.init_producer_id_request import InitProducerIdRequest
from kraft.protocol.messages.init_producer_id_response import InitProducerIdResponse
from kraft.protocol.messages.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsResponse
from kraft.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from kraft.protocol.messages.list_transactions_request import ListTransactionsRequest
from kraft.protocol.messages.list_transactions_response import ListTransactionsResponse
from kraft.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.offset_for_leader_epoch_response import OffsetForLeaderEpochResponse
from tests.integration.admin import configs, connect, create, wait_until
from tests.integration.clients import START_MS, Record, librdkafka_produce
from tests.integration.process import NodeProcess

OFFSETS = "__consumer_offsets"
NONE = ErrorCode.NONE
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture(params=["broker", "controller"])
def either_listener(node: NodeProcess, request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_features_are_reported(node: NodeProcess) -> None:
    """Version 3 hides a feature whose lowest level is 0: clients of that time refuse it (KIP-1022)."""
    with connect(node) as connection:
        reported = {version: connection.send(ApiVersionsRequest(client_software_name="x", client_software_version="1"),
                                             ApiVersionsResponse, version=version) for version in (3, 4)}
    supported = {version: {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
                 for version, answer in reported.items()}
    assert all(low > 0 for low, _ in supported[3].values())
    hidden = supported[4].items() - supported[3].items()
    assert supported[3].items() <= supported[4].items()
    assert "kraft.version" in dict(hidden)
    assert all(low == 0 for _, (low, _) in hidden)
    assert "metadata.version" in supported[3]
    for answer in reported.values():
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        low, high = supported[4]["metadata.version"]
        assert low <= levels["metadata.version"] <= high
        assert answer.finalized_features_epoch > 0


def test_producers_that_a_partition_knows(node: NodeProcess, name: str) -> None:
    create(node, name, 2)
    librdkafka_produce(node, name, [Record(b"k", b"v")] * 3, idempotent=True)
    requested = [producers.TopicRequest(name=name, partition_indexes=[0, 1, 2, -1]),
                 producers.TopicRequest(name=f"{name}-none", partition_indexes=[0]),
                 producers.TopicRequest(name="no/name", partition_indexes=[0])]
    with connect(node) as connection:
        found = connection.send(producers.DescribeProducersRequest(topics=requested), DescribeProducersResponse)
    reported = {(topic.name, each.partition_index): each for topic in found.topics for each in topic.partitions}
    assert {where: each.error_code for where, each in reported.items()} == {
        (name, 0): NONE, (name, 1): NONE, (name, 2): UNKNOWN, (name, -1): UNKNOWN, (f"{name}-none", 0): UNKNOWN,
        ("no/name", 0): ErrorCode.INVALID_TOPIC_EXCEPTION}
    [one] = reported[name, 0].active_producers
    assert one.producer_id >= 0
    assert (one.producer_epoch, one.last_sequence, one.last_timestamp) == (0, 2, START_MS)
    assert (one.coordinator_epoch, one.current_txn_start_offset) == (-1, -1)
    assert reported[name, 1].active_producers == []


def test_transactions_of_which_there_are_none(new_node: Callable[..., NodeProcess]) -> None:
    """The list is empty without the topic of the coordinators, and no broker coordinates an id."""
    with connect(new_node()) as connection:
        for version in range(3):
            listed = connection.send(ListTransactionsRequest(state_filters=["Ongoing", "PrepareEpochFence", "Mislaid"]),
                                     ListTransactionsResponse, version=version)
            assert (listed.error_code, listed.unknown_state_filters, listed.transaction_states) == (
                NONE, ["Mislaid"], [])
        described = connection.send(DescribeTransactionsRequest(transactional_ids=["a", "b"]),
                                    DescribeTransactionsResponse)
    assert [(each.transactional_id, each.error_code, each.transaction_state)
            for each in described.transaction_states] == [(each, ErrorCode.NOT_COORDINATOR, "") for each in "ab"]


def test_the_first_transactional_client_creates_the_topic(new_node: Callable[..., NodeProcess]) -> None:
    """The first answer is that no coordinator is available; the leader of the id's partition is found soon after. One
    node has one replica, which may commit alone."""
    node = new_node()
    with connect(node) as connection:
        requested = FindCoordinatorRequest(key_type=1, coordinator_keys=["t"])

        def found() -> tuple[int, int, int]:
            [reported] = connection.send(requested, FindCoordinatorResponse).coordinators
            return reported.error_code, reported.node_id, reported.port

        assert found() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
        wait_until(lambda: found() == (NONE, 1, node.port), "the coordinator is found")

        def refused(timeout_ms: int) -> int:
            code: int = connection.send(InitProducerIdRequest(
                transactional_id="t", transaction_timeout_ms=timeout_ms), InitProducerIdResponse).error_code
            return code

        wait_until(lambda: refused(1_000) == NONE, "the coordinator serves")
        assert refused(900_001) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    made = configs(node, "__transaction_state")
    assert {name: made[name].value for name in ("cleanup.policy", "min.insync.replicas", "segment.bytes")} == {
        "cleanup.policy": "compact", "min.insync.replicas": "1", "segment.bytes": "104857600"}


@pytest.mark.parametrize(("partition", "current", "epoch", "reported"), [
    (0, -1, 0, (NONE, 0, 3)),
    (0, 0, 0, (NONE, 0, 3)),
    (0, -1, 7, (NONE, -1, -1)),
    (0, -1, -1, (NONE, -1, -1)),
    (0, 1, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
    (9, -1, 0, (UNKNOWN, -1, -1)),
])
def test_where_an_epoch_ends(node: NodeProcess, partition: int, current: int, epoch: int,
                             reported: tuple[int, int, int]) -> None:
    topic = "where-an-epoch-ends"
    with connect(node) as connection:
        if connection.send(MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False),
                           MetadataResponse).topics[0].error_code:
            create(node, topic)
            librdkafka_produce(node, topic, [Record(b"k", b"v")] * 3)
        requested = epochs.OffsetForLeaderPartition(partition=partition, current_leader_epoch=current,
                                                    leader_epoch=epoch)
        for version in (2, 3, 4):
            answer = connection.send(epochs.OffsetForLeaderEpochRequest(replica_id=-1 if version > 2 else -2, topics=[
                epochs.OffsetForLeaderTopic(topic=topic, partitions=[requested])]), OffsetForLeaderEpochResponse,
                version=version)
            [found] = answer.topics[0].partitions
            assert (found.error_code, found.leader_epoch, found.end_offset) == reported


def test_an_older_leader_epoch_is_fenced(new_node: Callable[..., NodeProcess]) -> None:
    """A node that comes back after a kill leads in a newer epoch."""
    node = new_node()
    create(node, "t")
    librdkafka_produce(node, "t", [Record(b"k", b"v")])
    node.kill_and_start()
    requested = epochs.OffsetForLeaderPartition(partition=0, current_leader_epoch=0, leader_epoch=0)
    with connect(node) as connection:
        answer = connection.send(epochs.OffsetForLeaderEpochRequest(topics=[
            epochs.OffsetForLeaderTopic(topic="t", partitions=[requested])]), OffsetForLeaderEpochResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_elections(node: NodeProcess, name: str, either_listener: str) -> None:
    """Elections of all partitions (null) report only those that needed one; a type that is neither of the two is
    refused."""
    create(node, name)
    port = node.port if either_listener == "broker" else node.controller_port
    wanted = [elections.TopicPartitions(topic=name, partitions=[0, 5]),
              elections.TopicPartitions(topic=f"{name}-none", partitions=[0])]
    with Connection("127.0.0.1", port) as connection:
        for kind in (0, 1):
            answer = connection.send(elections.ElectLeadersRequest(election_type=kind, topic_partitions=wanted),
                                     ElectLeadersResponse)
            assert answer.error_code == NONE
            assert [(topic.topic, each.partition_id, each.error_code) for topic in answer.replica_election_results
                    for each in topic.partition_result] == [
                (name, 0, ErrorCode.ELECTION_NOT_NEEDED), (name, 5, UNKNOWN), (f"{name}-none", 0, UNKNOWN)]
        every = connection.send(elections.ElectLeadersRequest(election_type=0, topic_partitions=None),
                                ElectLeadersResponse)
        assert [each for topic in every.replica_election_results for each in topic.partition_result] == []
        for topics, reported in ((None, []), (wanted, [(name, 0), (name, 5), (f"{name}-none", 0)])):
            refused = connection.send(elections.ElectLeadersRequest(election_type=2, topic_partitions=topics),
                                      ElectLeadersResponse)
            assert refused.error_code == ErrorCode.INVALID_REQUEST
            assert [(topic.topic, each.partition_id) for topic in refused.replica_election_results
                    for each in topic.partition_result if each.error_code == ErrorCode.INVALID_REQUEST] == reported


def test_reassignments_of_which_there_are_none(node: NodeProcess, name: str, either_listener: str) -> None:
    create(node, name)
    port = node.port if either_listener == "broker" else node.controller_port
    named = [reassignments.ListPartitionReassignmentsTopics(name=each, partition_indexes=[0, 9])
             for each in (name, f"{name}-none")]
    with Connection("127.0.0.1", port) as connection:
        for topics in (None, [], named):
            answer = connection.send(reassignments.ListPartitionReassignmentsRequest(topics=topics),
                                     ListPartitionReassignmentsResponse)
            assert (answer.error_code, answer.error_message, answer.topics) == (NONE, None, [])


# --- ListOffsets

FIRST_VERSION = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11, -7: 99}
# (offset, timestamp) of two records; nothing is in tiered storage.
SPECIAL = {-1: (2, -1), -2: (0, -1), -3: (1, START_MS + 5), -4: (0, -1), -5: (-1, -1), -6: (-1, -1)}


def offsets_of(connection: Connection, topic: str, version: int,
               *requested: tuple[int, int]) -> list[ListOffsetsPartitionResponse]:
    """Return the answer by (partition, timestamp)."""
    partitions = [list_offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                  for index, timestamp in requested]
    request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=[
        list_offsets.ListOffsetsTopic(name=topic, partitions=partitions)])
    return connection.send(request, ListOffsetsResponse, version=version).topics[0].partitions


def test_special_times_in_every_version(node: NodeProcess, name: str) -> None:
    create(node, name)
    librdkafka_produce(node, name, [Record(b"k", b"v", (), START_MS), Record(b"k", b"v", (), START_MS + 5)])
    with connect(node) as connection:
        for version in range(1, 12):
            for timestamp, first in FIRST_VERSION.items():
                [found] = offsets_of(connection, name, version, (0, timestamp))
                reported = (found.error_code, found.offset, found.timestamp)
                if version < first:
                    assert reported == (ErrorCode.UNSUPPORTED_VERSION, -1, -1), (version, timestamp)
                else:
                    assert reported == (NONE, *SPECIAL[timestamp]), (version, timestamp)
            [late] = offsets_of(connection, name, version, (0, START_MS + 6))
            assert (late.error_code, late.offset, late.timestamp) == (NONE, -1, -1)


def test_a_partition_named_twice(node: NodeProcess, name: str) -> None:
    create(node, name, 2)
    with connect(node) as connection:
        for version in range(1, 12):
            found = offsets_of(connection, name, version, (0, -1), (1, -1), (0, -2))
            assert [(each.partition_index, each.error_code) for each in found] == [
                (0, ErrorCode.INVALID_REQUEST), (1, NONE), (0, ErrorCode.INVALID_REQUEST)]


# --- Metadata, FindCoordinator, DeleteTopics


def test_metadata_of_all_topics_and_of_none(node: NodeProcess, name: str) -> None:
    create(node, name)
    with connect(node) as connection:
        for version in range(14):
            def names(topics: list[MetadataRequestTopic] | None, version: int = version) -> set[str | None]:
                return {each.name for each in connection.send(MetadataRequest(topics=topics), MetadataResponse,
                                                              version=version).topics}
            if version:
                assert names([]) == set()
                assert name in names(None)
            else:
                assert name in names([])


def test_a_topic_id_that_nobody_has(node: NodeProcess) -> None:
    """A topic may be named by id alone from version 12 on; the name in the answer is then null."""
    unknown = uuid.uuid4()
    with connect(node) as connection:
        for version in (12, 13):
            [found] = connection.send(MetadataRequest(topics=[MetadataRequestTopic(topic_id=unknown, name=None)]),
                                      MetadataResponse, version=version).topics
            assert (found.error_code, found.name, found.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown)
            assert found.partitions == []


@pytest.mark.parametrize("version", [10, 11])
def test_topics_cannot_be_named_by_id_before_they_can(node: NodeProcess, name: str, version: int) -> None:
    create(node, name)
    requested = [MetadataRequestTopic(name=name), MetadataRequestTopic(topic_id=uuid.uuid4(), name=name)]
    with connect(node) as connection:
        reported = connection.send(MetadataRequest(topics=requested), MetadataResponse, version=version)
    assert (reported.brokers, reported.controller_id) == ([], -1)
    assert [each.error_code for each in reported.topics] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(("topic", "code"), [
    ("none", UNKNOWN), ("no/name", ErrorCode.INVALID_TOPIC_EXCEPTION), ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION)])
def test_topics_that_are_not_there_or_cannot_be(node: NodeProcess, topic: str, code: int) -> None:
    with connect(node) as connection:
        [one] = connection.send(
            MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False,
                            include_topic_authorized_operations=True), MetadataResponse).topics
        [other] = connection.send(pages.DescribeTopicPartitionsRequest(topics=[pages.TopicRequest(name=topic)]),
                                  DescribeTopicPartitionsResponse).topics
    assert (one.error_code, other.error_code) == (code, code)
    assert one.topic_authorized_operations == other.topic_authorized_operations == 3576, "all that there are"


def test_a_page_begins_at_a_partition_of_a_requested_topic(node: NodeProcess, name: str) -> None:
    create(node, name, 3)
    with connect(node) as connection:
        def page(topic: str, index: int) -> list[tuple[int, list[int]]]:
            requested = pages.DescribeTopicPartitionsRequest(
                topics=[pages.TopicRequest(name=name)], cursor=pages.Cursor(topic_name=topic, partition_index=index))
            return [(each.error_code, [one.partition_index for one in each.partitions])
                    for each in connection.send(requested, DescribeTopicPartitionsResponse).topics]

        assert page(name, 1) == [(NONE, [1, 2])]
        assert page(name, -1) == [(ErrorCode.INVALID_REQUEST, [])]
        assert page("another", 0) == [(ErrorCode.INVALID_REQUEST, [])]


def test_coordinators_in_every_version(node: NodeProcess, name: str) -> None:
    """Answers without an error have the message "NONE" before version 4 and an empty one from there on."""
    with connect(node) as connection:
        def found(version: int, kind: int = 0) -> tuple[int, str | None, int]:
            request = FindCoordinatorRequest(key_type=kind, **({"coordinator_keys": [name]} if version >= 4
                                                               else {"key": name}))
            answer = connection.send(request, FindCoordinatorResponse, version=version)
            each = answer.coordinators[0] if version >= 4 else answer
            return each.error_code, each.error_message, each.node_id

        wait_until(lambda: found(6)[0] == NONE, "the topic of offsets exists")
        for version in range(7):
            assert found(version) == (NONE, "NONE" if 1 <= version <= 3 else "", 1)
            if version:
                code, _, node_id = found(version, 77)
                assert (code, node_id) == (ErrorCode.INVALID_REQUEST, -1)


def test_the_topic_of_offsets_can_be_deleted(new_node: Callable[..., NodeProcess]) -> None:
    node = new_node()
    with connect(node) as connection:
        def coordinator() -> int:
            return connection.send(FindCoordinatorRequest(coordinator_keys=["g"]),
                                   FindCoordinatorResponse).coordinators[0].error_code

        wait_until(lambda: coordinator() == NONE, "the topic of offsets exists")
        deleted = connection.send(DeleteTopicsRequest(topic_names=[OFFSETS], timeout_ms=5_000), DeleteTopicsResponse,
                                  version=5)
        assert [(each.name, each.error_code) for each in deleted.responses] == [(OFFSETS, NONE)]
        listed = connection.send(MetadataRequest(topics=None), MetadataResponse).topics
        assert OFFSETS not in {each.name for each in listed}
        wait_until(lambda: coordinator() == NONE, "the topic of offsets is made again")
