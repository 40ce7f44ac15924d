"""Requests of which a client may have some elements: what the handler gets, and the order of the answer."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kraft.broker.access.brokers import checked_handler_of
from kraft.broker.access.rules import Call
from kraft.broker.access.serving import serve_checked
from kraft.broker.access.table import ROWS
from kraft.broker.api import RequestContext
from kraft.broker.broker import Broker
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.messages import (
    add_partitions_to_txn_request,
    consumer_group_describe_response,
    describe_delegation_token_response,
    describe_groups_response,
    describe_share_group_offsets_request,
    describe_share_group_offsets_response,
    describe_transactions_response,
    find_coordinator_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
    list_offsets_response,
    offset_commit_response,
    offset_fetch_request,
    offset_fetch_response,
    share_group_describe_response,
    write_txn_markers_request,
)
from kraft.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kraft.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kraft.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kraft.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from kraft.protocol.messages.end_txn_request import EndTxnRequest
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kraft.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kraft.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from kraft.runtime.net.controller_channel import refusal
from kraft.security.access import Access
from kraft.security.acls import Operation, ResourceType
from kraft.steps import finish
from tests.broker.access.world import ALICE, HOST, IMAGE, ORDERS_ID, SECRET_ID, Acl, authorizer, serve

TOPIC, GROUP, TXN = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
NO_TOPIC, NO_GROUP, NO_TXN, NONE = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.NONE)


def test_refused_elements_come_last_or_first_as_in_kafka() -> None:
    listed = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[
        ListOffsetsPartition(partition_index=index) for index in (0, 1)]) for name in ("secret", "orders")])
    served = serve(ROWS[ApiKey.LIST_OFFSETS], listed, [Acl(Operation.DESCRIBE, TOPIC, "orders")], 11, lambda part: (
        list_offsets_response.ListOffsetsResponse(topics=[
            list_offsets_response.ListOffsetsTopicResponse(name=each.name) for each in part.topics])))
    assert [each.name for each in served.answer.topics] == ["orders", "secret"]
    assert [(each.partition_index, each.error_code, each.offset) for each in served.answer.topics[1].partitions] == [
        (0, NO_TOPIC, -1), (1, NO_TOPIC, -1)]
    committed = commit("orders", "secret")
    acls = [Acl(Operation.READ, GROUP, "g"), Acl(Operation.READ, TOPIC, "orders")]
    served = serve(ROWS[ApiKey.OFFSET_COMMIT], committed, acls, 9, committed_all)
    assert [each.name for each in served.answer.topics] == ["secret", "orders"]


def commit(*topics: str, partitions: int = 1) -> OffsetCommitRequest:
    return OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name=name, partitions=[
        OffsetCommitRequestPartition(partition_index=index) for index in range(partitions)]) for name in topics])


def committed_all(part: Any) -> offset_commit_response.OffsetCommitResponse:
    return offset_commit_response.OffsetCommitResponse(topics=[
        offset_commit_response.OffsetCommitResponseTopic(name=each.name, topic_id=each.topic_id)
        for each in part.topics])


def test_topics_by_id_are_checked_by_their_names() -> None:
    unknown = ORDERS_ID.__class__(int=7)
    request = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(topic_id=each, partitions=[
        OffsetCommitRequestPartition()]) for each in (ORDERS_ID, SECRET_ID, unknown)])
    acls = [Acl(Operation.READ, GROUP, "g"), Acl(Operation.READ, TOPIC, "orders")]
    served = serve(ROWS[ApiKey.OFFSET_COMMIT], request, acls, 10, committed_all)
    assert [each.topic_id for each in served.request.topics] == [ORDERS_ID, unknown], "the handler knows no such id"
    refused = served.answer.topics[0]
    assert refused.topic_id == SECRET_ID and refused.partitions[0].error_code == NO_TOPIC


def test_keys_are_answered_in_their_order() -> None:
    keys = ["b", "secret", "a", "other", "b"]
    served = serve(ROWS[ApiKey.FIND_COORDINATOR], FindCoordinatorRequest(key_type=0, coordinator_keys=keys),
                   [Acl(Operation.DESCRIBE, GROUP, name) for name in ("a", "b")], 6, lambda part: (
        find_coordinator_response.FindCoordinatorResponse(coordinators=[
            find_coordinator_response.Coordinator(key=key, node_id=1) for key in part.coordinator_keys])))
    assert served.request.coordinator_keys == ["b", "a", "b"]
    assert [(each.key, each.error_code) for each in served.answer.coordinators] == [
        ("b", NONE), ("secret", NO_GROUP), ("a", NONE), ("other", NO_GROUP), ("b", NONE)]


@pytest.mark.parametrize(("version", "error"), [(5, NONE), (6, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)])
def test_keys_of_share_groups_belong_to_brokers(version: int, error: ErrorCode) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["s"])
    served = serve(ROWS[ApiKey.FIND_COORDINATOR], request, [], version, lambda _part: (
        find_coordinator_response.FindCoordinatorResponse()))
    assert served.errors == ({error} if error else set())


def test_offsets_of_some_groups_and_topics() -> None:
    group, topics = offset_fetch_request.OffsetFetchRequestGroup, offset_fetch_request.OffsetFetchRequestTopics
    request = offset_fetch_request.OffsetFetchRequest(groups=[
        group(group_id="hidden", topics=[topics(name="orders", partition_indexes=[0])]),
        group(group_id="all", topics=None),
        group(group_id="some", topics=[topics(name=name, partition_indexes=[3]) for name in ("secret", "orders")])])
    of = offset_fetch_response

    def fetch(part: Any) -> of.OffsetFetchResponse:
        return of.OffsetFetchResponse(groups=[of.OffsetFetchResponseGroup(group_id=each.group_id, topics=[
            of.OffsetFetchResponseTopics(name=name) for name in (
                ("orders", "secret") if each.topics is None else (topic.name for topic in each.topics))])
            for each in part.groups])

    acls = [Acl(Operation.DESCRIBE, GROUP, name) for name in ("all", "some")] + [
        Acl(Operation.DESCRIBE, TOPIC, "orders")]
    served = serve(ROWS[ApiKey.OFFSET_FETCH], request, acls, 9, fetch)
    assert [(each.group_id, each.error_code, [topic.name for topic in each.topics])
            for each in served.answer.groups] == [
        ("hidden", NO_GROUP, []), ("all", NONE, ["orders"]), ("some", NONE, ["orders", "secret"])]
    [partition] = served.answer.groups[2].topics[1].partitions
    assert (partition.partition_index, partition.committed_offset, partition.error_code) == (3, -1, NO_TOPIC)


def test_a_topic_that_may_not_be_written_keeps_the_others_from_being_added() -> None:
    topic = add_partitions_to_txn_request.AddPartitionsToTxnTopic
    request = add_partitions_to_txn_request.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x", v3_and_below_topics=[
            topic(name="orders", partitions=[0, 9]), topic(name="secret", partitions=[0, 9]),
            topic(name="__consumer_offsets", partitions=[0])])
    acls = [Acl(Operation.WRITE, TXN, "x"), Acl(Operation.WRITE, TOPIC, "orders"),
            Acl(Operation.WRITE, TOPIC, "__consumer_offsets")]
    served = serve(ROWS[ApiKey.ADD_PARTITIONS_TO_TXN], request, acls, 3, pytest.fail)
    assert [[each.partition_error_code for each in topic.results_by_partition]
            for topic in served.answer.results_by_topic_v3_and_below] == [
        [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION], [NO_TOPIC, NO_TOPIC], [NO_TOPIC]]


def test_a_transaction_is_described_with_the_topics_that_the_client_knows() -> None:
    of = describe_transactions_response
    served = serve(ROWS[ApiKey.DESCRIBE_TRANSACTIONS], DescribeTransactionsRequest(transactional_ids=["a", "x"]), [
        Acl(Operation.DESCRIBE, TXN, "x"), Acl(Operation.DESCRIBE, TOPIC, "orders")], 0, lambda part: (
        of.DescribeTransactionsResponse(transaction_states=[of.TransactionState(transactional_id=name, topics=[
            of.TopicData(topic=topic) for topic in ("orders", "secret")]) for name in part.transactional_ids])))
    assert [(each.transactional_id, each.error_code, [topic.topic for topic in each.topics])
            for each in served.answer.transaction_states] == [("a", NO_TXN, []), ("x", NONE, ["orders"])]


def test_groups_have_the_operations_of_the_client() -> None:
    of = describe_groups_response
    served = serve(ROWS[ApiKey.DESCRIBE_GROUPS], DescribeGroupsRequest(
        groups=["b", "a"], include_authorized_operations=True), [Acl(Operation.READ, GROUP, "a")], 6, lambda part: (
        of.DescribeGroupsResponse(groups=[of.DescribedGroup(group_id=each) for each in part.groups])))
    assert [(each.group_id, each.error_code, each.authorized_operations) for each in served.answer.groups] == [
        ("b", NO_GROUP, -2**31), ("a", NONE, 1 << Operation.READ | 1 << Operation.DESCRIBE)]


def test_settings_of_each_kind_of_resource() -> None:
    sent, answered = incremental_alter_configs_request, incremental_alter_configs_response
    request = sent.IncrementalAlterConfigsRequest(resources=[
        sent.AlterConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((2, "orders"), (4, "1"), (99, "unknown"), (2, "secret"))])
    served = serve(ROWS[ApiKey.INCREMENTAL_ALTER_CONFIGS], request, [Acl(Operation.ALTER_CONFIGS, TOPIC, "orders")], 1,
                   lambda part: answered.IncrementalAlterConfigsResponse(responses=[
                       answered.AlterConfigsResourceResponse(resource_name=each.resource_name)
                       for each in part.resources]))
    assert [(each.resource_name, each.error_code) for each in served.answer.responses] == [
        ("1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED), ("secret", NO_TOPIC), ("orders", NONE), ("unknown", NONE)]


def test_a_client_sees_its_own_tokens_and_those_that_it_renews() -> None:
    of = describe_delegation_token_response
    tokens = [of.DescribedDelegationToken(token_id=name, principal_type="User", principal_name=owner, renewers=[
        of.DescribedDelegationTokenRenewer(principal_type="User", principal_name=renewer)])
        for name, owner, renewer in (("own", "alice", "bob"), ("renewed", "bob", "alice"), ("other", "bob", "carol"))]
    served = serve(ROWS[ApiKey.DESCRIBE_DELEGATION_TOKEN], DescribeDelegationTokenRequest(owners=None), [], 3,
                   lambda _part: of.DescribeDelegationTokenResponse(tokens=tokens))
    assert [each.token_id for each in served.answer.tokens] == ["own", "renewed"]


@pytest.mark.parametrize("acls", [[], [Acl(Operation.READ, GROUP, "g")]])
def test_a_large_request_is_refused_in_steps(acls: list[Acl]) -> None:
    """One step would hold the loop for some milliseconds."""
    request = commit(*(f"t{number}" for number in range(50)), partitions=200)
    answers: list[Any] = []
    steps = serve_checked(ROWS[ApiKey.OFFSET_COMMIT], Call(
        Access(authorizer(acls).now(), ALICE, HOST), request, 9, answers.append, pytest.fail, finish, refusal, IMAGE))
    assert steps is not None
    assert sum(1 for _ in steps) > 50
    [answer] = answers
    codes = [each.error_code for topic in answer.topics for each in topic.partitions]
    assert codes == [NO_TOPIC if acls else NO_GROUP] * 10_000


def test_markers_are_refused_with_their_partitions() -> None:
    of = write_txn_markers_request
    request = of.WriteTxnMarkersRequest(markers=[of.WritableTxnMarker(producer_id=7, topics=[
        of.WritableTxnMarkerTopic(name="orders", partition_indexes=[1, 0])])])
    [marker] = serve(ROWS[ApiKey.WRITE_TXN_MARKERS], request, [], 1, pytest.fail).answer.markers
    assert marker.producer_id == 7
    assert [each.partition_index for each in marker.topics[0].partitions] == [1, 0]


def test_one_request_is_decided_by_one_set_of_entries() -> None:
    found = authorizer([Acl(Operation.READ, TOPIC, "orders")])
    access = Access(found.now(), ALICE, HOST)
    assert access.may(Operation.READ, TOPIC, "orders") and found.now() is found.now()
    found.load(IMAGE)
    assert access.may(Operation.READ, TOPIC, "orders"), "the request began before the change"
    assert not Access(found.now(), ALICE, HOST).may(Operation.READ, TOPIC, "orders")


def test_the_handler_of_a_broker_is_behind_the_checks() -> None:
    def handle(request: EndTxnRequest, _context: Any, answer: Any, _now_ms: int) -> None:
        answer(request.transactional_id)

    broker = cast("Broker", SimpleNamespace(
        authorizer=authorizer([Acl(Operation.WRITE, TXN, "x")]), image=IMAGE, access_audit=None,
        controller=SimpleNamespace(refuse=refusal), transactions=SimpleNamespace(handle=handle)))
    context = RequestContext(4, "client", HOST, "PLAINTEXT", 0, principal=ALICE, is_small=True)
    answers: list[Any] = []
    for name in ("x", "y"):
        steps = checked_handler_of(ApiKey.END_TXN)(broker, EndTxnRequest(transactional_id=name), context,
                                                   answers.append)
        finish(steps or iter(()))       # type: ignore[arg-type]
    assert answers[0] == "x" and answers[1].error_code == NO_TXN


@pytest.mark.parametrize(("topic", "error"), [("orders", NONE), ("secret", NO_TOPIC)])
def test_a_consumer_group_is_shown_with_topics_that_the_client_may_describe(topic: str, error: ErrorCode) -> None:
    of = consumer_group_describe_response
    member = of.Member(member_id="m", target_assignment=of.Assignment(topic_partitions=[
        of.TopicPartitions(topic_name=topic, partitions=[0])]))
    served = serve(
        ROWS[ApiKey.CONSUMER_GROUP_DESCRIBE], ConsumerGroupDescribeRequest(group_ids=["g"],
                                                                           include_authorized_operations=True),
        [Acl(Operation.READ, GROUP, "g"), Acl(Operation.DESCRIBE, TOPIC, "orders")], 1,
        lambda _part: of.ConsumerGroupDescribeResponse(groups=[
            of.DescribedGroup(group_id="g", group_state="Stable", group_epoch=4, members=[member])]))
    [group] = served.answer.groups
    assert (group.error_code, len(group.members), group.group_epoch) == (error, *((0, 0) if error else (1, 4)))
    assert group.authorized_operations == (-2**31 if error else 1 << Operation.READ | 1 << Operation.DESCRIBE)


@pytest.mark.parametrize(("topic", "error"), [("orders", NONE), ("secret", NO_TOPIC)])
def test_a_share_group_is_shown_with_topics_that_the_client_may_describe(topic: str, error: ErrorCode) -> None:
    of = share_group_describe_response
    member = of.Member(member_id="m", assignment=of.Assignment(topic_partitions=[
        of.TopicPartitions(topic_name=topic, partitions=[0])]))
    served = serve(
        ROWS[ApiKey.SHARE_GROUP_DESCRIBE], ShareGroupDescribeRequest(group_ids=["g"]),
        [Acl(Operation.DESCRIBE, GROUP, "g"), Acl(Operation.DESCRIBE, TOPIC, "orders")], 1,
        lambda _part: of.ShareGroupDescribeResponse(groups=[
            of.DescribedGroup(group_id="g", group_state="Stable", group_epoch=4, members=[member])]))
    [group] = served.answer.groups
    assert (group.error_code, len(group.members), group.group_epoch) == (error, *((0, 0) if error else (1, 4)))


def test_offsets_of_a_share_group_are_shown_for_topics_that_the_client_may_describe() -> None:
    """A request for all topics is answered without the others; a topic that is named is refused."""
    of = describe_share_group_offsets_response
    wanted = describe_share_group_offsets_request
    acls = [Acl(Operation.DESCRIBE, GROUP, "g"), Acl(Operation.DESCRIBE, TOPIC, "orders")]

    def show(topics: list[str] | None) -> dict[str, list[int]]:
        def answer(part: Any) -> Any:
            [group] = part.groups
            names = ["orders", "secret"] if group.topics is None else [each.topic_name for each in group.topics]
            return of.DescribeShareGroupOffsetsResponse(groups=[of.DescribeShareGroupOffsetsResponseGroup(
                group_id="g", topics=[of.DescribeShareGroupOffsetsResponseTopic(topic_name=name, partitions=[
                    of.DescribeShareGroupOffsetsResponsePartition(partition_index=0)]) for name in names])])

        served = serve(
            ROWS[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS], wanted.DescribeShareGroupOffsetsRequest(groups=[
                wanted.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None if topics is None else [
                    wanted.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0]) for name in topics])
            ]), acls, 1, answer)
        [group] = served.answer.groups
        return {topic.topic_name: [part.error_code for part in topic.partitions] for topic in group.topics}

    assert show(None) == {"orders": [NONE]}
    assert show(["orders", "secret"]) == {"orders": [NONE], "secret": [NO_TOPIC]}
