"""Requests about authentication and authorization on a node without them: the node answers as Kafka does, and the
connection continues to serve."""

from typing import Any

import pytest

from kraft.client.connection import Connection
from kraft.protocol.apis import API_BY_KEY, API_BY_NAME
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.headers import decode_response_header, encode_request_header
from kraft.protocol.message import Message
from kraft.protocol.messages.create_acls_request import AclCreation, CreateAclsRequest
from kraft.protocol.messages.create_acls_response import CreateAclsResponse
from kraft.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kraft.protocol.messages.create_delegation_token_response import CreateDelegationTokenResponse
from kraft.protocol.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kraft.protocol.messages.delete_acls_response import DeleteAclsResponse
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.protocol.messages.describe_acls_response import DescribeAclsResponse
from kraft.protocol.messages.describe_delegation_token_request import DescribeDelegationTokenRequest
from kraft.protocol.messages.describe_delegation_token_response import DescribeDelegationTokenResponse
from kraft.protocol.messages.envelope_request import EnvelopeRequest
from kraft.protocol.messages.envelope_response import EnvelopeResponse
from kraft.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from kraft.protocol.messages.expire_delegation_token_response import ExpireDelegationTokenResponse
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kraft.protocol.messages.renew_delegation_token_response import RenewDelegationTokenResponse
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.integration.admin import connect
from tests.integration.process import NodeProcess

DISABLED = ErrorCode.SECURITY_DISABLED
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
CREATION = AclCreation(resource_type=2, resource_name="t", resource_pattern_type=3, principal="User:x", host="*",
                       operation=4, permission_type=3)
FILTER = DeleteAclsFilter(resource_type_filter=2, resource_name_filter="t", pattern_type_filter=3, operation=1,
                          permission_type=1)
ACLS: tuple[Message, ...] = (CreateAclsRequest(creations=[CREATION]), DeleteAclsRequest(filters=[FILTER]))
TOKENS: tuple[Message, ...] = (CreateDelegationTokenRequest(), RenewDelegationTokenRequest(hmac=b"\1"),
                               ExpireDelegationTokenRequest(hmac=b"\1"))


def test_sasl_on_a_plain_listener(node: NodeProcess) -> None:
    """Every mechanism is refused, however often and however large the request is; none is believed."""
    requests: list[tuple[str, Message]] = [
        ("SaslHandshake", SaslHandshakeRequest(mechanism=mechanism)) for mechanism in ("PLAIN", "NONE", "x" * 30_000)]
    requests += [("SaslAuthenticate", SaslAuthenticateRequest(auth_bytes=bytes(size))) for size in (0, 10, 524_289)]
    with connect(node) as connection:
        for name, request in requests * 20:
            answer: Any = connection.send(request, API_BY_NAME[name].response)
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acls_without_an_authorizer(node: NodeProcess, version: int) -> None:
    """The node refuses each creation and each filter on its own."""
    with connect(node) as connection:
        found = connection.send(DescribeAclsRequest(resource_type_filter=2, pattern_type_filter=3, operation=2,
                                                    permission_type=2), DescribeAclsResponse, version=version)
        assert (found.error_code, found.resources) == (DISABLED, [])
        assert found.error_message
        made = connection.send(CreateAclsRequest(creations=[CREATION] * 2), CreateAclsResponse, version=version)
        assert [each.error_code for each in made.results] == [DISABLED] * 2
        deleted = connection.send(DeleteAclsRequest(filters=[FILTER] * 3), DeleteAclsResponse, version=version)
        assert [(each.error_code, each.matching_acls) for each in deleted.filter_results] == [(DISABLED, [])] * 3


@pytest.mark.parametrize("version", [1, 2, 3])
def test_delegation_tokens_on_a_plain_listener(node: NodeProcess, version: int) -> None:
    """Refused as Kafka refuses them there: the answer names the requesting principal, and -1 for every time."""
    with connect(node) as connection:
        made = connection.send(CreateDelegationTokenRequest(), CreateDelegationTokenResponse, version=version)
        assert (made.error_code, made.principal_type, made.principal_name) == (NOT_ALLOWED, "User", "ANONYMOUS")
        assert made.token_requester_principal_name == ("ANONYMOUS" if version >= 3 else "")
        assert (made.issue_timestamp_ms, made.expiry_timestamp_ms, made.max_timestamp_ms) == (-1, -1, -1)
        assert (made.token_id, made.hmac) == ("", b"")
        older = min(version, 2)
        renewed = connection.send(RenewDelegationTokenRequest(hmac=b"\1"), RenewDelegationTokenResponse, version=older)
        expired = connection.send(ExpireDelegationTokenRequest(hmac=b"\1"), ExpireDelegationTokenResponse,
                                  version=older)
        for each in (renewed, expired):
            assert (each.error_code, each.expiry_timestamp_ms) == (NOT_ALLOWED, -1)
        found = connection.send(DescribeDelegationTokenRequest(owners=None), DescribeDelegationTokenResponse,
                                version=version)
        assert (found.error_code, found.tokens) == (NOT_ALLOWED, [])


@pytest.mark.parametrize("forwarded", [*ACLS, *TOKENS], ids=lambda each: type(each).__name__)
def test_no_envelope_switches_them_on(node: NodeProcess, forwarded: Message) -> None:
    """Brokers forward these requests. The controller has no authorizer, and no secret for tokens."""
    api = API_BY_KEY[forwarded.API_KEY]
    version = api.latest_stable
    envelope = EnvelopeRequest(request_data=encode_request_header(api, version, 1, "x") + forwarded.encode(version),
                               client_host_address=b"\x7f\0\0\1")
    with Connection("127.0.0.1", node.controller_port) as controller:
        answer = controller.send(envelope, EnvelopeResponse)
    assert (answer.error_code, answer.response_data is None) == (ErrorCode.NONE, False)
    assert answer.response_data is not None
    _, body = decode_response_header(answer.response_data, api, version)
    found: Any = api.response.decode(body, version)
    code = found.error_code if forwarded in TOKENS else next(
        each.error_code for each in getattr(found, "results", None) or found.filter_results)
    assert code == (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED if forwarded in TOKENS else DISABLED)


@pytest.mark.parametrize("request_", TOKENS, ids=lambda each: type(each).__name__)
def test_a_client_of_a_plain_controller_has_no_tokens(node: NodeProcess, request_: Message) -> None:
    api = API_BY_KEY[request_.API_KEY]
    with Connection("127.0.0.1", node.controller_port) as controller:
        answer: Any = controller.send(request_, api.response)
    assert answer.error_code == NOT_ALLOWED
