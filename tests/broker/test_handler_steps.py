"""Cost of a large request: handlers yield often, and do not compare all pairs of names."""
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, cast
from uuid import UUID

import pytest

from kraft.broker.api import COUNTED_AT_ONCE, STEP, RequestContext, Steps
from kraft.broker.apis.client_quotas import describe_client_quotas
from kraft.broker.apis.describe_configs import describe_configs
from kraft.broker.apis.describe_log_dirs import describe_log_dirs
from kraft.broker.apis.describe_producers import describe_producers
from kraft.broker.apis.describe_topic_partitions import describe_topic_partitions
from kraft.broker.apis.find_coordinator import find_coordinator
from kraft.broker.apis.incremental_alter_configs import incremental_alter_configs
from kraft.broker.apis.list_config_resources import list_config_resources
from kraft.broker.apis.list_offsets import list_offsets
from kraft.broker.apis.user_scram import describe_user_scram_credentials
from kraft.broker.broker import Broker
from kraft.broker.cordons import broker_refusal
from kraft.broker.internal_topics import OFFSETS_TOPIC
from kraft.controller.client_quotas import alter_client_quotas
from kraft.controller.decision import Context
from kraft.metadata.image import EMPTY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import alter_client_quotas_request as quotas
from kraft.protocol.messages import describe_log_dirs_request as dirs
from kraft.protocol.messages import describe_producers_request as producers
from kraft.protocol.messages import describe_topic_partitions_request as topics
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kraft.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

COUNT = 2_000
COMPARED_MAX = 10 * COUNT
"""A comparison of all pairs would be a thousand for each element."""


class Name(str):
    """A name that counts comparisons, and how often it is hashed."""

    compared: ClassVar[int] = 0
    hashed: ClassVar[int] = 0
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        Name.hashed += 1
        return str.__hash__(self)


class Number(int):
    """A number that counts comparisons, as `Name` does."""

    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Number.compared += 1
        return int.__eq__(self, other)

    def __hash__(self) -> int:
        Name.hashed += 1
        return int.__hash__(self)


class Served:
    """One request to a minimal broker: its `answer`, the number of `steps`, and how often one step hashed a name or a
    number, at most."""

    def __init__(self, handler: Callable[..., Steps], request: Message,
                 scram: Mapping[tuple[int, str], object] = MappingProxyType({})) -> None:
        topic = SimpleNamespace(partitions={0: SimpleNamespace(leader=1)})
        image = SimpleNamespace(scram=scram, brokers={}, topic=lambda name: topic if name == OFFSETS_TOPIC else None,
                                partition=lambda _t, _i: None, topic_ids={"t": UUID(int=1)})
        broker = SimpleNamespace(
            image=image, partition=lambda _topic, _index: None, leaders=SimpleNamespace(submit=self._submit),
            absence=lambda _topic, _index: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            table=SimpleNamespace(settle=lambda: False), log_dirs=SimpleNamespace(usage=tuple),
            integer=lambda _name: 2_000, node_id=1, loggers=SimpleNamespace(levels=dict))
        self.steps: list[int] = []
        self.hashed_max = 0
        self.answer: Any = None
        context = RequestContext(11, "client", "127.0.0.1", "PLAINTEXT", 0, self._run)
        self._run(handler(cast("Broker", broker), request, context, self._answered))

    def _run(self, steps: Steps) -> None:
        count, before = 0, Name.hashed
        for _ in steps:
            count += 1
            self.hashed_max = max(self.hashed_max, Name.hashed - before)
            before = Name.hashed
        self.steps.append(count)

    def _submit(self, _leaders: object, answer: Callable[[tuple[int, ...]], None]) -> None:
        answer(())

    def _answered(self, response: Message) -> None:
        self.answer = response


def offsets() -> Message:
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[
        ListOffsetsPartition(partition_index=Number(index), timestamp=-1) for index in range(COUNT)])])


def users() -> Message:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=Name(f"u{number}")) for number in range(COUNT)])


def coordinators() -> Message:
    return FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{number}" for number in range(COUNT)])


@pytest.mark.parametrize(("handler", "make"), [
    (list_offsets, offsets), (describe_user_scram_credentials, users), (find_coordinator, coordinators)])
def test_a_handler_gives_way_and_compares_little(handler: Callable[..., Steps], make: Callable[[], Message]) -> None:
    request = make()
    Name.compared = Number.compared = 0
    served = Served(handler, request)
    assert served.answer is not None
    assert all(steps >= COUNT // STEP for steps in served.steps if steps)
    assert max(served.steps) >= COUNT // STEP
    assert Name.compared + Number.compared <= COMPARED_MAX


def partitions() -> list[int]:
    return [Number(index) for index in range(COUNT)]


LISTS: tuple[tuple[Callable[..., Steps], Callable[[], Message]], ...] = (
    (list_offsets, offsets), (describe_user_scram_credentials, users),
    (describe_producers, lambda: producers.DescribeProducersRequest(topics=[
        producers.TopicRequest(name="t", partition_indexes=partitions())])),
    (describe_log_dirs, lambda: dirs.DescribeLogDirsRequest(topics=[
        dirs.DescribableLogDirTopic(topic="t", partitions=partitions())])),
    (describe_topic_partitions, lambda: topics.DescribeTopicPartitionsRequest(topics=[
        topics.TopicRequest(name=Name(f"t{number}")) for number in range(COUNT)])),
    (describe_configs, lambda: DescribeConfigsRequest(resources=[DescribeConfigsResource(
        resource_type=99, resource_name="r", configuration_keys=[Name(f"k{number}") for number in range(COUNT)])])),
    (list_config_resources, lambda: ListConfigResourcesRequest(
        resource_types=[Number(2) for _ in range(COUNT)])),
    (incremental_alter_configs, lambda: IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(
        resource_type=8, resource_name=Name(f"{number}")) for number in range(COUNT)])))


@pytest.mark.parametrize(("handler", "make"), LISTS)
def test_a_list_within_a_request_is_read_in_steps(handler: Callable[..., Steps], make: Callable[[], Message]) -> None:
    """A set of all its elements in one step would take 10 ms for a hundred thousand."""
    request = make()
    Name.hashed = 0
    served = Served(handler, request)
    assert served.answer is not None
    assert Name.hashed >= COUNT
    assert served.hashed_max <= 4 * COUNTED_AT_ONCE


@pytest.mark.parametrize("topic_count", [1, COUNT])
def test_list_offsets_gives_way_before_it_looks_for_data(topic_count: int) -> None:
    """Also without a time, and for topics without partitions: the first of two parts of its work."""
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[
        ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(COUNT // topic_count - 1)])
        for _ in range(topic_count)])
    first = Served(list_offsets, request).steps[-1]
    assert first >= COUNT - 1


def test_all_users_are_sorted_in_steps() -> None:
    scram = {(mechanism, f"u{number:04}"): SimpleNamespace(iterations=4096 * mechanism)
             for mechanism in (1, 2) for number in range(COUNT)}
    del scram[1, "u0007"]
    served = Served(describe_user_scram_credentials, DescribeUserScramCredentialsRequest(users=[]), scram)
    found = {each.user: [(info.mechanism, info.iterations) for info in each.credential_infos]
             for each in served.answer.results}
    assert len(found) == COUNT
    assert found["u0007"] == [(2, 8192)]
    assert found["u0008"] == [(1, 4096), (2, 8192)]
    assert {each.error_code for each in served.answer.results} == {ErrorCode.NONE}


def test_finding_leaders_gives_way() -> None:
    """The handler yields before the leaders are checked, and after it."""
    finding, answering = sorted(Served(find_coordinator, coordinators()).steps)
    assert finding >= COUNT // STEP
    assert answering >= COUNT // STEP


def test_a_group_named_many_times_is_described_once() -> None:
    served = Served(describe_configs, DescribeConfigsRequest(resources=[
        DescribeConfigsResource(resource_type=99, resource_name=f"r{number % 2}") for number in range(COUNT)]))
    assert [each.resource_name for each in served.answer.results] == ["r0", "r1"]


def test_a_type_that_is_named_many_times_is_listed_once() -> None:
    served = Served(list_config_resources, ListConfigResourcesRequest(resource_types=[2] * COUNT + [8]))
    assert [(each.resource_name, each.resource_type) for each in served.answer.config_resources] == [("t", 2)]


def test_a_filter_of_quotas_is_refused_by_its_first_components() -> None:
    class Component(SimpleNamespace):
        read = 0

        @property
        def entity_type(self) -> str:
            Component.read += 1
            return "user"

    request = SimpleNamespace(components=[Component(match_type=2, match=None) for _ in range(COUNT)])
    served = Served(describe_client_quotas, cast("Message", request))
    assert served.answer.error_code == ErrorCode.INVALID_REQUEST
    assert Component.read <= 20


def test_cordoned_directories_are_checked_once_per_request() -> None:
    """A second change of the same setting is refused by the controller."""
    checked = 0

    class Value(str):
        __slots__ = ()

        def split(self, *arguments: Any) -> list[str]:
            nonlocal checked
            checked += 1
            return str.split(self, *arguments)

    changes = [AlterableConfig(name="cordoned.log.dirs", config_operation=0, value=Value("/a")) for _ in range(COUNT)]
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=changes)
    broker = cast("Broker", SimpleNamespace(node_id=1, config=SimpleNamespace(log_dirs=(Path("/a"),))))
    assert broker_refusal(broker, resource, 1) is None
    assert checked == 1


def test_entities_of_quotas_are_not_compared_with_each_other() -> None:
    request = quotas.AlterClientQuotasRequest(entries=[
        quotas.EntryData(entity=[quotas.EntityData(entity_type="user", entity_name=Name(f"u{number}"))], ops=[])
        for number in range(COUNT)])
    Name.compared = 0
    decision = alter_client_quotas(cast("Context", SimpleNamespace(image=EMPTY)), request)
    assert [each.error_code for each in decision.response.entries] == [ErrorCode.NONE] * COUNT
    assert Name.compared <= COMPARED_MAX
