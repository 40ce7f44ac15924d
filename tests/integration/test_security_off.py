"""Requests about authentication on a listener without it: answered as Kafka does, and the connection serves on."""

from kraft.protocol.apis import API_BY_NAME
from kraft.protocol.error_codes import ErrorCode
from kraft.protocol.message import Message
from kraft.protocol.messages.describe_acls_request import DescribeAclsRequest
from kraft.protocol.messages.metadata_request import MetadataRequest
from kraft.protocol.messages.metadata_response import MetadataResponse
from kraft.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kraft.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from tests.integration.admin import connect
from tests.integration.process import NodeProcess


def test_sasl_on_a_plain_listener(node: NodeProcess) -> None:
    """Whatever the mechanism, however often and however large: refused, never believed."""
    asked: list[tuple[str, Message]] = [
        ("SaslHandshake", SaslHandshakeRequest(mechanism=mechanism)) for mechanism in ("PLAIN", "NONE", "x" * 30_000)]
    asked += [("SaslAuthenticate", SaslAuthenticateRequest(auth_bytes=bytes(size))) for size in (0, 10, 524_289)]
    with connect(node) as connection:
        for name, request in asked * 20:
            answer = connection.send(request, API_BY_NAME[name].response)
            assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert connection.send(MetadataRequest(topics=[]), MetadataResponse).brokers


def test_acls_without_an_authorizer(node: NodeProcess) -> None:
    with connect(node) as connection:
        answer = connection.send(DescribeAclsRequest(resource_type_filter=2, pattern_type_filter=3, operation=2,
                                                     permission_type=2), API_BY_NAME["DescribeAcls"].response)
        assert answer.error_code == ErrorCode.SECURITY_DISABLED
