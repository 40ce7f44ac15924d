"""Error messages that repeat what the request named: they are cut. A text of an answer has at most 32,767 bytes."""

from typing import Any

import pytest

from kraft.protocol.messages import alter_configs_request as legacy
from kraft.protocol.messages import create_partitions_request as partitions
from kraft.protocol.messages import describe_client_quotas_request as quotas
from kraft.protocol.messages import describe_configs_request as configs
from kraft.protocol.messages import describe_groups_request as groups
from kraft.protocol.messages import describe_producers_request as producers
from kraft.protocol.messages import describe_user_scram_credentials_request as scram
from kraft.protocol.messages import incremental_alter_configs_request as changes
from kraft.protocol.messages.alter_configs_response import AlterConfigsResponse
from kraft.protocol.messages.create_partitions_response import CreatePartitionsResponse
from kraft.protocol.messages.describe_client_quotas_response import DescribeClientQuotasResponse
from kraft.protocol.messages.describe_configs_response import DescribeConfigsResponse
from kraft.protocol.messages.describe_groups_response import DescribeGroupsResponse
from kraft.protocol.messages.describe_producers_response import DescribeProducersResponse
from kraft.protocol.messages.describe_user_scram_credentials_response import DescribeUserScramCredentialsResponse
from kraft.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from tests.integration.admin import connect
from tests.integration.process import NodeProcess

BROKER, LOGGER = 4, 8
LONG = "\x01" * 32_750
LIST = "a," * 10_000


def change(kind: int, name: str, key: str, value: str) -> changes.IncrementalAlterConfigsRequest:
    return changes.IncrementalAlterConfigsRequest(resources=[changes.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[changes.AlterableConfig(name=key, value=value)])])


REQUESTS: dict[str, tuple[Any, Any]] = {
    "directories": (change(BROKER, "1", "cordoned.log.dirs", LIST), IncrementalAlterConfigsResponse),
    "directories, all settings": (legacy.AlterConfigsRequest(resources=[legacy.AlterConfigsResource(
        resource_type=BROKER, resource_name="1", configs=[legacy.AlterableConfig(
            name="cordoned.log.dirs", value=LIST)])]), AlterConfigsResponse),
    "broker": (change(BROKER, "9" * 32_750, "log.retention.ms", "1"), IncrementalAlterConfigsResponse),
    "logger": (change(LOGGER, "1", LONG, "INFO"), IncrementalAlterConfigsResponse),
    "described broker": (configs.DescribeConfigsRequest(resources=[configs.DescribeConfigsResource(
        resource_type=BROKER, resource_name=LONG)]), DescribeConfigsResponse),
    "user": (scram.DescribeUserScramCredentialsRequest(users=[scram.UserName(name=LONG)]),
             DescribeUserScramCredentialsResponse),
    "entity": (quotas.DescribeClientQuotasRequest(components=[quotas.ComponentData(
        entity_type=LONG, match_type=0, match="x")]), DescribeClientQuotasResponse),
    "group": (groups.DescribeGroupsRequest(groups=[LONG]), DescribeGroupsResponse),
    "topic": (producers.DescribeProducersRequest(topics=[producers.TopicRequest(name=LONG, partition_indexes=[0])]),
              DescribeProducersResponse),
    "topic that grows": (partitions.CreatePartitionsRequest(timeout_ms=1_000, topics=[partitions.CreatePartitionsTopic(
        name=LONG, count=3, assignments=None)]), CreatePartitionsResponse),
}


def messages_of(answer: Any) -> list[str]:
    """All error messages in an answer."""
    if isinstance(answer, list):
        return [text for each in answer for text in messages_of(each)]
    if not hasattr(answer, "unknown_tags"):
        return []
    own = [answer.error_message] if getattr(answer, "error_message", None) else []
    return own + [text for name in answer.__slots__ for text in messages_of(getattr(answer, name))]


@pytest.mark.parametrize("what", REQUESTS)
def test_a_message_that_repeats_the_request_is_cut(node: NodeProcess, what: str) -> None:
    request, response = REQUESTS[what]
    with connect(node) as connection:
        found = messages_of(connection.send(request, response))
    assert all(len(each) <= 2_003 for each in found)
