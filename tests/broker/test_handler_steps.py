"""Cost of a large request: handlers yield often, and do not compare all pairs of names."""
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from kraft.broker.api import STEP, RequestContext, Steps
from kraft.broker.apis.describe_configs import describe_configs
from kraft.broker.apis.find_coordinator import find_coordinator
from kraft.broker.apis.list_offsets import list_offsets
from kraft.broker.apis.user_scram import describe_user_scram_credentials
from kraft.broker.broker import Broker
from kraft.controller.client_quotas import alter_client_quotas
from kraft.controller.decision import Context
from kraft.metadata.image import EMPTY
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages import alter_client_quotas_request as quotas
from kraft.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kraft.protocol.messages.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from kraft.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from kraft.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

COUNT = 2_000
COMPARED_MAX = 10 * COUNT
"""A comparison of all pairs would be a thousand for each element."""


class Name(str):
    """A name that counts comparisons."""

    compared: ClassVar[int] = 0
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class Number(int):
    """A number that counts comparisons, as `Name` does."""

    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        Number.compared += 1
        return int.__eq__(self, other)

    __hash__ = int.__hash__


class Served:
    """One request to a minimal broker: its `answer`, and the number of `steps`."""

    def __init__(self, handler: Callable[..., Steps], request: Message) -> None:
        topic = SimpleNamespace(partitions={0: SimpleNamespace(leader=1)})
        image = SimpleNamespace(scram={}, brokers={}, topic=lambda _name: topic)
        broker = SimpleNamespace(
            image=image, partition=lambda _topic, _index: None, leaders=SimpleNamespace(submit=self._submit),
            absence=lambda _topic, _index: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.steps: list[int] = []
        self.answer: Any = None
        context = RequestContext(11, "client", "127.0.0.1", "PLAINTEXT", 0, self._run)
        self._run(handler(cast("Broker", broker), request, context, self._answered))

    def _run(self, steps: Steps) -> None:
        self.steps.append(sum(1 for _ in steps))

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


def test_finding_leaders_gives_way() -> None:
    """The handler yields before the leaders are checked, and after it."""
    finding, answering = sorted(Served(find_coordinator, coordinators()).steps)
    assert finding >= COUNT // STEP
    assert answering >= COUNT // STEP


def test_what_is_named_many_times_is_described_once() -> None:
    served = Served(describe_configs, DescribeConfigsRequest(resources=[
        DescribeConfigsResource(resource_type=99, resource_name=f"r{number % 2}") for number in range(COUNT)]))
    assert [each.resource_name for each in served.answer.results] == ["r0", "r1"]


def test_entities_of_quotas_are_not_compared_with_each_other() -> None:
    request = quotas.AlterClientQuotasRequest(entries=[
        quotas.EntryData(entity=[quotas.EntityData(entity_type="user", entity_name=Name(f"u{number}"))], ops=[])
        for number in range(COUNT)])
    Name.compared = 0
    decision = alter_client_quotas(cast("Context", SimpleNamespace(image=EMPTY)), request)
    assert [each.error_code for each in decision.response.entries] == [0] * COUNT
    assert Name.compared <= COMPARED_MAX
