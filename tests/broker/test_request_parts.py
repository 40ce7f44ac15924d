"""Large requests in parts: every element is served once, and the answer equals that of the whole."""

from collections.abc import Callable
from typing import Any

import pytest

from kraft.broker.api import Steps
from kraft.broker.request_parts import (
    CHANGES_MAX,
    ENTRIES_MAX,
    PLANS,
    RANGES_MAX,
    STEP,
    Level,
    Plan,
    _leaves,
    merged,
    serve_in_parts,
)
from kraft.metadata.image import EMPTY
from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import (
    assign_replicas_to_dirs_request,
    assign_replicas_to_dirs_response,
    create_topics_response,
    delete_topics_request,
    delete_topics_response,
    incremental_alter_configs_request,
    incremental_alter_configs_response,
    offset_fetch_request,
    offset_fetch_response,
)
from kraft.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from kraft.protocol.messages.assign_replicas_to_dirs_response import AssignReplicasToDirsResponse
from kraft.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kraft.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kraft.protocol.messages.delete_groups_request import DeleteGroupsRequest
from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest
from kraft.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from kraft.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from kraft.protocol.messages.offset_fetch_request import OffsetFetchRequest
from kraft.protocol.messages.offset_fetch_response import OffsetFetchResponse
from kraft.steps import finish

IN_STEPS = {
    "AddRaftVoter", "AlterReplicaLogDirs", "BeginQuorumEpoch", "BrokerHeartbeat", "BrokerRegistration",
    "ControllerRegistration", "CreateDelegationToken", "DeleteRecords", "DescribeClientQuotas", "DescribeConfigs",
    "DescribeDelegationToken", "DescribeLogDirs", "DescribeProducers", "DescribeQuorum", "DescribeTopicPartitions",
    "DescribeUserScramCredentials", "DiscoverBrokers", "EndQuorumEpoch", "Fetch", "FetchSnapshot", "FindCoordinator",
    "JoinGroup", "ListConfigResources", "ListGroups", "ListOffsets", "ListTransactions", "Metadata",
    "OffsetForLeaderEpoch", "Produce", "ShareAcknowledge", "ShareFetch", "SyncGroup", "UpdateFeatures",
    "UpdateRaftVoter", "Vote", "WriteTxnMarkers",
}
"""APIs with an array whose requests are not divided: their handlers take steps, or limit the number of elements. The
attack (`tests/attack`) shows that they do."""


class Server:
    """Serve parts, at once or when the test says so."""

    def __init__(self, respond: Callable[[Any], Message], *, later: bool = False) -> None:
        self.respond, self.later = respond, later
        self.parts: list[Any] = []
        self.answers: list[Any] = []
        self.waiting: list[Callable[[], None]] = []
        self.reasons: list[str] = []

    def send(self, part: Message, answer: Callable[[Message], None]) -> None:
        self.parts.append(part)
        if self.later:
            self.waiting.append(lambda: answer(self.respond(part)))
        else:
            answer(self.respond(part))

    def serve(self, request: Message) -> Any:
        """The answer, which must have left exactly once."""
        def refuse(part: Message, why: str) -> Message:
            self.reasons.append(why)
            return self.respond(part.replace(timeout_ms=-1) if hasattr(part, "timeout_ms") else part)

        finish(serve_in_parts(request, self.send, self.answers.append, self.run, refuse))
        while self.waiting:
            assert len(self.waiting) == 1, "a part is sent when the one before it is answered"
            self.waiting.pop()()
        assert len(self.answers) == 1
        return self.answers[0]

    def run(self, steps: Steps) -> None:
        finish(steps)


def created(part: CreateTopicsRequest) -> CreateTopicsResponse:
    code = ErrorCode.POLICY_VIOLATION if part.timeout_ms == -1 else ErrorCode.NONE
    return CreateTopicsResponse(throttle_time_ms=len(part.topics), topics=[
        CreatableTopicResult(name=each.name, error_code=code) for each in part.topics])


def topics(*names: str, **fields: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, **fields) for name in names], timeout_ms=5,
                               validate_only=True)


def test_every_request_with_an_array_is_divided_or_served_in_steps() -> None:
    with_array = {api.name for api in API_BY_KEY.values() if api.key not in PLANS and any(
        isinstance(getattr(api.request(), name), list) for name in api.request.__slots__)}
    assert with_array == IN_STEPS


@pytest.mark.parametrize("later", [False, True])
def test_small_requests_go_as_they_are_and_large_ones_in_parts(later: bool) -> None:
    small = Server(created, later=later)
    request = topics("a", "b")
    assert [each.name for each in small.serve(request).topics] == ["a", "b"]
    assert small.parts[0] is request
    names = [f"t{number}" for number in range(1000)]
    large = Server(created, later=later)
    answer = large.serve(topics(*names))
    assert [each.name for each in answer.topics] == names
    assert len(large.parts) == -(-1000 // PLANS[ApiKey.CREATE_TOPICS].size)
    assert all(part.timeout_ms == 5 and part.validate_only for part in large.parts)
    assert answer.throttle_time_ms == PLANS[ApiKey.CREATE_TOPICS].size        # the longest


def test_elements_of_the_same_name_stay_together() -> None:
    server = Server(created)
    server.serve(topics(*["x", *(f"t{number}" for number in range(500)), *["x"] * 500]))
    assert [each.name for each in server.parts[0].topics].count("x") == 2
    assert sum([each.name for each in part.topics].count("x") for part in server.parts) == 2


def test_a_heavy_element_is_alone() -> None:
    server = Server(created)
    server.serve(CreateTopicsRequest(topics=[CreatableTopic(name="a"), CreatableTopic(name="b", num_partitions=500),
                                             CreatableTopic(name="c")]))
    assert [[each.name for each in part.topics] for part in server.parts] == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize(("count", "partitions", "refused"), [
    (CHANGES_MAX, 1, False), (CHANGES_MAX + 1, 1, True), (2, CHANGES_MAX // 2, False), (2, CHANGES_MAX // 2 + 1, True)])
def test_too_many_changes_are_refused_one_by_one(count: int, partitions: int, refused: bool) -> None:
    server = Server(created)
    names = [f"t{number}" for number in range(count)]
    answer = server.serve(topics(*names, num_partitions=partitions))
    assert [each.name for each in answer.topics] == names
    expected = ErrorCode.POLICY_VIOLATION if refused else ErrorCode.NONE
    assert all(each.error_code == expected for each in answer.topics)
    assert bool(server.parts) is not refused
    assert list(dict.fromkeys(server.reasons)) == (
        ["Excessively large number of partitions per request."] if refused else []), "Kafka's words"


def test_an_element_with_too_many_settings_is_refused_alone() -> None:
    m = incremental_alter_configs_request

    def altered(part: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        refused = len(part.resources[0].configs) > ENTRIES_MAX
        return IncrementalAlterConfigsResponse(responses=[
            incremental_alter_configs_response.AlterConfigsResourceResponse(
                resource_name=each.resource_name, error_code=44 if refused else 0) for each in part.resources])

    server = Server(altered)
    answer = server.serve(IncrementalAlterConfigsRequest(resources=[
        m.AlterConfigsResource(resource_name=name, configs=[m.AlterableConfig(name=f"c{number}")
                                                            for number in range(count)])
        for name, count in (("a", 1), ("b", ENTRIES_MAX + 1), ("c", ENTRIES_MAX))]))
    assert [(each.resource_name, each.error_code) for each in answer.responses] == [
        ("a", ErrorCode.NONE), ("b", ErrorCode.POLICY_VIOLATION), ("c", ErrorCode.NONE)]
    assert [part.resources[0].resource_name for part in server.parts] == ["a", "c"]


def test_two_arrays_of_one_request() -> None:
    m = delete_topics_request

    def deleted(part: DeleteTopicsRequest) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=[
            DeletableTopicResult(name=name) for name in [*part.topic_names, *(each.name for each in part.topics)]])

    server = Server(deleted)
    answer = server.serve(DeleteTopicsRequest(
        topic_names=[f"n{number}" for number in range(300)],
        topics=[m.DeleteTopicState(name=f"t{number}") for number in range(300)]))
    assert sorted(each.name for each in answer.responses) == sorted(
        [f"n{number}" for number in range(300)] + [f"t{number}" for number in range(300)])
    assert delete_topics_response.DeleteTopicsResponse is DeleteTopicsResponse


def test_three_levels_are_put_together_again() -> None:
    sent, answered = assign_replicas_to_dirs_request, assign_replicas_to_dirs_response
    ids = [create_topics_response.CreatableTopicResult().topic_id.__class__(int=number + 200) for number in range(5)]

    def assigned(part: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        return AssignReplicasToDirsResponse(directories=[answered.DirectoryData(id=directory.id, topics=[
            answered.TopicData(topic_id=topic.topic_id, partitions=[
                answered.PartitionData(partition_index=each.partition_index) for each in topic.partitions])
            for topic in directory.topics]) for directory in part.directories])

    server = Server(assigned, later=True)
    request = AssignReplicasToDirsRequest(broker_id=3, directories=[
        sent.DirectoryData(id=directory, topics=[sent.TopicData(topic_id=topic, partitions=[
            sent.PartitionData(partition_index=index) for index in range(count)])
            for topic, count in zip(ids, (0, 1, 300, 7, 100), strict=True)]) for directory in ids[:2]])
    assert server.serve(request) == assigned(request)
    assert len(server.parts) > 3 and all(part.broker_id == 3 for part in server.parts)


@pytest.mark.parametrize("count", [5, 300])
def test_a_group_that_two_members_name_has_two_results(count: int) -> None:
    """Each member has its own answer, so neither mention is dropped or merged into the other."""
    sent, answered = offset_fetch_request, offset_fetch_response
    last = list(range(count))
    codes = {"a": ErrorCode.NONE, "b": ErrorCode.UNKNOWN_MEMBER_ID}

    def fetched(part: OffsetFetchRequest) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=[answered.OffsetFetchResponseGroup(
            group_id=group.group_id, error_code=codes[group.member_id or ""], topics=[
                answered.OffsetFetchResponseTopics(name=topic.name, partitions=[
                    answered.OffsetFetchResponsePartitions(partition_index=index) for index in topic.partition_indexes])
                for topic in group.topics or ()]) for group in part.groups])

    server = Server(fetched)
    answer = server.serve(OffsetFetchRequest(groups=[
        sent.OffsetFetchRequestGroup(group_id="g", member_id=member, topics=[
            sent.OffsetFetchRequestTopics(name="t", partition_indexes=indexes)])
        for member, indexes in (("a", [0, 1]), ("b", [0, 0, *last]))]))
    assert [(group.error_code, [each.partition_index for each in group.topics[0].partitions])
            for group in answer.groups] == [(codes["a"], [0, 1]), (codes["b"], last)]


@pytest.mark.parametrize("count", [3, 3000])
def test_records_are_read_once(count: int) -> None:
    sent, answered = offset_fetch_request, offset_fetch_response

    def fetched(part: OffsetFetchRequest) -> OffsetFetchResponse:
        return OffsetFetchResponse(groups=[answered.OffsetFetchResponseGroup(group_id=group.group_id, topics=[
            answered.OffsetFetchResponseTopics(name=topic.name, partitions=[
                answered.OffsetFetchResponsePartitions(partition_index=index) for index in topic.partition_indexes])
            for topic in group.topics or ()]) for group in part.groups])

    server = Server(fetched)
    answer = server.serve(OffsetFetchRequest(require_stable=True, groups=[
        *[sent.OffsetFetchRequestGroup(group_id="all", topics=None)] * count,
        *[sent.OffsetFetchRequestGroup(group_id="g", topics=[
            sent.OffsetFetchRequestTopics(name="t", partition_indexes=[1, 2, *[3] * count])])] * 2]))
    assert [group.group_id for group in answer.groups] == ["all", "g"]
    assert [each.partition_index for each in answer.groups[1].topics[0].partitions] == [1, 2, 3]
    assert all(part.require_stable for part in server.parts)


def test_a_long_value_weighs_as_many_settings() -> None:
    """Its list is read: 32 of them in one part took 200 ms."""
    m = incremental_alter_configs_request

    def resources(value: str) -> list[int]:
        server = Server(lambda _part: incremental_alter_configs_response.IncrementalAlterConfigsResponse())
        server.serve(IncrementalAlterConfigsRequest(resources=[m.AlterConfigsResource(
            resource_type=2, resource_name=f"t{number}", configs=[
                m.AlterableConfig(name="n", config_operation=0, value=value)]) for number in range(32)]))
        return [len(part.resources) for part in server.parts]

    assert resources("1") == [32]
    assert resources("0:1," * 8_000) == [1] * 32


def test_every_plan_names_what_its_messages_have() -> None:
    for key, plan in PLANS.items():
        for path in plan.paths:
            assert path[0].request in API_BY_KEY[key].request.__slots__
            assert path[0].response in API_BY_KEY[key].response.__slots__
    assert ApiKey.CREATE_TOPICS in PLANS


class Key:
    """Identity of an element that counts its instances."""

    alive = 0

    def __init__(self) -> None:
        Key.alive += 1

    def __del__(self) -> None:
        Key.alive -= 1


def test_the_groups_of_elements_are_freed_in_steps() -> None:
    count = 2_000
    plan = Plan(((Level("groups_names", "results"),),), 4, same=lambda _around, _element: Key())
    steps = _leaves(plan, DeleteGroupsRequest(groups_names=[f"g{number}" for number in range(count)]), EMPTY)
    most = alive = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            leaves = end.value
            break
        finally:
            most, alive = max(most, alive - Key.alive), Key.alive
    assert [leaf.element for leaf in leaves] == [f"g{number}" for number in range(count)]
    assert most <= STEP


def test_what_connects_the_answers_is_freed_in_steps() -> None:
    """Also when the last answer comes later: its caller still refers to the parts then."""
    topics = [offset_fetch_request.OffsetFetchRequestTopic(name=f"t{number}", partition_indexes=[0])
              for number in range(10_000)]
    waiting: list[Callable[[], None]] = []
    answers: list[Message] = []
    steps_after = 0

    def send(part: Any, answer: Callable[[Message], None]) -> None:
        waiting.append(lambda: answer(OffsetFetchResponse(topics=[
            offset_fetch_response.OffsetFetchResponseTopic(name=each.name, partitions=[
                offset_fetch_response.OffsetFetchResponsePartition()]) for each in part.topics])))

    def run(steps: Steps) -> None:
        nonlocal steps_after
        for _ in steps:
            steps_after += len(answers)

    finish(serve_in_parts(OffsetFetchRequest(topics=topics), send, answers.append, run))
    while waiting:
        waiting.pop()()
    assert len(answers) == 1 and steps_after > 10_000 // 512


def test_ranges_of_parts_are_merged() -> None:
    assert merged(((1, 3),), ((4, 6),)) == ((1, 6),)
    assert merged(((1, 3),), ((5, 6),)) == ((1, 3), (5, 6))
    many = tuple((2 * n, 2 * n) for n in range(RANGES_MAX))
    assert merged(many, ((1000, 1000),)) == many
