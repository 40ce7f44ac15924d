"""Choice of the events of the audit, and bounds on their number."""

from typing import Any
from uuid import UUID

import pytest

from kraft.protocol.api_keys import ApiKey
from kraft.protocol.apis import API_BY_KEY
from kraft.protocol.error_codes import ErrorCode
from kraft.security.audit.auditor import Auditor
from kraft.security.audit.event import ALLOWED, DENIED, FAILED, Node, Origin
from kraft.security.audit.kinds import KINDS
from kraft.security.audit.repetitions import KEYS_MAX, PERIOD_MS, SINGLE_MAX
from kraft.security.audit.resources import CHANGES, RESOURCES_MAX, Named, Requested, requested
from kraft.security.principal import Principal

NODE = Node(3, "1.0", 5)
ANN = Origin(Principal.user("ann"), "10.0.0.7", 4711, "app", "OUTSIDE")
DENIED_READ = Requested(ApiKey.FETCH, 12, (Named("topic", "orders"),))


def auditor(*kinds: str) -> tuple[Auditor, list[dict[str, Any]]]:
    written: list[dict[str, Any]] = []
    return Auditor(kinds or KINDS, NODE, written.append), written


def test_only_the_chosen_kinds_are_written() -> None:
    some, written = auditor("logins")
    some.login_failed(ANN, "PLAIN", "no", 0)
    some.denied(ANN, DENIED_READ, "READ", ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0)
    some.answered(ANN, Requested(ApiKey.CREATE_TOPICS, 7), {}, (), 0)
    some.accessed(ANN, DENIED_READ, 0)
    assert written == []
    some.logged_in(ANN, "PLAIN", 0)
    assert len(written) == 1


@pytest.mark.parametrize(("errors", "decision", "status"), [
    ({}, ALLOWED, 1), ({ErrorCode.TOPIC_ALREADY_EXISTS: 1}, FAILED, 2),
    ({ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 2}, DENIED, 2),
    ({ErrorCode.TOPIC_AUTHORIZATION_FAILED: 1, ErrorCode.INVALID_REQUEST: 1}, FAILED, 2)])
def test_the_codes_of_an_answer_are_the_decision(errors: dict[int, int], decision: str, status: int) -> None:
    some, written = auditor()
    some.answered(ANN, Requested(ApiKey.DELETE_TOPICS, 6, (Named("topic", "t"),)), errors, ((7, 9),), 11)
    [event] = written
    assert (event["unmapped"]["decision"], event["status_id"], event["time"]) == (decision, status, 11)
    assert event["unmapped"]["metadata_offsets"] == [[7, 9]]
    assert (event["class_uid"], event["activity_name"], event["type_uid"]) == (6003, "Delete", 600304)


def test_an_event_has_its_client_and_a_unique_name() -> None:
    some, written = auditor()
    for _ in range(2):
        some.answered(ANN, Requested(ApiKey.CREATE_TOPICS, 7), {}, (), 0)
    assert [each["metadata"]["uid"] for each in written] == ["3-5-1", "3-5-2"]
    assert written[0]["actor"] == {"user": {"name": "ann", "type": "User", "type_id": 1, "uid": "User:ann"},
                                   "app_name": "app"}
    assert written[0]["src_endpoint"] == {"ip": "10.0.0.7", "port": 4711}


def test_repeated_denials_are_counted_together() -> None:
    some, written = auditor()
    for now_ms in range(SINGLE_MAX + 10):
        some.denied(ANN, DENIED_READ, "READ", ErrorCode.TOPIC_AUTHORIZATION_FAILED, now_ms)
    assert len(written) == SINGLE_MAX
    some.tick(PERIOD_MS - 1)
    assert len(written) == SINGLE_MAX
    some.tick(PERIOD_MS)
    last = written[-1]
    assert (last["count"], last["start_time"], last["end_time"]) == (10, SINGLE_MAX, SINGLE_MAX + 9)
    assert last["metadata"]["uid"] != written[0]["metadata"]["uid"]
    some.denied(ANN, DENIED_READ, "READ", ErrorCode.TOPIC_AUTHORIZATION_FAILED, PERIOD_MS)
    assert "count" not in written[-1]


def test_many_addresses_do_not_write_without_bound() -> None:
    some, written = auditor()
    for number in range(10 * KEYS_MAX):
        some.login_failed(ANN._replace(host=f"10.1.{number >> 8}.{number & 255}"), "TLS", "no", 1)
    assert len(written) == KEYS_MAX + SINGLE_MAX
    some.tick(1, is_end=True)
    assert sum(each.get("count", 1) for each in written) == 10 * KEYS_MAX


@pytest.mark.parametrize("key", CHANGES)
def test_every_administrative_request_is_described(key: int) -> None:
    kind = API_BY_KEY[key].request
    found = requested(kind(), API_BY_KEY[key].versions[-1], lambda _id: None)
    assert found.api_key == key
    some, written = auditor()
    some.answered(ANN, found, {}, (), 0)
    assert written[0]["activity_name"] != ""


def test_a_request_with_many_names_is_cut() -> None:
    from kraft.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
    topic_id = UUID(int=7)
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic_id)] * (RESOURCES_MAX + 1))
    found = requested(request, 6, {topic_id: "orders"}.get)
    assert (len(found.resources), found.is_cut) == (RESOURCES_MAX, True)
    assert found.resources[0] == Named("topic", "orders")


def test_keys_and_tokens_are_not_named() -> None:
    from kraft.protocol.messages.alter_user_scram_credentials_request import (
        AlterUserScramCredentialsRequest,
        ScramCredentialUpsertion,
    )
    from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
    from kraft.protocol.messages.incremental_alter_configs_request import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )
    secret = "c2VjcmV0"
    requests = [
        AlterUserScramCredentialsRequest(upsertions=[ScramCredentialUpsertion(
            name="ann", mechanism=1, iterations=4096, salt=secret.encode(), salted_password=secret.encode())]),
        ExpireDelegationTokenRequest(hmac=secret.encode()),
        IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(
            resource_type=4, resource_name="1", configs=[AlterableConfig(name="ssl.key.password", value=secret)])])]
    for request in requests:
        assert secret not in repr(requested(request, 0, lambda _id: None))
